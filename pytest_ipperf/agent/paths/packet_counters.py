"""Counters of a run's packets and of TCP's errors on this host, from one reading to the next."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pytest_ipperf.agent.kernel.counters import deltas, tcp_error_counters
from pytest_ipperf.agent.paths import routes


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPackets:
    """Packets of a host in a run: those it sent by IP version, those of protocol 41, and bare IPv6 ones of its port.

    `protocol41` and `bare_ipv6` are by direction, `in` and `out`; None if they are not counted. So is `merged`: the
    packets of its ports that are larger than the MTU, as segmentation and receive offloads make them.
    """

    packets: dict[str, int] = field(default_factory=dict)
    protocol41: dict[str, int] | None = None
    bare_ipv6: dict[str, int] | None = None
    merged: dict[str, int] | None = None

    @property
    def tunnelled(self) -> int:
        """Return the number of packets that were in a tunnel, or should have been in one."""
        return sum(sum(counts.values()) for counts in (self.protocol41, self.bare_ipv6) if counts)


class RunCounters:
    """Packet counters from construction until `close`; a reading resets them for all readers."""

    def __init__(self) -> None:
        self._protocol41 = routes.Protocol41()
        self._bare: routes.BareIpv6 | None = None
        self._merged: list[routes.MergedPackets] = []
        self._tcp = tcp_error_counters()
        self._sent = routes.ip_packets()
        self._still_since = time.monotonic()

    def watch(self, device: str) -> None:
        """Count the bare IPv6 packets of this device too, from now on."""
        self._bare = routes.BareIpv6(device)

    def watch_merged(self, devices: Sequence[str]) -> None:
        """Count the packets of these devices that are larger than their MTU, from now on; those of no others."""
        while self._merged:
            self._merged.pop().close()
        self._merged = [routes.MergedPackets(device) for device in devices]

    def read(self) -> RunPackets:
        """Return the packets since the last reading, without `packets`, which are a run's."""
        bare = self._bare.count() if self._bare else None
        counts = [each.count() for each in self._merged]
        merged = {way: sum(each[way] for each in counts if each) for way in ("in", "out")} if all(counts) else None
        found = RunPackets(protocol41=self._protocol41.count(), bare_ipv6=bare, merged=merged if counts else None)
        if found.tunnelled:
            self._still_since = time.monotonic()
        return found

    def wait_drained(self, still_s: float, limit_s: float) -> bool:
        """Reset the counters once no packet in a tunnel was seen for `still_s`; return False if that takes too long.

        Earlier readings count, so there is no wait if the last packet was long ago.
        """
        end = time.monotonic() + limit_s
        self.read()
        while (left_s := self._still_since + still_s - time.monotonic()) > 0:
            if left_s > end - time.monotonic():
                return False
            time.sleep(left_s)
            self.read()
        return True

    def begin(self) -> None:
        """Reset the counters, as a run begins."""
        self.read()
        self._sent = routes.ip_packets()

    def run(self) -> RunPackets:
        """Return the packets since the run began."""
        after = routes.ip_packets()
        sent = {version: after[version] - before for version, before in self._sent.items()}
        return replace(self.read(), packets=sent)

    def tcp(self) -> dict[str, int]:
        """Return the TCP error counters that have moved since the last reading."""
        before, self._tcp = self._tcp, tcp_error_counters()
        return deltas(before, self._tcp)

    def close(self) -> None:
        """Stop counting."""
        self.watch_merged(())
        if self._bare:
            self._bare.close()
        self._protocol41.close()
