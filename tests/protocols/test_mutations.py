"""Mutations of right replies: only right content ever counts, and nothing breaks either client.

An oracle checks the same bytes as each conversation, by code of its own or of Python's library, and says whether the
content up to the end of the measurement is the server's.
"""

from __future__ import annotations

import email.parser
import os
import random
import re
import socket
import struct
from importlib import import_module

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.agent.load.library_client import LibraryBurst
from pytest_ipperf.agent.sockets.target import Target
from pytest_ipperf.protocols import application, applications
from tests.protocols.test_any import ADDRESSES, PARTS, STATE, Wire
from tests.support.payloads import payload_of
from tests.support.servers.tcp import StreamServer

SIZE = 300
MANY = hypothesis.settings(max_examples=20_000, derandomize=True, deadline=None)
every_protocol = pytest.mark.parametrize("name", applications())
HTTP_HEADS = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 300\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nServer: x\r\n\r\n",
)


# --- mutations --------------------------------------------------------------------------------------------------------


def mutated(said: bytes, rng: random.Random) -> bytes:
    """Damage a reply in one to three places."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        said = rng.choice((flipped, dropped, doubled, inserted, cut, spliced, swapped, numbered))(said, rng)
    return said


def place(said, rng, most=12):
    at = rng.randrange(len(said) + 1)
    return at, min(len(said), at + rng.randrange(1, most))


def flipped(said, rng):
    at, _ = place(said, rng)
    return said[:at] + bytes(each ^ (1 << rng.randrange(8)) for each in said[at : at + 1]) + said[at + 1 :]


def dropped(said, rng):
    at, end = place(said, rng)
    return said[:at] + said[end:]


def doubled(said, rng):
    at, end = place(said, rng, rng.choice((12, max(2, len(said)))))
    return said[:end] + said[at:end] + said[end:]


def inserted(said, rng):
    at, _ = place(said, rng)
    return said[:at] + rng.choice((rng.randbytes(rng.randrange(1, 6)), rng.choice(PARTS))) + said[at:]


def cut(said, rng):
    return said[: place(said, rng)[0]]


def spliced(said, rng):
    """Go on elsewhere."""
    return said[: place(said, rng)[0]] + said[place(said, rng)[0] :]


def swapped(said, rng):
    """Exchange two parts, as segments in the wrong order."""
    first, second, third = sorted(rng.randrange(len(said) + 1) for _ in range(3))
    return said[:first] + said[second:third] + said[first:second] + said[third:]


def numbered(said, rng):
    """Change a number: a length, a code, a sequence number."""
    numbers = list(re.finditer(rb"\d+", said))
    if not numbers:
        return said
    found = rng.choice(numbers)
    return said[: found.start()] + b"%d" % max(0, int(found[0][:15]) + rng.choice((-1, 1, 100))) + said[found.end() :]


# --- oracles ----------------------------------------------------------------------------------------------------------


def right_http(stream: bytes, _: bytes, content: bytes) -> bool:
    """Tell whether a response, which may be cut after the content, brings exactly that content."""
    head, found, body = stream.partition(b"\r\n\r\n")
    while found and re.match(rb"HTTP/1\.\d 1(?!01)\d\d", head):
        head, found, body = body.partition(b"\r\n\r\n")
    status, _, fields = head.partition(b"\r\n")
    if not found or not re.fullmatch(rb"HTTP/1\.\d 200( .*)?", status, re.DOTALL):
        return False
    headers = email.parser.BytesParser().parsebytes(fields + b"\r\n\r\n")
    # Non-ASCII bytes are no valid str there.
    codings, lengths = (list(map(str, headers.get_all(name, []))) for name in ("transfer-encoding", "content-length"))
    if codings:
        return [each.strip().lower() for each in codings] == ["chunked"] and not lengths and unchunked(body) == content
    announced = {each.strip() for value in lengths for each in value.split(",")}
    return body == content and announced <= {str(len(content)), f"0{len(content)}"}


def unchunked(body: bytes) -> bytes | None:
    """Join the chunks received; None if the body is not in valid chunks."""
    found = b""
    while body:
        line, end, rest = body.partition(b"\r\n")
        digits = line.partition(b";")[0].strip(b" \t")
        if not end or not re.fullmatch(rb"[0-9a-fA-F]+", digits):
            return found if not end and re.fullmatch(rb"0*[ \t]*(;.*)?\r?", line, re.DOTALL) else None
        size = int(digits, 16)
        if not size:
            return found if re.fullmatch(rb"([^\r\n]+\r\n)*([^\r\n]+\r?|\r\n?)?", rest) else None
        found += rest[:size]
        if len(rest) < size:
            return None  # it announces more than there is
        if rest[size : size + 2] != b"\r\n"[: len(rest) - size]:
            return None
        body = rest[size + 2 :]
    return found


def replies(stream: bytes, whole: bytes = rb"\d{3}-") -> list[tuple[bytes, bytes]] | None:
    """Split replies of three digits into code and last line; None if one is invalid."""
    found, begun = [], b""
    *lines, rest = stream.split(b"\n")
    if rest:
        return None
    for line in lines:
        if begun and line[:4] != begun + b" " and (whole == b"" or line[:4] == begun + b"-"):
            continue
        if begun and line[:3] != begun:
            return None
        if not begun and re.match(rb"\d{3}-", line):
            begun = line[:3]
            continue
        if not re.match(rb"\d{3}(?=[ \r]|$)", line):
            return None
        found.append((line[:3], line))
        begun = b""
    return None if begun else found


def right_smtp(stream: bytes, _: bytes, content: bytes) -> bool:
    del content  # the content goes the other way, and is compared at the server
    said = replies(stream)
    codes = [code for code, _ in said or []]
    if not said or codes not in (
        [b"220", *[b"250"] * 3, b"354", b"250"],
        [b"220", b"250", b"250", b"251", b"354", b"250"],
    ):
        return False
    enhanced = [re.match(rb"\d{3} (\d)\.\d{1,3}\.\d{1,3}(?=[ \r\n]|$)", line) for _, line in said[2:]]
    agree = all(found is None or found[1] == found[0][:1] for found in enhanced)
    return agree and re.search(rb"\bqueued\b", said[-1][1][4:].lower()) is not None


def right_ftp(stream: bytes, data: bytes, content: bytes) -> bool:
    said = replies(stream, b"")
    codes = [code for code, _ in said or []]
    asked = [b"220", b"331", b"230", b"200", b"229"]
    return codes in ([*asked, b"150", b"226"], [*asked, b"125", b"226"]) and data == content


def right_imap(stream: bytes, _: bytes, content: bytes) -> bool:
    """Tell whether a FETCH brings the content as the first message, before the tagged OK."""
    found = list(re.finditer(rb"(?i)\* 1 FETCH \((?:[^\n]* )?BODY\[\] \{(\d{1,18})\}\r?\n", stream))
    # Later occurrences are within the content, or came before they could be asked for.
    for each in found:
        end = each.end() + int(each[1])
        if stream[each.end() : end] == content and int(each[1]) == len(content):
            rest = stream[end:]
            if re.match(rb"(?: [^\n]*)?\)\r?\n", rest) and re.search(rb"(?i)(?m)^a3 OK(?=[ \r\n])", rest):
                return True
    return False


def right_dns(message: bytes, query: bytes, content: bytes) -> bool:
    """Return whether a message answers the query with the zone's only address, as written there (RFC 1035)."""
    try:
        ident, flags, *counts = struct.unpack("!6H", message[:12])
        questions, at = [], 12
        for _ in range(counts[0]):
            name, at = spelled(message, at)
            questions.append((name, *struct.unpack("!HH", message[at : at + 4])))
            at += 4
        records = []
        for _ in range(sum(counts[1:])):
            name, at = spelled(message, at)
            *fields, size = struct.unpack("!HHIH", message[at : at + 10])
            records.append((name, *fields, message[at + 10 : at + 10 + size]))
            at += 10 + size
        name, end = spelled(query, 12)
    except (struct.error, IndexError, RecursionError, OverflowError):
        return False
    asked = (name, *struct.unpack("!HH", query[end : end + 4]))
    family = socket.AF_INET6 if asked[1] == 28 else socket.AF_INET
    address = socket.inet_pton(family, content.decode())
    return (
        ident == int.from_bytes(query[:2], "big")
        and flags & 0b1111_1110_0100_1111 == 0b1000_0100_0000_0000  # QR and AA; no opcode, TC, Z and RCODE
        and questions == [asked]
        and records[: counts[1]] == [(*asked, 0, address)]
        and at == len(message)
    )


