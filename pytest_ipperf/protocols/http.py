"""HTTP (RFC 9112): one GET on a connection of its own, measured until `</html>` is seen (paper 000, Table 2-1)."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_ipperf.core.errors import UsageError
from pytest_ipperf.protocols.base import Conversation, Protocol

_HEAD = b"<html><head><title>pytest-ipperf</title></head><body><pre>\n"
_TAIL = b"</pre></body></html>"
_LINE = b"The quick brown fox jumps over the lazy dog 0123456789.\n"
_REQUEST = (
    b"GET /index.html HTTP/1.1\r\nHost: %s\r\nUser-Agent: pytest-ipperf\r\nAccept: */*\r\nConnection: close\r\n\r\n"
)


class Get(Conversation):
    """One page fetched."""

    __slots__ = ("_status", "_tail")

    _end = b"</html>"
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
            if len(self._status) >= 12 and self._status[9:12] != b"200":
                self.trouble = f"reply {self._status.splitlines()[0].decode('latin-1')!r}"
                return b""
        # The mark may lie across two segments: its possible beginning is carried over.
        if self._end in self._tail + data:
            self.finished = True
        self._tail = data[-6:] if len(data) >= 6 else (self._tail + data)[-6:]
        return b""


@dataclass(frozen=True)
class Http(Protocol):
    """The page is static and of the payload's size."""

    name: str = "http"
    title: str = "HTTP"
    host: str = "www.ipperf.test"
    source: str = "RFC 9112; paper 000, section 2.3"
    ends_with: str = "</html>"
    typical_s: float = 0.00025

    def content(self, payload_bytes: int) -> bytes:
        least = len(_HEAD) + len(_TAIL)
        room = payload_bytes - least
        if room < 0:
            raise UsageError(f"payload {payload_bytes} is too small for http, whose page has at least {least} bytes")
        return _HEAD + (_LINE * (room // len(_LINE) + 1))[:room] + _TAIL

    def conversation(self, content: bytes, index: int) -> Conversation:
        del content, index
        return Get()


protocol = Http()
Get.request = _REQUEST % protocol.host.encode("ascii")
