"""HTTP, by both clients: the page is compared as it arrives, and its framing has to follow RFC 9112."""

from __future__ import annotations

import socket
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.agent.load.lean.epoll_client import Burst
from pytest_ipperf.agent.load.library_client import LibraryBurst
from pytest_ipperf.agent.sockets.target import Target
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.protocols.http import protocol as http
from tests.support.servers.tcp import StreamServer

STATE = http.filled(ServerState(), 300)
PAGE = STATE.content
OTHER = PAGE.replace(b"quick", b"quiet")
LENGTH = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 300\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CLOSED = b"HTTP/1.0 200 OK\r\nServer: x\r\n\r\n"
SHORT = "content: expected 300 bytes, seen 13 in Content-Length"
FRAMING = "protocol: framing by Transfer-Encoding"
DIFFERS = "content: expected 'ck brown fox jum' at offset 66 of 300 bytes, seen 'et brown fox jum'"


def chunks(body, size=100, last=b"0\r\n\r\n"):
    return b"".join(b"%x\r\n%b\r\n" % (len(body[at : at + size]), body[at : at + size])
        for at in range(0, len(body), size)) + last  # fmt: skip


def heard(stream, piece=1 << 20):
    """Feed a stream in pieces until it ends; return how it ended."""
    get = http.conversation(STATE, 0, 4)
    for at in range(0, len(stream), piece):
        if not get.finished and not get.trouble:
            get.receive_data(stream[at : at + piece])
    assert not (get.finished and get.trouble)
    if not get.finished and not get.trouble:
        get.closed()
    return "finished" if get.finished else get.failure


RIGHT = {
    "length": LENGTH + PAGE,
    "two equal lengths": LENGTH.replace(b": 300", b": 300, 300") + PAGE,
    "a length in small letters, and a folded line": LENGTH.replace(b"Content-L", b"X: a\r\n b\r\ncontent-l") + PAGE,
    "chunks": CHUNKED + chunks(PAGE),
    "one chunk": CHUNKED + chunks(PAGE, 300),
    "chunks of a byte": CHUNKED + chunks(PAGE, 1),
    "chunks with extensions and trailers": CHUNKED + b"12C ; a=b\r\n" + PAGE + b"\r\n00;c\r\nX: y\r\nZ: a\r\n\r\n",
    "chunks in capitals": CHUNKED.replace(b"chunked", b" Chunked ") + chunks(PAGE).replace(b"2c\r\n", b"2C\r\n"),
    "the end": CLOSED + PAGE,
    "no reason": LENGTH.replace(b" OK", b" ") + PAGE,
    "an interim response": b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + LENGTH + PAGE,
}


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("piece", [1, 7, 64, 299, 1 << 20])
def test_the_page_is_whole_however_it_is_framed_and_cut(name, piece):
    assert heard(RIGHT[name], piece) == "finished"


@given(st.data())
def test_it_ends_with_the_pages_last_byte_and_not_before(data):
    stream = RIGHT[data.draw(st.sampled_from(sorted(RIGHT)))]
    end = stream.rindex(b">") + 1
    cut = data.draw(st.integers(1, end - 1))
    get = http.conversation(STATE, 0, 4)
    get.receive_data(stream[:cut])
    assert (get.finished, get.trouble) == (False, "")
    get.receive_data(stream[cut:end])
    assert (get.finished, get.content_bytes) == (True, 300)


@pytest.mark.parametrize(
    ("before", "failure"),
    [
        (CLOSED, "content: expected '<html><head><tit' at offset 0 of 300 bytes, seen 'HTTP/1.1 200 OK\\r'"),
        (b"HTTP/1.1 404 Not Found\r\nX: ", "protocol: reply 'HTTP/1.1 404 Not Found'"),
        (LENGTH.replace(b"300", b"13"), SHORT),
        (LENGTH + PAGE[:1], "content: expected 'html><head><titl' at offset 1 of 300 bytes, seen 'HTTP/1.1 200 OK\\r'"),
    ],
)
def test_a_whole_response_is_judged_by_what_came_before_it(before, failure):
    get = http.conversation(STATE, 0, 4)
    get.receive_data(before)
    get.receive_data(LENGTH + PAGE)
    assert (get.finished, get.failure) == (False, failure)


