"""The ceiling: the highest goodput that a link's rate allows, after all overhead around the payload on Ethernet.

goodput = rate x payload / (packet + 38), each in bytes of one packet. The 38 are Ethernet's overhead for an IP packet
(IEEE 802.3, clauses 3 and 4.4.2; counted likewise by RFC 2544, section 20 and appendix B): preamble and start of frame
8, header 14, check sequence 4, gap 12. Padding of packets under 46 bytes is ignored, as shaped queues do not pad; the
result is still an upper bound.
"""

from __future__ import annotations

from dataclasses import dataclass

_HEADER_BYTES = 14
FRAME_BYTES = 8 + _HEADER_BYTES + 4 + 12
"""Overhead of Ethernet for each packet, without VLAN tag."""
_IP_BYTES = {4: 20, 6: 40}  # RFC 791, section 3.1; RFC 8200, section 3
_UDP_BYTES, _TCP_BYTES, _STAMP_BYTES = 8, 20, 12  # RFC 768; RFC 9293, section 3.1; RFC 7323, section 3, padded
_FRAGMENT_BYTES = 8  # RFC 8200, section 4.5; IPv4 has room for it in its header (RFC 791, section 3.2)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderOverhead:
    """The headers around the payload of each packet on a path.

    `overhead_bytes` is what the transport adds beside the IP header itself, `mtu` is the link's MTU, below the
    transport. With `datagram` the payload is that of UDP, else of TCP; `stamps` says whether TCP has the timestamps
    option.
    """

    ipver: int
    overhead_bytes: int = 0
    datagram: bool = False
    stamps: bool = True
    mtu: int = 1500

    @property
    def header_bytes(self) -> int:
        """Size of all headers of a packet, from the outermost IP header on."""
        tcp = _TCP_BYTES + (_STAMP_BYTES if self.stamps else 0)
        return self.overhead_bytes + _IP_BYTES[self.ipver] + (_UDP_BYTES if self.datagram else tcp)

    @property
    def max_payload_bytes(self) -> int:
        """Largest payload of one packet."""
        return self.mtu - self.header_bytes

    @property
    def interface_share(self) -> float:
        """Share of the rate that an interface counts in full packets: frames without preamble, check sequence and gap.

        It is the same for both IP versions, 1514 of 1538 bytes at an MTU of 1500.
        """
        return (self.mtu + _HEADER_BYTES) / (self.mtu + FRAME_BYTES)

    def payload_share(self, payload_bytes: int = 0) -> float:
        """Return the share of the rate that is payload, with `payload_bytes` in each packet (0: full packets).

        Datagrams may be larger than a packet; they travel in fragments. Raises ValueError for a TCP payload that does
        not fit.
        """
        held = payload_bytes or self.max_payload_bytes
        if self.datagram and held > self.max_payload_bytes:
            return held / (self.ip_bytes(held) + self.packets(held) * FRAME_BYTES)
        if not 0 < held <= self.max_payload_bytes:
            raise ValueError(f"a packet has room for 1 to {self.max_payload_bytes} bytes, not {held}")
        return held / (held + self.header_bytes + FRAME_BYTES)

    def packets(self, message_bytes: int) -> int:
        """Return the number of IP packets of a message sent alone: of a datagram its fragments, else TCP's segments.

        Each fragment but the last holds a multiple of 8 bytes.
        """
        if message_bytes <= self.max_payload_bytes:
            return 1
        if self.datagram:
            return -(-(message_bytes + _UDP_BYTES) // ((self.mtu - self._fragment_header_bytes) // 8 * 8))
        return -(-message_bytes // self.max_payload_bytes)

    def ip_bytes(self, message_bytes: int) -> int:
        """Return the bytes of those packets, from the outermost IP header on."""
        packets = self.packets(message_bytes)
        if self.datagram and packets > 1:
            return message_bytes + _UDP_BYTES + packets * self._fragment_header_bytes
        return message_bytes + packets * self.header_bytes

    def overhead_share(self, message_bytes: int) -> float:
        """Return the share of those bytes that is not payload (paper 004, section 4.3); without Ethernet's."""
        return 1 - message_bytes / self.ip_bytes(message_bytes)

    @property
    def _fragment_header_bytes(self) -> int:
        """Size of the headers of a fragment, without UDP's, which is in the first one."""
        return self.overhead_bytes + _IP_BYTES[self.ipver] + (_FRAGMENT_BYTES if self.ipver == 6 else 0)


def ceiling_bit_s(rate_bit_s: float, overhead: HeaderOverhead, payload_bytes: int = 0) -> float:
    """Return the highest goodput, in payload bits a second; packets are as in `HeaderOverhead.payload_share`."""
    return rate_bit_s * overhead.payload_share(payload_bytes)


def header_cost(test: HeaderOverhead, reference: HeaderOverhead, payload_bytes: int = 0) -> float:
    """Return the share by which headers alone lower the goodput of `test` below that of `reference`; at least 0."""
    return max(0.0, 1 - test.payload_share(payload_bytes) / reference.payload_share(payload_bytes))


def goodput_excess(
    moved_bytes: float,
    time_s: float,
    *,
    rate_bit_s: float,
    overhead: HeaderOverhead,
    bucket_bytes: float = 0.0,
    payload_bytes: int = 0,
) -> float:
    """Return the share by which payload moved in a time exceeds what the rate allows; 0 if it does not.

    A token bucket lets `bucket_bytes` of frames pass at once before it holds to its rate. Packets are full, or as in
    `HeaderOverhead.payload_share` with `payload_bytes`.
    """
    allowed_bytes = (rate_bit_s * time_s / 8 + bucket_bytes) * overhead.payload_share(payload_bytes)
    return max(0.0, moved_bytes / allowed_bytes - 1) if allowed_bytes else float(moved_bytes > 0)
