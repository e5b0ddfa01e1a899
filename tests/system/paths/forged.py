"""Sends one echo request in protocol 41 (RFC 4213, section 3) whose addresses are what the sender says they are.

Arguments: the outer source and destination, the inner source and destination.
"""

import socket
import struct
import sys


def checksum(data: bytes) -> int:
    """The Internet checksum (RFC 1071)."""
    total: int = sum(struct.unpack(f">{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    return ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF


def packet(source: str, destination: str) -> bytes:
    """An ICMPv6 echo request (RFC 4443, section 4.1) with its IPv6 header."""
    addresses = socket.inet_pton(socket.AF_INET6, source) + socket.inet_pton(socket.AF_INET6, destination)
    echo = struct.pack(">BBHHH", 128, 0, 0, 0x1234, 1) + b"x" * 8
    found = checksum(addresses + struct.pack(">II", len(echo), 58) + echo)
    header = struct.pack(">IHBB", 6 << 28, len(echo), 58, 64)
    return header + addresses + echo[:2] + struct.pack(">H", found) + echo[4:]


def main(outer_source: str, outer_destination: str, source: str, destination: str) -> None:
    """Sends it."""
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_IPV6) as sock:
        sock.bind((outer_source, 0))
        sock.sendto(packet(source, destination), (outer_destination, 0))


main(*sys.argv[1:])
