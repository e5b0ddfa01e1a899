"""Echo requests of ICMP (RFC 792, RFC 4443), on a raw socket or on the kernel's ping socket."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

from pytest_ipperf.agent.flows.rtt.frame import Frame
from pytest_ipperf.core.portable.errors import LabError

_REQUEST, _REPLY = {False: 8, True: 128}, {False: 0, True: 129}
_HEADER = struct.Struct("!BBHHH")  # type, code, checksum, identifier, sequence number
_IP_BYTES = 20  # before a reply on a raw socket: a header without options, as the request had none
_SOL_RAW, _ICMP_FILTER, _ICMP6_FILTER = 255, 1, 1
_GROUPS = Path("/proc/sys/net/ipv4/ping_group_range")  # of IPv6 too


class EchoRequest(Frame):
    """Echo request around a probe's message, with a checksum of its own on a `raw` socket over IPv4.

    Otherwise the kernel sets the checksum, and on a ping socket the identifier too.
    """

    def __init__(self, ident: int, payload_bytes: int, *, six: bool, raw: bool) -> None:
        super().__init__(ident, payload_bytes, before=_HEADER.pack(_REQUEST[six], 0, 0, ident & 0xFFFF, 0))
        self.name = "raw" if raw else "ping"
        self._summed = raw and not six
        self._reply_at += _IP_BYTES if self._summed else 0
        # A ones' complement sum of 16-bit words is the number modulo 65535 (RFC 1071).
        self._total = int.from_bytes(self.message + bytes(len(self.message) % 2), "big") % 0xFFFF

    def set_number(self, number: int) -> None:
        """Set the number, and update the checksum."""
        super().set_number(number)
        low, high = number & 0xFFFF, number >> 16
        # The number is in the message, and its lower half also in the sequence number.
        checksum = -(self._total + low + high + low) % 0xFFFF if self._summed else 0
        struct.pack_into("!HHH", self.message, 2, checksum, self.ident & 0xFFFF, low)


def echo_socket(*, six: bool) -> tuple[socket.socket, bool]:
    """Return a socket that receives echo replies alone, and whether it is a raw one; raise LabError if refused."""
    family = socket.AF_INET6 if six else socket.AF_INET
    protocol = socket.IPPROTO_ICMPV6 if six else socket.IPPROTO_ICMP
    for kind in (socket.SOCK_RAW, socket.SOCK_DGRAM):
        try:
            sock = socket.socket(family, kind, protocol)
        except PermissionError:
            continue
        if kind == socket.SOCK_RAW:
            _filter(sock, six=six)
        return sock, kind == socket.SOCK_RAW
    raise LabError(
        "no ICMP echo can be sent here: a raw socket takes CAP_NET_RAW, and a ping socket a group within "
        f"net.ipv4.ping_group_range, which is '{' '.join(_GROUPS.read_text(encoding='ascii').split())}'; be root, or "
        "set it to '0 2147483647'"
    )


def _filter(sock: socket.socket, *, six: bool) -> None:
    """Filter out all types but replies, by a bit set for each unwanted type."""
    words = [0xFFFFFFFF] * (8 if six else 1)
    words[_REPLY[six] >> 5] &= ~(1 << (_REPLY[six] & 31))
    level, option = (socket.IPPROTO_ICMPV6, _ICMP6_FILTER) if six else (_SOL_RAW, _ICMP_FILTER)
    sock.setsockopt(level, option, struct.pack(f"={len(words)}I", *words))
