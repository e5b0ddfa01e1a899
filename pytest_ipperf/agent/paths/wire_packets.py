"""IP packets that a device of this host sends, with their bytes and the fragments among them, for overhead on the wire.

The device's own counters are read, so everything that it sends counts, also of other programs. A packet that the device
has to split counts as one, without the headers of its parts, so a count with such packets is none. So is that of a
loopback device, which sends the packets of both ends.
"""

from __future__ import annotations

from typing import NamedTuple

from pytest_ipperf.agent.kernel.interface_bytes import interface_bytes
from pytest_ipperf.agent.paths.routes import MergedPackets, fragments_made, hardware_type

_ETHERNET, _LOOPBACK = 1, 772
"""Hardware types of devices (linux/if_arp.h)."""
_ETHERNET_BYTES = 14
"""Header of a frame as the counters have it, without preamble and check sequence."""


class WirePackets(NamedTuple):
    """IP packets sent, their bytes from the outermost IP header on, and how many of them are fragments."""

    packets: int
    ip_bytes: int
    fragments: int


class WireCounter:
    """Counter of the packets that a device sends from construction until `count`, which may be called once."""

    def __init__(self, device: str) -> None:
        self._device = device
        kind = hardware_type(device)
        self._header_bytes, self._tells = _ETHERNET_BYTES if kind == _ETHERNET else 0, kind != _LOOPBACK
        self._merged = MergedPackets(device)
        self._sent, self._fragments = interface_bytes(device), fragments_made()

    def count(self) -> WirePackets | None:
        """Return what was sent; None if the device does not tell that, or this user may not know whether it does."""
        sent, fragments, merged = interface_bytes(self._device), fragments_made(), self._merged.count()
        self._merged.close()
        if not self._tells or merged is None or merged["out"]:
            return None
        packets = sent.sent_packets - self._sent.sent_packets
        ip_bytes = sent.sent - self._sent.sent - packets * self._header_bytes
        return WirePackets(packets, ip_bytes, fragments - self._fragments)
