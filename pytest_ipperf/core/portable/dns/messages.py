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
TYPE_TXT = 16
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
_TYPES = {TYPE_A: "A", TYPE_AAAA: "AAAA", TYPE_TXT: "TXT", 5: "CNAME", 6: "SOA", 2: "NS"}
_FAMILIES = {TYPE_A: socket.AF_INET, TYPE_AAAA: socket.AF_INET6}
_SHOWN, _SHOWN_CHARACTERS, _SHOWN_BYTES = 3, 60, 12
_LONGEST_STRING = 255


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


def text_data(text: bytes) -> bytes:
    """Return the data of a TXT record: a text in character strings of 255 bytes (RFC 1035, section 3.3.14)."""
    parts = (text[at : at + _LONGEST_STRING] for at in range(0, max(1, len(text)), _LONGEST_STRING))
    return b"".join(bytes([len(part)]) + part for part in parts)


def edns(udp_bytes: int) -> bytes:
    """Return an OPT record for the largest datagram that its sender can receive (RFC 6891, section 6.1.2)."""
    return b"\0" + struct.pack("!HHIH", _TYPE_OPT, udp_bytes, 0, 0)


def edns_query(name: str, rtype: int, udp_bytes: int = 0) -> bytes:
    """Return a query with identifier 0; it has an OPT record if `udp_bytes`, the largest datagram, are not 0."""
    opt = edns(udp_bytes) if udp_bytes else b""
    return struct.pack("!HHHHHH", 0, _RECURSION_DESIRED, 1, 0, 0, 1 if opt else 0) + question(name, rtype) + opt


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
    family = _FAMILIES[struct.unpack_from("!H", asked, len(asked) - 4)[0]]
    found = _judged(message[2:], asked, tuple(socket.inet_pton(family, each) for each in addresses), 0)
    return found if found.trouble else DnsAnswer(addresses[0])


def records_answer(message: bytes, asked: bytes, data: Sequence[bytes], cached_ttl_s: int = 0) -> DnsAnswer:
    """Judge a response like `answer`, for records of any type with exactly these `data`; `address` stays empty.

    With `cached_ttl_s` the response may come from a cache: its records may have any TTL up to that, and it need not be
    authoritative.
    """
    return _judged(message[2:], asked, tuple(data), cached_ttl_s)


@lru_cache(maxsize=64)  # a server's answers to one question differ in their identifiers alone
def _judged(message: bytes, asked: bytes, data: tuple[bytes, ...], cached_ttl_s: int) -> DnsAnswer:
    try:
        trouble = _refusal(b"\0\0" + message)
        differs = "" if trouble else _difference(b"\0\0" + message, asked, data, cached_ttl_s)
    except (struct.error, IndexError, ValueError):
        return DnsAnswer("", "malformed")
    return DnsAnswer("", trouble or differs, differs=bool(differs))


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


def _difference(message: bytes, asked: bytes, data: tuple[bytes, ...], cached_ttl_s: int) -> str:
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
    return _wrong_records(wanted, records, data, cached_ttl_s) or (
        ""
        if flags & _AUTHORITATIVE or cached_ttl_s
        else "expected an authoritative answer, seen one without the AA flag"
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
        if self.rtype in _FAMILIES or self.rtype == TYPE_TXT:
            words.append(_data_text(self.rtype, self.data))
        return " ".join(words)


def _data_text(rtype: int, data: bytes) -> str:
    if rtype in _FAMILIES:
        return socket.inet_ntop(_FAMILIES[rtype], data)
    return f"of {len(data)} bytes {data[1 : 1 + _SHOWN_BYTES]!r}"


def _wrong_records(wanted: bytes, records: Sequence[_Record], data: tuple[bytes, ...], cached_ttl_s: int) -> str:
    rtype = struct.unpack_from("!H", wanted, len(wanted) - 4)[0]
    right = all(record.key == wanted for record in records)
    if not right or not data or sorted(record.data for record in records) != sorted(data):
        seen = [str(record) + _elsewhere(record, wanted) for record in records]
        more = f" and {len(seen) - _SHOWN} more" if len(seen) > _SHOWN else ""
        zones = f"{_type(wanted)} {', '.join(_data_text(rtype, each) for each in data) or 'of no address'}"
        return f"expected {zones} for {_text(wanted[:-4])}, seen {', '.join(seen[:_SHOWN]) or 'no record'}{more}"
    for record in records:
        if not (record.ttl_s <= cached_ttl_s if cached_ttl_s else record.ttl_s == TTL_S):
            most = f"at most {cached_ttl_s}" if cached_ttl_s else TTL_S
            return f"expected a TTL of {most} s for {_text(wanted[:-4])}, seen {record.ttl_s} s"
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
