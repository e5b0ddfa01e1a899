"""Flows of a capture: the packets of both directions between two addresses and ports."""

from __future__ import annotations

import ipaddress
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pytest_ipperf.core.captures.headers import TCP, UDP, segment
from pytest_ipperf.core.captures.pcap import CapturedPacket
from pytest_ipperf.core.captures.rtp import RtpTrace
from pytest_ipperf.core.portable.errors import UsageError

_NAMES = {"UDP": UDP, "TCP": TCP}
_FORM = "udp, tcp/:5001, udp/192.0.2.1:5004 or udp/[2001:db8::1]:5004"
_SHOWN = 5
_HALF, _WHOLE = 1 << 31, 1 << 32

End = tuple[bytes, int]


@dataclass(slots=True)
class Direction:
    """Packets with payload in one direction: when they were captured, in ns since the epoch, and their bytes.

    `repeated` counts segments of TCP with nothing new, which are left out.
    """

    at_ns: array[int] = field(default_factory=lambda: array("q"))
    size_bytes: array[int] = field(default_factory=lambda: array("q"))
    repeated: int = 0
    rtp: RtpTrace = field(default_factory=RtpTrace)
    _after: int | None = None

    def note(self, at_ns: int, size_bytes: int) -> None:
        """Note a packet."""
        self.at_ns.append(at_ns)
        self.size_bytes.append(size_bytes)

    def is_new(self, sequence: int, size_bytes: int) -> bool:
        """Return whether a TCP segment has bytes that none before it had (RFC 9293, section 3.4)."""
        after = (sequence + size_bytes) % _WHOLE
        new = self._after is None or 0 < (after - self._after) % _WHOLE < _HALF
        if new:
            self._after = after
        return new


@dataclass(slots=True)
class Flow:
    """Flow of `protocol` between a client, which sent first or opened the connection, and a server."""

    protocol: int
    client: End
    server: End
    up: Direction = field(default_factory=Direction)
    down: Direction = field(default_factory=Direction)

    @property
    def packets(self) -> int:
        """Return the packets with payload, of both directions."""
        return len(self.up.at_ns) + len(self.down.at_ns)

    def __str__(self) -> str:
        """Return the flow as people write it: `UDP 192.0.2.1:5004 - 192.0.2.2:5004`."""
        return f"{'TCP' if self.protocol == TCP else 'UDP'} {_end_text(self.client)} - {_end_text(self.server)}"


def flows_of(packets: Iterable[CapturedPacket]) -> list[Flow]:
    """Return the flows of UDP and TCP, those with the most packets first."""
    found: dict[tuple[int, frozenset[End]], Flow] = {}
    for at_ns, link_type, data in packets:
        of = segment(link_type, data)
        if of is None:
            continue
        key = (of.protocol, frozenset((of.source, of.target)))
        flow = found.get(key)
        if flow is None:
            flow = found[key] = Flow(of.protocol, of.source, of.target)
        elif of.opens and not flow.packets:
            flow.client, flow.server = of.source, of.target
        if of.size_bytes <= 0:
            continue
        direction = flow.up if of.source == flow.client else flow.down
        if of.protocol == TCP and not direction.is_new(of.sequence, of.size_bytes):
            direction.repeated += 1
            continue
        direction.note(at_ns, of.size_bytes)
        if of.protocol == UDP:
            direction.rtp.note(of.payload, at_ns)
    return sorted(found.values(), key=lambda flow: -flow.packets)


def chosen_flow(flows: Sequence[Flow], wanted: str) -> Flow:
    """Return the largest flow that `wanted` describes, or of all if it is empty.

    It is a protocol, an address and a port of the same end, each of which may be left out. Raises UsageError if it is
    wrong, or if there is no such flow.
    """
    if not flows:
        raise UsageError("no packet of it is UDP or TCP over IP")
    fits = [flow for flow in flows if _fits(flow, wanted)] if wanted else flows
    if not fits:
        shown = ", ".join(map(str, flows[:_SHOWN]))
        more = f" and {len(flows) - _SHOWN} more" if len(flows) > _SHOWN else ""
        raise UsageError(f"--flow: no flow is {wanted!r}; there are {shown}{more}")
    return fits[0]


def _fits(flow: Flow, wanted: str) -> bool:
    protocol, address, port = _parsed(wanted)
    return (protocol is None or flow.protocol == protocol) and any(
        (address is None or end[0] == address) and (port is None or end[1] == port)
        for end in (flow.client, flow.server)
    )


def _parsed(wanted: str) -> tuple[int | None, bytes | None, int | None]:
    name, slash, rest = wanted.rpartition("/")
    if not slash and wanted.upper() in _NAMES:
        name, rest = wanted, ""
    if name and name.upper() not in _NAMES:
        raise UsageError(f"--flow: {name!r} is no protocol; a flow is given as {_FORM}")
    alone = ":" not in rest or rest.endswith("]") or ("[" not in rest and rest.count(":") > 1)
    host, _, port = (rest, "", "") if alone else rest.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    try:
        address = ipaddress.ip_address(bare).packed if bare else None
    except ValueError:
        raise UsageError(f"--flow: {bare!r} is no address; a flow is given as {_FORM}") from None
    if port and not (port.isdecimal() and int(port) < 65536):
        raise UsageError(f"--flow: {port!r} is no port; a flow is given as {_FORM}")
    return _NAMES.get(name.upper()), address, int(port) if port else None


def _end_text(end: End) -> str:
    address = ipaddress.ip_address(end[0])
    return f"[{address}]:{end[1]}" if address.version == 6 else f"{address}:{end[1]}"