def spelled(message: bytes, at: int) -> tuple[tuple[bytes, ...], int]:
    """Read a name by its labels, which may go on before it."""
    size = message[at]
    if size >= 192:
        pointer = struct.unpack("!H", message[at : at + 2])[0] & 0x3FFF
        if pointer >= at:
            raise IndexError(at)
        return spelled(message, pointer)[0], at + 2
    if size > 63:
        raise IndexError(at)
    if not size:
        return (), at + 1
    rest, end = spelled(message, at + 1 + size)
    return (message[at + 1 : at + 1 + size].lower(), *rest), end


COMPARED = {"dns", "ftp", "http", "imap"}
"""Whose replies have content that the server was given."""
_HERE = {"dns": right_dns, "ftp": right_ftp, "http": right_http, "imap": right_imap, "smtp": right_smtp}
# Imported before any test runs, as hypothesis allows no `@given` to be declared while another one runs.
ORACLES = {
    name: _HERE[name] if name in _HERE else import_module(f"tests.protocols.test_{name}").right
    for name in applications()
}
"""Judges of the replies of a protocol: of this file, or `right` of the protocol's own tests."""


# --- the lean client --------------------------------------------------------------------------------------------------


class Mutating(Wire):
    """A dialogue in which some replies are damaged; records the bytes delivered on either connection."""

    def __init__(self, name, rng, share, ipver=4):
        self._rng, self._share = rng, share
        self.brought = {"control": b"", "data": b""}
        self.data_ended = False
        super().__init__(name, SIZE, ipver)
        self.control = self._maybe(self.control)

    def _maybe(self, said):
        return mutated(said, self._rng) if said and self._rng.random() < self._share else said

    def _hear(self, said):
        before = len(self.control)
        super()._hear(said)
        new = self.control[before:]
        if new.startswith(b"HTTP/"):
            new = self._rng.choice(HTTP_HEADS) + new.partition(b"\r\n\r\n")[2]
            if b"chunked" in new:
                new = in_chunks(new, self._rng)
        self.control = self.control[:before] + self._maybe(new)

    def bring(self, way, size):
        if way == "data":
            assert self.data is not None
            self.brought[way] += self.data[:size]
            self.data_ended |= not self.data
        else:
            self.brought[way] += self.control if self._whole else self.control[:size]
        had = self.data
        super().bring(way, size)
        if had is None and self.data is not None:
            self.data = self._maybe(self.data)


