"""Name server: A and AAAA of one zone over UDP (RFC 1035, RFC 3596), fast enough never to be what is measured.

If a name has the address at which the server was asked, the answer has no other address of that family. Authoritative,
TTL 0, no EDNS: an OPT record and its padding are ignored (RFC 6891, section 7).
"""

from __future__ import annotations

import contextlib
import json
import platform
import signal
import socket
import struct
import sys
from collections.abc import Mapping, Sequence
from functools import partial

from pytest_ipperf.servers.base import Entry, Server, Site, answer_datagrams, zone_at

_HEADER_BYTES = 12
# A header and the longest question, as one name has 255 bytes at most; the kernel drops the rest of a longer query.
_READ_BYTES = _HEADER_BYTES + 255 + 4
_OPCODE, _RECURSION_DESIRED = 0x78, 0x01
_FORMERR, _NXDOMAIN, _NOTIMP = 1, 3, 4

Answers = Mapping[bytes, tuple[int, bytes]]
"""Number of records and the records, by question in wire format and lower case."""


class Nameserver(Server):
    """Embedded name server of one process and one thread; the zone is on its command line."""

    name = "nameserver"
    protocol = "dns"
    embedded = True
    apt = ""
    needs = "nothing; it answers the look-ups of the other protocols too"
    # A query for the root's address, which is in no zone of ours: NXDOMAIN with the AA flag.
    probe = (struct.pack("!HHHHHHBHH", 0x4950, 0, 1, 0, 0, 0, 0, 1, 1), b"IP\x84\x03")

    def missing(self) -> str:
        return ""

    def version(self) -> str:
        return f"Python {platform.python_version()}"

    def entries(self, site: Site) -> Sequence[Entry]:
        del site
        return ()

    def argv(self, site: Site) -> Sequence[str]:
        config = {"addresses": site.addresses, "port": site.port, "zone": dict(site.zone)}
        return ("python", "-m", __name__, json.dumps(config))


def answers(zone: Mapping[str, Sequence[str]]) -> Answers:
    """Return all answers of a zone, made once; a name without addresses of a family has an answer of no records."""
    found: dict[bytes, tuple[int, bytes]] = {}
    for name, addresses in zone.items():
        labels = [label.encode("ascii") for label in name.lower().rstrip(".").split(".")]
        wire = b"".join(bytes([len(label)]) + label for label in labels) + b"\0"
        for rtype, family in ((1, socket.AF_INET), (28, socket.AF_INET6)):
            records = [
                # A pointer to the question's name, then type, class IN, TTL 0.
                struct.pack("!HHHIH", 0xC000 | _HEADER_BYTES, rtype, 1, 0, len(data)) + data
                for data in (
                    socket.inet_pton(family, address)
                    for address in addresses
                    if (":" in address) == (family == socket.AF_INET6)
                )
            ]
            found[wire + struct.pack("!HH", rtype, 1)] = (len(records), b"".join(records))
    return found


def reply(query: bytes, known: Answers) -> bytes:
    """Return the response to a query, of which the first bytes suffice; empty if it must not be answered."""
    end = query.find(b"\0", _HEADER_BYTES) + 5
    question = query[_HEADER_BYTES:end]
    found = known.get(question.lower())
    # Fast path: the plain query for a known name, which is all that a measurement sends.
    if found and query[2] & ~_RECURSION_DESIRED == 0 and query[4:6] == b"\0\1":
        flags = 0x84 | query[2]
        return struct.pack("!2sBBHHHH", query[:2], flags, 0, 1, found[0], 0, 0) + question + found[1]
    return _unusual(query, known)


def _unusual(query: bytes, known: Answers) -> bytes:
    if len(query) < _HEADER_BYTES or query[2] & 0x80:  # no message, or a response: two servers could loop
        return b""
    kept = query[2] & (_OPCODE | _RECURSION_DESIRED)
    if query[2] & _OPCODE:
        return struct.pack("!2sBB8x", query[:2], 0x80 | kept, _NOTIMP)
    question = _question(query)
    if not question:
        return struct.pack("!2sBB8x", query[:2], 0x80 | kept, _FORMERR)
    # Each name of the zone has an answer of type A, be it of no records.
    rcode = 0 if question[:-4].lower() + b"\0\1\0\1" in known else _NXDOMAIN
    return struct.pack("!2sBBHHHH", query[:2], 0x84 | kept, rcode, 1, 0, 0, 0) + question


def _question(query: bytes) -> bytes:
    """Return the only question, walked label by label; empty if it is malformed or not the only one."""
    at = _HEADER_BYTES
    with contextlib.suppress(IndexError):
        while query[at]:
            if query[at] > 63 or query[4:6] != b"\0\1":
                return b""
            at += 1 + query[at]
        return query[_HEADER_BYTES : at + 5] if len(query) >= at + 5 and at < _HEADER_BYTES + 255 else b""
    return b""


def main(argv: Sequence[str]) -> None:
    """Serve until SIGTERM; the only argument is the configuration from `Nameserver.argv`, as JSON."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    config = json.loads(argv[0])
    port, zone = config["port"], config["zone"]
    known = {address: answers(zone_at(zone, address)) for address in config["addresses"]}
    answer_datagrams(port, {address: partial(reply, known=found) for address, found in known.items()}, _READ_BYTES)


server = Nameserver()

if __name__ == "__main__":
    main(sys.argv[1:])
