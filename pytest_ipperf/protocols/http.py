"""HTTP (RFC 9112): one GET on a connection of its own, measured until `</html>` is seen (paper 000, Table 2-1).

The body is compared byte for byte with the server's page as it arrives, and its framing checked against RFC 9112,
section 6.
"""

from __future__ import annotations

import errno
import inspect
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pytest_ipperf.core.portable.content import excerpt, wrong_content, wrong_size
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.reply_script import CannedReplies
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.protocols.base import (
    IP_BIND_ADDRESS_NO_PORT,
    Application,
    Call,
    ContentError,
    Conversation,
    ReplyError,
    Transaction,
)

if TYPE_CHECKING:
    from aiohttp import ClientSession, TCPConnector

_HEAD = b"<html><head><title>pytest-ipperf</title></head><body><pre>\n"
_TAIL = b"</pre></body></html>"
_END = b"</html>"
_SHOWN_BYTES = 80
_LINE = b"The quick brown fox jumps over the lazy dog 0123456789.\n"
_REQUEST = (
    b"GET /index.html HTTP/1.1\r\nHost: %s\r\nUser-Agent: pytest-ipperf\r\nAccept: */*\r\nConnection: close\r\n\r\n"
)

_LONGEST_HEAD, _LONGEST_LINE = 16384, 4096
_STATUS = re.compile(rb"HTTP/1\.(\d) (200|1(?!01)\d\d)(?: [^\r\n\0]*)?")  # interim responses may precede the page's
_LENGTH = re.compile(rb"[0-9]{1,18}")
_FOLDED = re.compile(rb"\r\n[ \t]+")  # RFC 9112, section 5.2
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\0]*?)[ \t]*")
_FRAMING = (b"content-length", b"transfer-encoding")
_OK = 200
_HEAD_END = b"\r\n\r\n"
_CHUNKED, _UNTIL_CLOSED = -1, -2  # in place of a length
_CHUNK = re.compile(rb"\r\n([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?\r\n")
# Matches any beginning of what may follow a body's last chunk, as the rest may not have arrived (RFC 9112, section
# 7.1).
_LAST_CHUNK = re.compile(
    rb"(?:\r(?:\n(?:0+[ \t]*(?:;[^\r\n]*)?(?:\r(?:\n(?:[^\r\n]+\r\n)*(?:[^\r\n]+\r?|\r\n?)?)?)?)?)?)?"
)


@dataclass(frozen=True)
class _Head:
    """Head of a response: its status, the body's length or other framing, and what is wrong with it."""

    status: int
    length: int = _UNTIL_CLOSED
    trouble: str = ""


class Get(Conversation):
    """Retrieval of one page, which is compared as it arrives and not copied.

    `_buffer` is an incomplete head or chunk-size line; `_left` counts the bytes still missing from a chunk. `_length`
    is the body's, as its head has it: 0 before that.
    """

    __slots__ = ("_buffer", "_left", "_length", "_page")

    lockstep = True
    request = b""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self._page = page
        self._buffer = b""
        self._left = self._length = 0

    def first_bytes(self) -> bytes:
        return self.request

    def receive_data(self, data: bytes) -> bytes:
        size = len(self._page)
        begun = self._length or self.trouble
        if data.endswith(self._page) and not begun and _length_in(self._buffer + data[:-size]) == size:
            self.content_bytes, self.finished = size, True  # fast path: nearly all responses come in one piece
            return b""
        body = data if self._length else self._heads(self._buffer + data)
        if self._length == _CHUNKED:
            self._chunks(bytes(body))
        elif body:
            self._content(body)
        self.finished = not self.trouble and self.content_bytes == len(self._page)
        return b""

    def closed(self) -> None:
        if self._length == _UNTIL_CLOSED:
            self.differs(wrong_size(self._page, self.content_bytes, "before the body's end"))

    def _heads(self, data: bytes) -> memoryview | bytes:
        """Read the final head once it is complete, after any interim ones; return the bytes that follow it."""
        at = 0
        while (end := data.find(_HEAD_END, at)) >= 0:
            head, at = _head_of(data[at:end]), end + len(_HEAD_END)
            if head.trouble:
                self.trouble = head.trouble
                return b""
            if head.status == _OK:
                if 0 <= head.length != len(self._page):
                    self.differs(wrong_size(self._page, head.length, "in Content-Length"))
                    return b""
                self._length = head.length
                self._buffer = b"\r\n" if head.length == _CHUNKED else b""  # so that all chunks begin alike
                return memoryview(data)[at:]
        self._buffer = data[at:]
        line, ended, _ = self._buffer.partition(b"\n")
        if len(self._buffer) > _LONGEST_HEAD:
            self.trouble = f"a head of more than {_LONGEST_HEAD} bytes"
        elif ended and not line.endswith(b"\r"):
            self.trouble = f"reply {_shown(line)}, whose line does not end in CR LF"
        elif ended or not b"HTTP/1.".startswith(line[:7]):  # no further bytes can make it right
            self.trouble = _head_of(line.removesuffix(b"\r")).trouble
        return b""

    def _content(self, piece: bytes | memoryview) -> None:
        """Compare the next bytes of the body."""
        if self._page.startswith(piece, self.content_bytes):
            self.content_bytes += len(piece)
        else:
            self.differs(wrong_content(self._page, self.content_bytes, piece))

    def _chunks(self, data: bytes) -> None:
        """Read a body in chunks (RFC 9112, section 7.1)."""
        if self._buffer:
            data, self._buffer = self._buffer + data, b""
        at = 0
        while not self.trouble:
            if self._left:
                end = min(len(data), at + self._left)
                self._content(memoryview(data)[at:end])
                self._left, at = self._left - (end - at), end
            if self.content_bytes == len(self._page):
                self._end_chunks(data, at)
                return
            if self._left or self.trouble:
                return
            found = _CHUNK.match(data, at)
            if not found:
                break
            at, self._left = found.end(), int(found[1], 16)
            if not 0 < self._left <= len(self._page) - self.content_bytes:
                place = "or more in chunks" if self._left else "before the last chunk"
                self.differs(wrong_size(self._page, self.content_bytes + self._left, place))
        self._buffer = data[at:]
        line = self._buffer
        if not self.trouble and (line[:2] not in b"\r\n" or line.count(b"\n") > 1 or len(line) > _LONGEST_LINE):
            self.trouble = f"no chunk, but {excerpt(line)}"

    def _end_chunks(self, data: bytes, at: int) -> None:
        """Check the bytes that have come together with the page's end."""
        if self._left or not _LAST_CHUNK.fullmatch(data, at):
            self.differs(f"expected the last chunk after {len(self._page)} bytes, seen {excerpt(data[at:])}")