def in_chunks(response, rng):
    head, end, page = response.partition(b"\r\n\r\n")
    said, at = head + end, 0
    while at < len(page):
        size = rng.randrange(1, 200)
        said += b"%x\r\n%b\r\n" % (len(page[at : at + size]), page[at : at + size])
        at += size
    return said + b"0\r\n\r\n"


def played(name, seed, share):
    """Play a dialogue; return how it ended, and whether the oracle finds the right content in it."""
    rng = random.Random(seed)
    ipver = rng.choice((4, 6))
    wire = Mutating(name, rng, share, ipver)
    query = wire.talk.first_bytes()
    most = rng.choice((1, 5, 40, 400, 4000))
    while wire.ways and not wire.over:
        wire.bring(rng.choice(wire.ways), rng.randrange(1, most + 1))
    protocol = application(name)
    content = protocol.filled(STATE, payload_of(protocol, SIZE)).content
    if protocol.datagram:
        beside = query
        content = next(each for each in ADDRESSES if (":" in each) == (ipver == 6)).encode()
    else:
        beside = wire.brought["data"] if wire.data_ended else b"(not at its end)"
    assert wire.talk.kind in {"protocol", "content"}
    assert len(wire.talk.trouble) < 400
    return wire.talk, ORACLES[name](wire.brought["control"], beside, content)


def hold(name, seed, share=0.4):
    talk, right = played(name, seed, share)
    assert right or not talk.finished, (name, seed)


@every_protocol
@given(seed=st.integers(0, 1 << 40))
def test_the_oracle_and_the_conversation_agree_on_what_is_right(name, seed):
    talk, right = played(name, seed, 0.0)
    assert (talk.finished, talk.trouble, right) == (True, "", True)


@every_protocol
@hypothesis.settings(max_examples=int(os.environ.get("IPPERF_MUTATIONS", "400")))
@given(seed=st.integers(0, 1 << 40))
def test_nothing_but_the_right_content_ever_counts(name, seed):
    hold(name, seed)


@pytest.mark.evidence
@every_protocol
@MANY
@given(seed=st.integers(0, 1 << 40))
def test_nothing_but_the_right_content_ever_counts_in_many_dialogues(name, seed):
    hold(name, seed, 0.25)


@every_protocol
def test_mutations_are_found_out_and_harmless_ones_are_let_through(name):
    """Otherwise the property above would hold for a conversation that never finishes, or without any change."""
    ended = [played(name, seed, 0.25) for seed in range(300)]
    assert sum(talk.finished for talk, _ in ended) >= 20
    assert sum(not right for _, right in ended) >= 20
    kinds = {talk.kind for talk, _ in ended if talk.trouble}
    assert kinds == {"protocol"} | ({"content"} if name in COMPARED else set())


