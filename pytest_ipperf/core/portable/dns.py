"""DNS messages (RFC 1035) as far as a stub resolver needs them: one question, and the addresses of its answer.

Travels to hosts. Pure bytes: sending and repeating them is the agent's business.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

TYPE_A = 1
TYPE_AAAA = 28
TTL_S = 0
"""Time to live of every record that the project's name servers hold; zero, so that nobody may cache an answer."""
_TYPE_OPT = 41
_CLASS_IN = 1
_OPTION_PADDING = 12
_OPTION_BYTES = 15
_HEADER_BYTES, _LONGEST_NAME = 12, 255
_RESPONSE, _OPCODE, _AUTHORITATIVE = 0x8000, 0x7800, 0x0400
_TRUNCATED, _RECURSION_DESIRED, _RESERVED = 0x0200, 0x0100, 0x0040
_RCODES = {1: "FORMERR", 2: "SERVFAIL", 3: "NXDOMAIN", 4: "NOTIMP", 5: "REFUSED"}
_TYPES = {TYPE_A: "A", TYPE_AAAA: "AAAA", 5: "CNAME", 6: "SOA", 2: "NS"}
_FAMILIES = {TYPE_A: socket.AF_INET, TYPE_AAAA: socket.AF_INET6}
_SHOWN, _SHOWN_CHARACTERS = 3, 60


@dataclass(frozen=True, slots=True)
class DnsAnswer:
    """Answer of a message: the `address`, or else the `trouble`.

    `differs` tells a well-formed answer that contradicts the zone from a message that answers nothing.
    """

    address: str
    trouble: str = ""
    differs: bool = False


def record_type(ipver: int) -> int:
    """Return the record type of addresses of an IP version: A for IPv4, AAAA for IPv6 (RFC 3596)."""
    return TYPE_AAAA if ipver == 6 else TYPE_A


def _labels(name: str) -> bytes:
    return b"".join(bytes([len(part)]) + part.encode("ascii") for part in name.split(".")) + b"\0"


def least_padded(name: str) -> int:
    """Return the size in bytes of the smallest query for `name` that can be padded."""
    return len(query(name, TYPE_A, 0)) + _OPTION_BYTES


def question(name: str, rtype: int) -> bytes:
    """Return the question section that asks for records of a type in class IN (RFC 1035, section 4.1.2)."""
    return _labels(name) + struct.pack("!HH", rtype, _CLASS_IN)


def query(name: str, rtype: int, ident: int, *, size: int = 0) -> bytes:
    """Return a query for `name`; with `size` it is padded to exactly that many bytes by an EDNS option (RFC 7830).

    `size` must be 0 or at least `least_padded`, as the option itself needs 15 bytes.
    """
    plain = struct.pack("!HHHHHH", ident, _RECURSION_DESIRED, 1, 0, 0, 1 if size else 0) + question(name, rtype)
    if not size:
        return plain
    padding = size - len(plain) - _OPTION_BYTES
    if padding < 0:
        raise ValueError(f"a padded query for {name} needs at least {len(plain) + _OPTION_BYTES} bytes, not {size}")
    option = struct.pack("!HH", _OPTION_PADDING, padding) + bytes(padding)
    return plain + b"\0" + struct.pack("!HHIH", _TYPE_OPT, 4096, 0, len(option)) + option


# --- answers ----------------------------------------------------------------------------------------------------------


def answer(message: bytes, asked: bytes, addresses: Sequence[str]) -> DnsAnswer:
    """Judge a response to the question section `asked`, for whose name the zone holds exactly these `addresses`.

    The caller compares the identifier. A response counts only if it is authoritative, complete and without error,
    repeats the question, and has in its answer section exactly one address record of the asked type and class, with the
    zone's TTL, for each of the addresses (RFC 1035, section 4.1). No name of the zone is an alias.
    """
    return _judged(message[2:], asked, tuple(addresses))


@lru_cache(maxsize=64)  # a server's answers to one question differ in their identifiers alone
def _judged(message: bytes, asked: bytes, addresses: tuple[str, ...]) -> DnsAnswer:
    try:
        trouble = _refusal(b"\0\0" + message)
        differs = "" if trouble else _difference(b"\0\0" + message, asked, addresses)
    except (struct.error, IndexError, ValueError):
        return DnsAnswer("", "malformed")
    if trouble or differs:
        return DnsAnswer("", trouble or differs, differs=bool(differs))
    return DnsAnswer(addresses[0])


def _refusal(message: bytes) -> str:
    """Return why a message is no answer at all, judged by its header; empty if it is one."""
    flags = struct.unpack_from("!H", message, 2)[0]
    if len(message) < _HEADER_BYTES:
        raise ValueError("no header")
    if not flags & _RESPONSE:
        return "not a response"
    if flags & _OPCODE:
        return f"opcode {(flags & _OPCODE) >> 11}"
    if flags & 0x0F:
        return _RCODES.get(flags & 0x0F, f"RCODE {flags & 0x0F}")
    if flags & _TRUNCATED:
        return "truncated"
    if flags & _RESERVED:
        raise ValueError("no such flags")
    return ""


