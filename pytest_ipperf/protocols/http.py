"""HTTP (RFC 9112): one GET on a connection of its own, measured until `</html>` is seen (paper 000, Table 2-1)."""

from __future__ import annotations

import errno
import inspect
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_ipperf.core.errors import UsageError
from pytest_ipperf.core.script import Script
from pytest_ipperf.core.state import ServerState
from pytest_ipperf.protocols.base import (
    IP_BIND_ADDRESS_NO_PORT,
    Application,
    Call,
    Conversation,
    ReplyError,
    Transaction,
)

if TYPE_CHECKING:
    from aiohttp import ClientSession, TCPConnector

_HEAD = b"<html><head><title>pytest-ipperf</title></head><body><pre>\n"
_TAIL = b"</pre></body></html>"
_END = b"</html>"
_LINE = b"The quick brown fox jumps over the lazy dog 0123456789.\n"
_REQUEST = (
    b"GET /index.html HTTP/1.1\r\nHost: %s\r\nUser-Agent: pytest-ipperf\r\nAccept: */*\r\nConnection: close\r\n\r\n"
)


class Get(Conversation):
    """One page fetched."""

    __slots__ = ("_status", "_tail")

    request = b""

    def __init__(self) -> None:
        super().__init__()
        self._status = b""
        self._tail = b""

    def opening(self) -> bytes:
        return self.request

    def feed(self, data: bytes) -> bytes:
        if len(self._status) < 12:
            self._status += data[:64]
            if len(self._status) < 12:
                return b""
            if self._status[9:12] != b"200":
                self.trouble = f"reply {self._status.splitlines()[0].decode('latin-1')!r}"
                return b""
        # From the end, where the mark is; it may lie across two segments, so its possible beginning is carried over.
        if data.rfind(_END) >= 0 or _END in self._tail + data[:6]:
            self.finished = True
        self._tail = data[-6:] if len(data) >= 6 else (self._tail + data)[-6:]
        return b""


@dataclass(frozen=True, kw_only=True)
class Http(Application):
    """The page is static and of the payload's size."""

    name: str = "http"
    title: str = "HTTP"
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
            raise UsageError("the content of server_state is no page that ends in </html> and has it nowhere else")
        return filled

    def conversation(self, state: ServerState, index: int, ipver: int) -> Conversation:
        del state, index, ipver
        return Get()

    def script(self, state: ServerState) -> Script:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
        return Script(b"", ((b"\r\n\r\n", head % len(state.content) + state.content),))

    @asynccontextmanager
    async def library(self, state: ServerState, *, family: int, source: str, port: int) -> AsyncIterator[Transaction]:
        del state
        from aiohttp import ClientSession, ClientTimeout, DummyCookieJar  # noqa: PLC0415 - the host may lack it

        session = ClientSession(
            connector=_connector(family, source),
            timeout=ClientTimeout(),  # none: the burst has a deadline
            cookie_jar=DummyCookieJar(),
            auto_decompress=False,
            headers={"Accept-Encoding": "identity"},
        )
        # It has no option for this: a GET that was cut off would be sent a second time, and its failure not be seen.
        session._retry_connection = False  # noqa: SLF001
        url = f"http://{self.host}:{port}/index.html"

        async def fetch(call: Call) -> None:
            _CALL.set(call)
            await _fetched_by_library(session, url, call)

        async with session:
            yield fetch


_CALL: ContextVar[Call] = ContextVar("call")


def _connector(family: int, source: str) -> TCPConnector:
    """Connects each call anew: to what the call has looked up, from `source`, over `family` or not at all."""
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

    # Where aiohttp is too old to know one of these, it does not do what they prevent or cannot do what they permit.
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


async def _fetched_by_library(session: ClientSession, url: str, call: Call) -> None:
    """The same page as by `Get`, by aiohttp, which closes the connection itself when it has heard the page's end."""
    from aiohttp import ClientPayloadError, ClientResponseError, ServerDisconnectedError  # noqa: PLC0415

    tail = b""
    try:
        async with session.get(url, allow_redirects=False) as response:
            call.note_first_byte()
            if response.status != 200:
                version = ".".join(map(str, response.version or ()))
                raise ReplyError(f"reply {f'HTTP/{version} {response.status} {response.reason}'!r}")
            async for data in response.content.iter_any():
                if data.rfind(_END) >= 0 or _END in tail + data[:6]:
                    call.note_end()
                    await call.everyone()
                    return
                tail = (tail + data)[-6:]
    except ClientResponseError as error:
        raise ReplyError(" ".join(error.message.split())[:120]) from error
    except (ClientPayloadError, ServerDisconnectedError) as error:
        if ConnectionResetError.__name__ in str(error):  # of a reset within the page nothing but its text tells
            raise ConnectionResetError(errno.ECONNRESET, "reset") from error
        raise EOFError from error


protocol = Http()
Get.request = _REQUEST % protocol.host.encode("ascii")