WRONG = [
    (LENGTH + OTHER, DIFFERS),
    (CHUNKED + chunks(OTHER), DIFFERS),
    (CLOSED + OTHER, DIFFERS),
    (LENGTH + PAGE + b"\n", "content: expected 300 bytes, seen more that begin with '\\n'"),
    (CLOSED + PAGE + b"<script>", "content: expected 300 bytes, seen more that begin with '<script>'"),
    (CHUNKED + chunks(PAGE + b"!"),
     "content: expected the last chunk after 300 bytes, seen '\\r\\n1\\r\\n!\\r\\n0\\r\\n\\r\\n'"),
    (CHUNKED + chunks(PAGE + b"!", 301), "content: expected 300 bytes, seen 301 or more in chunks"),
    (CHUNKED + chunks(PAGE) + b"x", "content: expected the last chunk after 300 bytes, seen '\\r\\n0\\r\\n\\r\\nx'"),
    (CHUNKED + chunks(PAGE[:-7]), "content: expected 300 bytes, seen 293 before the last chunk"),
    (CLOSED + PAGE[:-7], "content: expected 300 bytes, seen 293 before the body's end"),
    (LENGTH.replace(b"300", b"299") + PAGE, "content: expected 300 bytes, seen 299 in Content-Length"),
    (LENGTH.replace(b"300", b"301") + PAGE, "content: expected 300 bytes, seen 301 in Content-Length"),
    (LENGTH.replace(b"300", b"0"), "content: expected 300 bytes, seen 0 in Content-Length"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n<html></html>", SHORT),
    (b"HTTP/1.1 200 OK\r\nX: </html>\r\nContent-Length: 13\r\n\r\n" + PAGE, SHORT),
    (LENGTH[:-4] + b"\r\nX: </html>", ""),
    (LENGTH + PAGE[:-7], ""),
    (LENGTH.replace(b": 300", b": 300, 301") + PAGE, "protocol: framing by Content-Length '300, 301'"),
    (LENGTH.replace(b": 300", b": +300") + PAGE, "protocol: framing by Content-Length '+300'"),
    (LENGTH[:-2] + b"Content-Length: 3\r\n\r\n" + PAGE, "protocol: framing by Content-Length '300, 3'"),
    (LENGTH[:-2] + CHUNKED[17:] + chunks(PAGE), f"{FRAMING} 'chunked', Content-Length '300'"),
    (CHUNKED.replace(b"1.1", b"1.0") + chunks(PAGE), f"{FRAMING} 'chunked'"),
    (CHUNKED.replace(b"chunked", b"gzip, chunked") + chunks(PAGE), f"{FRAMING} 'gzip, chunked'"),
    (CHUNKED + b"zz\r\n" + PAGE, "protocol: no chunk, but '\\r\\nzz\\r\\n<html><hea'"),
    (CHUNKED + b"64\r\n" + PAGE[:100] + b"XX64\r\n" + PAGE[100:], "protocol: no chunk, but 'XX64\\r\\nog 0123456'"),
    (LENGTH.replace(b"Type:", b"Type :") + PAGE, "protocol: header line 'Content-Type : text/html'"),
    (LENGTH.replace(b"text", b"te\0xt") + PAGE, "protocol: header line 'Content-Type: te\\x00xt/html'"),
    (LENGTH.replace(b"\r\n", b"\n") + PAGE, "protocol: reply 'HTTP/1.1 200 OK', whose line does not end in CR LF"),
    (b"HTTP/1.1 204 No Content\r\n\r\n", "protocol: reply 'HTTP/1.1 204 No Content'"),
    (b"HTTP/1.1 101 Switching\r\n\r\n" + LENGTH + PAGE, "protocol: reply 'HTTP/1.1 101 Switching'"),
    (LENGTH.replace(b"1.1 ", b"1.1\r\n ") + PAGE, "protocol: reply 'HTTP/1.1'"),
    (LENGTH.replace(b"OK\r\n", b"OK\r\n ") + PAGE, "protocol: header line ' Content-Type: text/html'"),
    (b"HTTP/2 200\r\n\r\n" + PAGE, "protocol: reply 'HTTP/2 200'"),
    (PAGE, f"protocol: reply '{PAGE[:58].decode()}', whose line does not end in CR LF"),
    (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 20_000, "protocol: a head of more than 16384 bytes"),
    (CHUNKED + b"1;" + b"x" * 5000, None),
    (LENGTH[:-4] + PAGE, ""),
    (LENGTH.replace(b"200 OK", b"103 Early Hints") + PAGE,
     f"protocol: reply '{PAGE[:58].decode()}', whose line does not end in CR LF"),
]  # fmt: skip


@pytest.mark.parametrize(("stream", "failure"), WRONG)
def test_what_is_not_the_page_is_told(stream, failure):
    told = heard(stream)
    assert told == failure or (failure is None and told.startswith("protocol: no chunk, but "))


@pytest.mark.parametrize(("stream", "failure"), WRONG)
@pytest.mark.parametrize("piece", [1, 11])
def test_it_is_not_finished_before_the_pages_end_however_it_is_cut(stream, failure, piece):
    """Bytes in a later segment come after the end of the measurement."""
    if heard(stream, piece) == "finished":
        assert "300 bytes, seen" in failure
        assert any(mark in failure for mark in ("more that", "last chunk after", "'\\r\\n"))


def test_tiny_segments_of_a_large_page_cost_no_more_than_their_number():
    """Each segment is compared with its own part of the page alone, and nothing is buffered."""
    state = http.filled(ServerState(), 1 << 20)
    for head, body in (
        (LENGTH.replace(b"300", b"%d" % (1 << 20)), state.content),
        (CHUNKED, chunks(state.content, 16)),
    ):
        get, held = http.conversation(state, 0, 4), 0
        get.receive_data(head)
        for at in range(0, len(body), 64):
            if not get.finished:
                get.receive_data(body[at : at + 64])
                held = max(held, len(get._buffer))  # type: ignore[attr-defined]
        assert (get.finished, get.trouble) == (True, "")
        assert held < 100


# --- both clients against a server that says just that ----------------------------------------------------------------


def fetched(client, stream, n=3):
    """Return how n connections of a client end when the server sends this stream and closes."""

    def talk(conn, _):
        with conn:
            while not conn.recv(4096).endswith(b"\r\n\r\n"):
                pass
            conn.sendall(stream)

    with StreamServer("127.0.0.1", talk) as server:
        target = Target(socket.AF_INET, None, "127.0.0.1", server.port, "")
        made: Burst | LibraryBurst
        if client == "lean":
            made = Burst(target, [http.conversation(STATE, at, 4) for at in range(n)], 10.0, 0)
        else:
            pytest.importorskip("aiohttp")
            made = LibraryBurst(target, http, STATE, n, deadline_s=10.0, first_ident=0)
        made.run()
    moved = [each.content_bytes for each in made.connections if not each.failure]
    assert moved == [300] * len(moved)
    return Counter(each.failure for each in made.connections)


@pytest.mark.parametrize("client", ["lean", "library"])
@pytest.mark.parametrize("name", ["length", "chunks", "the end", "an interim response"])
def test_both_clients_take_the_page(client, name):
    assert fetched(client, RIGHT[name]) == {"": 3}


@pytest.mark.parametrize(
    ("stream", "lean", "library"),
    [
        (LENGTH + OTHER, DIFFERS, DIFFERS),
        (CHUNKED + chunks(OTHER, 300), DIFFERS, DIFFERS),
        (CLOSED + OTHER, DIFFERS, DIFFERS),
        (LENGTH.replace(b"300", b"13") + b"<html></html>", WRONG[13][1], WRONG[13][1]),
        (CLOSED + PAGE[:-7], WRONG[9][1], "content: expected 300 bytes, seen 293 before the body's end"),
        (CHUNKED + chunks(PAGE[:-7]), WRONG[8][1], "content: expected 300 bytes, seen 293 before the body's end"),
        (CLOSED + PAGE + b"<script>", WRONG[4][1], WRONG[4][1]),
        (LENGTH + PAGE[:-7], "talk closed", "talk closed"),
        (LENGTH[:-4] + b"\r\nX: </html>", "talk closed", "talk closed"),
        (LENGTH[:-2] + CHUNKED[17:] + chunks(PAGE), WRONG[20][1], None),
        (LENGTH + PAGE + b"<script>", "content: expected 300 bytes, seen more that begin with '<script>'", None),
        (CHUNKED + chunks(PAGE) + b"x", WRONG[7][1], None),
    ],
)  # fmt: skip
def test_both_clients_tell_what_is_not_the_page(stream, lean, library):
    assert fetched("lean", stream) == {lean: 3}
    (found,) = fetched("library", stream)
    assert found == library or (library is None and found)
