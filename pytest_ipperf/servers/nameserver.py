"""Name server: A and AAAA of one zone over UDP (RFC 1035, RFC 3596), fast enough never to be what is measured.

If a name has the address at which the server was asked, the answer has no other address of that family. Authoritative,
TTL 0, no EDNS for addresses: an OPT record and its padding are ignored (RFC 6891, section 7). Texts, of any size, are
served over TCP too (RFC 7766); an OPT record says how much of one fits a datagram.
"""

from __future__ import annotations

import contextlib
import json
import platform
import select
import signal
import socket
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import repeat
from typing import NoReturn

from pytest_ipperf.core.portable import dns
from pytest_ipperf.servers.base import Entry, Listener, Server, Site, datagram_socket, zone_at

_HEADER_BYTES = 12
# A header, the longest question, as one name has 255 bytes at most, and an OPT record without options; the kernel drops
# the rest of a longer query.
_READ_BYTES = _HEADER_BYTES + 255 + 4 + 11
_PLAIN_UDP_BYTES, _MOST_UDP_BYTES, _MOST_TCP_BYTES = 512, 4096, 65535
_OPT = b"\0\0\x29"
_ANY_LABEL = b"\1*"
_QUEUE, _STREAM_BYTES = 4096, 1 << 16
# Messages answered on one socket before the others get their turn.
_TURN = 64
_OPCODE, _RECURSION_DESIRED = 0x78, 0x01
_FORMERR, _NXDOMAIN, _NOTIMP = 1, 3, 4

Answers = Mapping[bytes, tuple[int, bytes]]
"""Number of records and the records, by question in wire format and lower case."""

Texts = Mapping[bytes, bytes]
"""The record that answers, by question in wire format and lower case; a first label `*` stands for any (RFC 4592)."""


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
        texts = {name: text.decode("ascii") for name, text in site.state.texts.items()}
        config = {"addresses": site.addresses, "port": site.port, "zone": dict(site.zone), "texts": texts}
        return ("python", "-m", __name__, json.dumps(config))


_NO_TEXTS: Texts = {}


def answers(zone: Mapping[str, Sequence[str]]) -> Answers:
    """Return all answers of a zone, made once; a name without addresses of a family has an answer of no records."""
    found: dict[bytes, tuple[int, bytes]] = {}
    for name, addresses in zone.items():
        wire = _wire(name)
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


def text_records(texts: Mapping[str, str]) -> Texts:
    """Return the TXT records of a zone by the questions that they answer."""
    found = {}
    for name, text in texts.items():
        data = dns.text_data(text.encode("ascii"))
        record = struct.pack("!HHHIH", 0xC000 | _HEADER_BYTES, dns.TYPE_TXT, 1, 0, len(data)) + data
        found[dns.question(name.lower().rstrip("."), dns.TYPE_TXT)] = record
    return found


def _wire(name: str) -> bytes:
    return dns.question(name.lower().rstrip("."), dns.TYPE_A)[:-4]


def reply(query: bytes, known: Answers, texts: Texts = _NO_TEXTS, most_bytes: int = 0) -> bytes:
    """Return the response to a query, of which the first bytes suffice; empty if it must not be answered.

    An answer with a text has at most `most_bytes`; 0: what fits the asker's datagrams.
    """
    end = query.find(b"\0", _HEADER_BYTES) + 5
    question = query[_HEADER_BYTES:end]
    found = known.get(question.lower())
    # Fast path: the plain query for a known name, which is all that a measurement sends.
    if found and query[2] & ~_RECURSION_DESIRED == 0 and query[4:6] == b"\0\1":
        flags = 0x84 | query[2]
        return struct.pack("!2sBBHHHH", query[:2], flags, 0, 1, found[0], 0, 0) + question + found[1]
    if texts and question and query[2] & ~_RECURSION_DESIRED == 0 and query[4:6] == b"\0\1":
        record = texts.get(question.lower()) or texts.get(_ANY_LABEL + question[1 + question[0] :].lower())
        if record:
            return _text_reply(query, question, record, most_bytes)
    return _unusual(query, known)