# --- the library clients ----------------------------------------------------------------------------------------------

PAUSE_S = 0.3
by_library = pytest.mark.parametrize("name", ["ftp", "http", "imap", "smtp"])


class Liar:
    """A server of one connection that damages some of its replies and closes when the client stops sending.

    `said` is what it has sent up to the end of the measurement, `data` what it sent on a data connection.
    """

    def __init__(self, name, rng, share):
        protocol = application(name)
        self._rng, self._share = rng, share
        # Without damage nobody waits in vain, and a machine that stalls gets enough time.
        self.pause_s = PAUSE_S if share else 30.0
        self._control, self._data = (StreamServer("127.0.0.1", each) for each in (self._talk, self._move))
        self.port = self._control.port
        self._replies = protocol.canned_replies(protocol.filled(STATE, SIZE)).with_port(self._data.port)
        self.said = self.data = b""

    def __enter__(self):
        self._control.__enter__()
        self._data.__enter__()
        return self

    def __exit__(self, *_):
        self._control.__exit__()
        self._data.__exit__()

    def _maybe(self, said):
        return mutated(said, self._rng) if said and self._rng.random() < self._share else said

    def _talk(self, conn, _):
        with conn:
            conn.settimeout(self.pause_s)
            self._say(conn, self._replies.greeting)
            for number in range(9):
                self._say(conn, self._answer(conn, number))

    def _answer(self, conn, number):
        """Wait for the client's next command, and return the answer to it; OSError if it sends none."""
        heard = b""
        while data := conn.recv(65536):
            heard += data
            for beginning, answer in self._replies.asides:
                if heard.startswith(beginning):
                    return answer
            if not self._replies.asides and heard.endswith(self._replies.turns[number][0]):
                return self._replies.turns[number][1]
        raise OSError

    def _say(self, conn, answer):
        said = self._maybe(answer)
        if not answer.startswith((b"221 ", b"* BYE")):  # after the measurement
            self.said += said
        at = self._rng.randrange(len(said) + 1)
        conn.sendall(said[:at])
        conn.sendall(said[at:])

    def _move(self, conn, _):
        with conn:
            self.data = self._maybe(self._replies.data or b"")
            conn.sendall(self.data)


def brings(name, liar, content):
    """Return whether the server sent the right content; the library's own parser decides on the rest."""
    if name == "http":
        return any(right_http(liar.said[: end.end()], b"", content) for end in re.finditer(b">", liar.said))
    if name == "imap":
        message = re.search(rb"1 FETCH \([^\n]*\{300\}\r\n" + re.escape(content), liar.said)
        return message is not None and re.search(rb"A3 OK", liar.said[message.end() :]) is not None
    if name == "ftp":
        return liar.data == content and re.search(rb"(?m)^226", liar.said) is not None
    return re.search(rb"(?m)^250[ -](?:.*\n250[ -])*.*queued", liar.said) is not None


def hold_library(name, seed, share):
    protocol, rng = application(name), random.Random(seed)
    state = protocol.filled(STATE, SIZE)
    with Liar(name, rng, share) as liar:
        target = Target(socket.AF_INET, None, "127.0.0.1", liar.port, "")
        burst = LibraryBurst(target, protocol, state, 1, deadline_s=10 * liar.pause_s, first_ident=0, hold=False)
        burst.run()
    (call,) = burst.connections
    assert call.failure or brings(name, liar, state.content), (name, seed, liar.said)
    assert re.match("content: |protocol: |talk |connect |$", call.failure), call.failure
    return call.failure


@pytest.mark.host
@by_library
@hypothesis.settings(max_examples=12)
@given(seed=st.integers(0, 1 << 40))
def test_nothing_but_the_right_content_counts_for_a_library(name, seed):
    pytest.importorskip(application(name).packages[0].partition(">")[0])
    hold_library(name, seed, 0.3)


@pytest.mark.evidence
@by_library
@hypothesis.settings(max_examples=1000, derandomize=True, deadline=None)
@given(seed=st.integers(0, 1 << 40))
def test_nothing_but_the_right_content_counts_for_a_library_in_many_dialogues(name, seed):
    hold_library(name, seed, 0.2)


@pytest.mark.host
@by_library
def test_a_library_takes_what_is_not_damaged(name):
    pytest.importorskip(application(name).packages[0].partition(">")[0])
    assert hold_library(name, 1, 0.0) == ""