@lru_cache(maxsize=64)
def _length_in(head: bytes) -> int:
    """Return the length in these bytes, if they are a final head, whole and right, and nothing else; or less than 0."""
    if head.find(_HEAD_END) != len(head) - len(_HEAD_END):
        return _UNTIL_CLOSED
    found = _head_of(head.removesuffix(_HEAD_END))
    return found.length if found.status == _OK else _UNTIL_CLOSED


@lru_cache(maxsize=64)  # the heads of a server differ in their date alone
def _head_of(head: bytes) -> _Head:
    """Parse a response's head, without the empty line that ends it (RFC 9112, sections 4 to 6)."""
    first, ended, fields = head.partition(b"\r\n")
    status = _STATUS.fullmatch(first)
    if not status:
        return _Head(0, trouble=f"reply {_shown(first)}")
    framing: dict[bytes, list[bytes]] = {name: [] for name in _FRAMING}
    for line in _FOLDED.sub(b" ", fields).split(b"\r\n") if ended else ():
        field = _FIELD.fullmatch(line)
        if not field:
            return _Head(0, trouble=f"header line {_shown(line)}")
        if (name := field[1].lower()) in framing:
            framing[name] += [each.strip(b" \t") for each in field[2].split(b",")]
    return _framed(int(status[2]), status[1] == b"0", *framing.values())


def _framed(status: int, old: bool, lengths: list[bytes], codings: list[bytes]) -> _Head:  # noqa: FBT001
    """Return how the body of a response is framed; an `old` one is HTTP/1.0 (RFC 9112, section 6)."""
    if codings:
        # With a length as well, the message may be an attempt at request smuggling or an intermediary's error.
        if lengths or old or [each.lower() for each in codings] != [b"chunked"]:
            beside = f", Content-Length {_shown(b', '.join(lengths))}" if lengths else ""
            return _Head(status, trouble=f"framing by Transfer-Encoding {_shown(b', '.join(codings))}{beside}")
        return _Head(status, _CHUNKED)
    if lengths:
        if len(set(lengths)) > 1 or not _LENGTH.fullmatch(lengths[0]):
            return _Head(status, trouble=f"framing by Content-Length {_shown(b', '.join(lengths))}")
        return _Head(status, int(lengths[0]))
    return _Head(status)


def _shown(text: bytes) -> str:
    return repr(text[:_SHOWN_BYTES].decode("latin-1"))