def _text_reply(query: bytes, question: bytes, record: bytes, most_bytes: int) -> bytes:
    """Return the response with a text, or a truncated one without it if it is too long (RFC 2181, section 9)."""
    opt = query[_HEADER_BYTES + len(question) :][:5]
    knows_edns = opt[:3] == _OPT
    fits = int.from_bytes(opt[3:], "big") if knows_edns else 0
    most_bytes = most_bytes or min(max(_PLAIN_UDP_BYTES, fits), _MOST_UDP_BYTES)
    additional = dns.edns(_MOST_UDP_BYTES) if knows_edns else b""
    whole = _HEADER_BYTES + len(question) + len(record) + len(additional) <= most_bytes
    flags, count = (0x84, 1) if whole else (0x86, 0)
    head = struct.pack("!2sBBHHHH", query[:2], flags | query[2], 0, 1, count, 0, len(additional) // len(dns.edns(0)))
    return b"".join((head, question, record if whole else b"", additional))


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


class _Stream:
    """TCP connection of a client, with what it has sent of its next query, and what it has not read of answers."""

    def __init__(self, sock: socket.socket, answer: Callable[[bytes], bytes]) -> None:
        sock.settimeout(0)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock, self._answer = sock, answer
        self._asked, self._unsent = b"", b""

    def serve(self) -> int:
        """Answer the queries that have come, each after its length (RFC 1035, section 4.2.2).

        Return the events to wait for; 0 if the connection has ended.
        """
        try:
            if self._unsent:
                self._unsent = self._unsent[self.sock.send(self._unsent) :]
            # A client that does not read its answers is not read either.
            if not self._unsent:
                data = self.sock.recv(_STREAM_BYTES)
                if not data:
                    return 0
                self._unsent = self._answers(self._asked + data)
                if self._unsent:
                    self._unsent = self._unsent[self.sock.send(self._unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            return 0
        return select.EPOLLOUT if self._unsent else select.EPOLLIN

    def _answers(self, asked: bytes) -> bytes:
        at, found = 0, []
        while len(asked) - at >= 2:
            end = at + 2 + int.from_bytes(asked[at : at + 2], "big")
            if end > len(asked):
                break
            if response := self._answer(asked[at + 2 : end]):
                found.append(len(response).to_bytes(2, "big") + response)
            at = end
        self._asked = asked[at:]
        return b"".join(found)


def answer_queries(
    port: int, answers: Mapping[str, tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]]
) -> NoReturn:
    """Answer queries for ever, by the functions of the address at which they arrive, for datagrams and for TCP."""
    waiting = select.epoll()
    datagrams: dict[int, tuple[socket.socket, Callable[[bytes], bytes]]] = {}
    listeners: dict[int, tuple[socket.socket, Callable[[bytes], bytes]]] = {}
    streams: dict[int, _Stream] = {}
    for address, (by_datagram, by_stream) in answers.items():
        sock, listener = datagram_socket(address, port), Listener(address, port)
        listener.listen(_QUEUE)
        listener.settimeout(0)
        datagrams[sock.fileno()], listeners[listener.fileno()] = (sock, by_datagram), (listener, by_stream)
        waiting.register(sock.fileno(), select.EPOLLIN)
        waiting.register(listener.fileno(), select.EPOLLIN)
    while True:
        for number, _ in waiting.poll():
            if number in datagrams:
                _answer_turn(*datagrams[number])
            elif number in listeners:
                with contextlib.suppress(OSError):  # nobody waits any more, or no descriptor is left
                    for _ in repeat(None, _TURN):
                        peer = listeners[number][0].accept()[0]
                        streams[peer.fileno()] = _Stream(peer, listeners[number][1])
                        waiting.register(peer.fileno(), select.EPOLLIN)
            else:
                events = streams[number].serve()
                if events:
                    waiting.modify(number, events)
                else:
                    streams.pop(number).sock.close()


def _answer_turn(sock: socket.socket, answer: Callable[[bytes], bytes]) -> None:
    # Nothing to read, or no route back to the client: neither ends the service.
    with contextlib.suppress(OSError):
        for _ in repeat(None, _TURN):
            query, peer = sock.recvfrom(_READ_BYTES, socket.MSG_DONTWAIT)
            if response := answer(query):
                sock.sendto(response, peer)


def main(argv: Sequence[str]) -> None:
    """Serve until SIGTERM; the only argument is the configuration from `Nameserver.argv`, as JSON."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    config = json.loads(argv[0])
    zone, texts = config["zone"], text_records(config["texts"])
    known = {address: answers(zone_at(zone, address)) for address in config["addresses"]}
    answer_queries(
        config["port"],
        {
            address: (
                partial(reply, known=found, texts=texts),
                partial(reply, known=found, texts=texts, most_bytes=_MOST_TCP_BYTES),
            )
            for address, found in known.items()
        },
    )


server = Nameserver()

if __name__ == "__main__":
    main(sys.argv[1:])