def _difference(message: bytes, asked: bytes, addresses: tuple[str, ...]) -> str:
    """Describe in a clause how an answer differs from the zone; empty if it does not."""
    flags, questions, answers, authorities, additionals = struct.unpack_from("!5H", message, 2)
    wanted = _owner(asked)
    at, found = _HEADER_BYTES, []
    for _ in range(questions):
        name, at = _name(message, at)
        found.append(name + message[at : at + 4])
        at += 4
    records = []
    for place in range(answers + authorities + additionals):
        record, at = _record(message, at)
        records += [record] * (place < answers)
        if record.rtype == _TYPE_OPT and (place < answers + authorities or record.owner != b"\0" or record.ttl_s >> 24):
            raise ValueError("no such OPT")  # its TTL begins with more of the RCODE (RFC 6891, section 6.1.3)
    if at != len(message):
        raise ValueError("more or less than a message")
    if found != [wanted]:
        about = _text(found[0][:-4]) if len(found) == 1 else f"{len(found)} questions"
        return f"expected an answer about {_text(wanted[:-4])} {_type(wanted)}, seen one about {about}"
    return _wrong_records(wanted, records, addresses) or (
        "" if flags & _AUTHORITATIVE else "expected an authoritative answer, seen one without the AA flag"
    )


@dataclass(frozen=True, slots=True)
class _Record:
    owner: bytes
    rtype: int
    rclass: int
    ttl_s: int
    data: bytes

    @property
    def key(self) -> bytes:
        """Return the record's owner, type and class in the form of a question."""
        return self.owner + struct.pack("!HH", self.rtype, self.rclass)

    def __str__(self) -> str:
        words = [_TYPES.get(self.rtype, f"TYPE{self.rtype}")]
        if self.rclass != _CLASS_IN:
            words.append(f"CLASS{self.rclass}")
        if self.rtype in _FAMILIES:
            words.append(socket.inet_ntop(_FAMILIES[self.rtype], self.data))
        return " ".join(words)


def _wrong_records(wanted: bytes, records: Sequence[_Record], addresses: tuple[str, ...]) -> str:
    rtype = struct.unpack_from("!H", wanted, len(wanted) - 4)[0]
    expected = sorted(socket.inet_pton(_FAMILIES[rtype], each) for each in addresses)
    right = all(record.key == wanted for record in records)
    if not right or not expected or sorted(record.data for record in records) != expected:
        seen = [str(record) + _elsewhere(record, wanted) for record in records]
        more = f" and {len(seen) - _SHOWN} more" if len(seen) > _SHOWN else ""
        zones = f"{_type(wanted)} {', '.join(addresses) or 'of no address'}"
        return f"expected {zones} for {_text(wanted[:-4])}, seen {', '.join(seen[:_SHOWN]) or 'no record'}{more}"
    for record in records:
        if record.ttl_s != TTL_S:
            return f"expected a TTL of {TTL_S} s for {_text(wanted[:-4])}, seen {record.ttl_s} s"
    return ""


def _elsewhere(record: _Record, wanted: bytes) -> str:
    return "" if record.owner == wanted[:-4] else f" for {_text(record.owner)}"


def _owner(asked: bytes) -> bytes:
    """Return a question with its name in lower case, as names are compared (RFC 1035, section 2.3.3)."""
    return asked[:-4].lower() + asked[-4:]


def _type(wanted: bytes) -> str:
    return _TYPES[struct.unpack_from("!H", wanted, len(wanted) - 4)[0]]


def _text(name: bytes) -> str:
    """Return a name from the wire as text."""
    labels, at = [], 0
    while name[at]:
        labels.append(name[at + 1 : at + 1 + name[at]])
        at += 1 + name[at]
    text = ".".join(repr(label)[2:-1] for label in labels) or "."
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."


def _record(message: bytes, at: int) -> tuple[_Record, int]:
    owner, at = _name(message, at)
    rtype, rclass, ttl_s, length = struct.unpack_from("!HHIH", message, at)
    at += 10
    data = message[at : at + length]
    if len(data) != length or (rtype in _FAMILIES and length != (16 if rtype == TYPE_AAAA else 4)):
        raise ValueError("another length")
    return _Record(owner, rtype, rclass, ttl_s, data), at + length


def _name(message: bytes, at: int) -> tuple[bytes, int]:
    """Return the uncompressed name at a place, in lower case, and the place where it ends (RFC 1035, section 4.1.4).

    Raise ValueError or IndexError if there is none. A pointer has to point backwards, which excludes loops.
    """
    found, begun, end = b"", at, 0
    while True:
        length = message[at]
        if length >= 0xC0:
            end = end or at + 2
            at = (length & 0x3F) << 8 | message[at + 1]
            if not _HEADER_BYTES <= at < begun:
                raise ValueError("no pointer back")
            begun = at
            continue
        label = message[at : at + 1 + length]
        if length > 63 or len(label) <= length or len(found) + len(label) > _LONGEST_NAME:
            raise ValueError("no name")
        found += label.lower()
        at += 1 + length
        if not length:
            return found, end or at
