"""DNS messages (RFC 1035), as much of them as a stub resolver needs: one question out, its addresses back.

Travels to hosts. Pure bytes: who sends them, and when again, is the agent's business.
"""

from __future__ import annotations

import socket
import struct

TYPE_A = 1
TYPE_AAAA = 28
_TYPE_OPT = 41
_OPTION_PADDING = 12
_OPTION_BYTES = 15
_RESPONSE, _TRUNCATED, _RECURSION_DESIRED = 0x8000, 0x0200, 0x0100
_RCODES = {1: "FORMERR", 2: "SERVFAIL", 3: "NXDOMAIN", 4: "NOTIMP", 5: "REFUSED"}


def record_type(ipver: int) -> int:
    """A for IPv4, AAAA for IPv6 (RFC 3596)."""
    return TYPE_AAAA if ipver == 6 else TYPE_A


def _labels(name: str) -> bytes:
    return b"".join(bytes([len(part)]) + part.encode("ascii") for part in name.split(".")) + b"\0"


def least_padded(name: str) -> int:
    """The size in bytes of the smallest query for `name` that can be padded."""
    return len(query(name, TYPE_A, 0)) + _OPTION_BYTES


def query(name: str, rtype: int, ident: int, *, size: int = 0) -> bytes:
    """A query for `name`; with `size` it is padded to exactly that many bytes by an EDNS option (RFC 7830).

    `size` must be 0 or at least `least_padded`, as the option itself needs 15 bytes.
    """
    question = _labels(name) + struct.pack("!HH", rtype, 1)
    plain = struct.pack("!HHHHHH", ident, _RECURSION_DESIRED, 1, 0, 0, 1 if size else 0) + question
    if not size:
        return plain
    padding = size - len(plain) - _OPTION_BYTES
    if padding < 0:
        raise ValueError(f"a padded query for {name} needs at least {len(plain) + _OPTION_BYTES} bytes, not {size}")
    option = struct.pack("!HH", _OPTION_PADDING, padding) + bytes(padding)
    return plain + b"\0" + struct.pack("!HHIH", _TYPE_OPT, 4096, 0, len(option)) + option


def _skip_name(message: bytes, at: int) -> int:
    while True:
        length = message[at]
        if length >= 0xC0:
            return at + 2
        at += 1 + length
        if length == 0:
            return at


def answer(message: bytes, rtype: int) -> tuple[str, str]:
    """The first address of type `rtype` in a response, and why there is none: exactly one of the two is empty."""
    try:
        _, flags, questions, answers, _, _ = struct.unpack_from("!HHHHHH", message)
        if not flags & _RESPONSE:
            return "", "not a response"
        if flags & 0x0F:
            return "", _RCODES.get(flags & 0x0F, f"RCODE {flags & 0x0F}")
        if flags & _TRUNCATED:
            return "", "truncated"
        at = 12
        for _ in range(questions):
            at = _skip_name(message, at) + 4
        for _ in range(answers):
            at = _skip_name(message, at)
            found, _, _, length = struct.unpack_from("!HHIH", message, at)
            at += 10
            if found == rtype:
                family = socket.AF_INET6 if rtype == TYPE_AAAA else socket.AF_INET
                return socket.inet_ntop(family, message[at : at + length]), ""
            at += length
    except (struct.error, IndexError, ValueError):
        return "", "malformed"
    return "", "no address"