@dataclass(frozen=True, kw_only=True)
class Http(Application):
    """HTTP; the page is static and of the payload's size."""

    name: str = "http"
    title: str = "HTTP"
    summary: str = "fetch a page by one GET, timed to `</html>`"
    host: str = "www.ipperf.test"
    source: str = "RFC 9112; paper 000, section 2.3"
    ends_with: str = "</html>"
    typical_s: float = 0.00025
    path: str = "/index.html"
    packages: tuple[str, ...] = ("aiohttp>=3.8",)

    def content(self, payload_bytes: int) -> bytes:
        least = len(_HEAD) + len(_TAIL)
        room = payload_bytes - least
        if room < 0:
            raise UsageError(f"payload {payload_bytes} is too small for http, whose page has at least {least} bytes")
        return _HEAD + (_LINE * (room // len(_LINE) + 1))[:room] + _TAIL

    def filled(self, state: ServerState, payload_bytes: int) -> ServerState:
        filled = super().filled(state, payload_bytes)
        if not filled.content.endswith(_END) or filled.content.count(_END) > 1:
            raise UsageError("the content of server_state is not a page with </html> at its end and nowhere else")
        return filled

    def conversation(self, state: ServerState, index: int, ipver: int) -> Conversation:
        del index, ipver
        return Get(state.content)

    def canned_replies(self, state: ServerState) -> CannedReplies:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
        return CannedReplies(b"", ((b"\r\n\r\n", head % len(state.content) + state.content),))

    @asynccontextmanager
    async def library(self, state: ServerState, *, family: int, source: str, port: int) -> AsyncIterator[Transaction]:
        from aiohttp import ClientSession, ClientTimeout, DummyCookieJar  # noqa: PLC0415 - the host may lack it

        session = ClientSession(
            connector=_connector(family, source),
            timeout=ClientTimeout(),  # none: the burst has a deadline
            cookie_jar=DummyCookieJar(),
            auto_decompress=False,
            headers={"Accept-Encoding": "identity"},
        )
        # aiohttp has no option for this: it would repeat a GET that was cut off, and hide the failure.
        session._retry_connection = False  # noqa: SLF001
        url = f"http://{self.host}:{port}/index.html"

        async def fetch(call: Call) -> None:
            _CALL.set(call)
            await _fetched_by_library(session, url, call, state.content)

        async with session:
            yield fetch


_CALL: ContextVar[Call] = ContextVar("call")


def _connector(family: int, source: str) -> TCPConnector:
    """Return a connector to the address that each call has looked up, from `source`, over `family` only."""
    from aiohttp import TCPConnector, abc  # noqa: PLC0415 - the host may lack it

    class Resolver(abc.AbstractResolver):
        async def resolve(self, host: str, port: int = 0, family: int = family) -> list[Any]:
            address = await _CALL.get().resolve()
            found = {"hostname": host, "host": address, "port": port, "family": family, "proto": 0}
            return [{**found, "flags": socket.AI_NUMERICHOST}]

        async def close(self) -> None:
            pass

    class Connector(TCPConnector):
        async def connect(self, *args: Any, **kwargs: Any) -> Any:
            connection = await super().connect(*args, **kwargs)
            if connection.transport is None:
                raise EOFError
            _CALL.get().note_connected(connection.transport.get_extra_info("socket"))
            return connection

    # An aiohttp too old to know one of these neither does what it prevents nor can do what it permits.
    newer: dict[str, Any] = {"happy_eyeballs_delay": None, "socket_factory": _stream}
    known = inspect.signature(TCPConnector).parameters
    return Connector(
        resolver=Resolver(),
        use_dns_cache=False,
        family=socket.AddressFamily(family),
        local_addr=(source, 0) if source else None,
        limit=0,
        force_close=True,
        **{name: value for name, value in newer.items() if name in known},
    )


def _stream(info: tuple[Any, ...]) -> socket.socket:
    sock = socket.socket(*info[:3])
    sock.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)  # as in the lean client
    return sock


async def _fetched_by_library(session: ClientSession, url: str, call: Call, page: bytes) -> None:
    """Fetch the page by aiohttp, which closes the connection itself after the page's end."""
    from aiohttp import ClientPayloadError, ClientResponseError, ServerDisconnectedError  # noqa: PLC0415

    seen_bytes = 0
    try:
        async with session.get(url, allow_redirects=False) as response:
            call.note_first_byte()
            if response.status != 200:
                version = ".".join(map(str, response.version or ()))
                raise ReplyError(f"reply {f'HTTP/{version} {response.status} {response.reason}'!r}")
            if response.content_length not in {None, len(page)}:
                raise ContentError(wrong_size(page, response.content_length or 0, "in Content-Length"))
            async for data in response.content.iter_any():
                if not page.startswith(data, seen_bytes):
                    raise ContentError(wrong_content(page, seen_bytes, data))
                seen_bytes += len(data)
                if seen_bytes == len(page):
                    call.note_end(seen_bytes)
                    await call.everyone()
                    return
            raise ContentError(wrong_size(page, seen_bytes, "before the body's end"))
    except ClientResponseError as error:
        raise ReplyError(" ".join(error.message.split())[:120]) from error
    except (ClientPayloadError, ServerDisconnectedError) as error:
        if ConnectionResetError.__name__ in str(error):  # only the error's text tells a reset within the page
            raise ConnectionResetError(errno.ECONNRESET, "reset") from error
        raise EOFError from error


protocol = Http()
Get.request = _REQUEST % protocol.host.encode("ascii")
