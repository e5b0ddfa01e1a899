"""NTP (RFC 5905): one client request over UDP, measured until the server's response is there and valid.

The transmit timestamp of a request is random, as it only identifies the request (section 8). A response that does not
echo it as its origin timestamp is ignored: nobody who cannot read the request can forge the response.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.reply_script import CannedDatagram, CannedReplies
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.protocols.base import Application, Call, Conversation, ReplyError, Transaction

PACKET_BYTES = 48
VERSION = 4
_CLIENT, _SERVER = 3, 4
_UNSYNCHRONIZED = 3  # leap indicator
_KISS, _MOST_STRATUM = 0, 15
_ROOT_DELAY, _ROOT_DISPERSION = slice(4, 8), slice(8, 12)
_REFERENCE, _ORIGIN, _RECEIVE, _TRANSMIT = slice(16, 24), slice(24, 32), slice(32, 40), slice(40, 48)
_SHORT_S = 1 / (1 << 16)  # unit of the short format
_MAX_DISPERSION_S = 16  # MAXDISP
_UNSET = bytes(8)
_LAST_TIMESTAMP = (1 << 64) - 1
_REQUEST = bytes([VERSION << 3 | _CLIENT]) + bytes(PACKET_BYTES - 1)


class Exchange(Conversation):
    """One request and its response (RFC 5905, section 8); responses to other requests are ignored."""

    __slots__ = ("_request",)

    def __init__(self, request: bytes) -> None:
        super().__init__()
        self._request = request

    def first_bytes(self) -> bytes:
        return self._request

    def receive_data(self, data: bytes) -> bytes:
        if data[_ORIGIN] == self._request[_TRANSMIT]:
            self.trouble = trouble(data)
            self.finished = not self.trouble
            self.content_bytes = PACKET_BYTES if self.finished else 0
        return b""


def trouble(response: bytes) -> str:
    """Return what is wrong with a response that echoes the request's timestamp; empty if nothing.

    Source: RFC 5905, section 9.2, and the function `packet` of appendix A.5.1.1.
    """
    if len(response) < PACKET_BYTES:
        return f"a packet of {len(response)} bytes instead of {PACKET_BYTES}"
    leap, version, mode, stratum = response[0] >> 6, response[0] >> 3 & 7, response[0] & 7, response[1]
    if (version, mode) != (VERSION, _SERVER):
        return f"version {version}, mode {mode} instead of version {VERSION}, mode {_SERVER} (server)"
    if stratum == _KISS:
        code = response[12:16].rstrip(b"\0")
        return f"kiss-o'-death {code.decode('ascii') if code.isalnum() else repr(code)}"
    if leap == _UNSYNCHRONIZED or stratum > _MOST_STRATUM:
        return f"a clock that is not synchronized (leap indicator {leap}, stratum {stratum})"
    return _time_trouble(response)


def _time_trouble(response: bytes) -> str:
    if _UNSET in (response[_RECEIVE], response[_TRANSMIT]):
        return "no receive or no transmit timestamp"
    distance_s = (_number(response[_ROOT_DELAY]) / 2 + _number(response[_ROOT_DISPERSION])) * _SHORT_S
    if distance_s >= _MAX_DISPERSION_S:
        return f"a root distance of {distance_s:.3g} s, which must be below {_MAX_DISPERSION_S} s"
    # Timestamps wrap around every 136 years, so their order is that of the signed difference (section 6).
    since_reference = _number(response[_TRANSMIT]) - _number(response[_REFERENCE]) & _LAST_TIMESTAMP
    if response[_REFERENCE] != _UNSET and since_reference > _LAST_TIMESTAMP >> 1:
        return "a reference timestamp that is later than the transmit timestamp"
    return ""


def _number(field: bytes) -> int:
    return int.from_bytes(field, "big")


@dataclass(frozen=True, kw_only=True)
class Ntp(Application):
    """NTP; requests and responses have 48 bytes, without extension field and digest."""

    name: str = "ntp"
    title: str = "NTP"
    summary: str = "ask a time server over UDP, timed to the `response` that echoes the request's timestamp"
    source: str = "RFC 5905, sections 8 and 9; timed as in paper 000, section 2.3"
    payload: tuple[str, ...] = ("48",)
    ends_with: str = "response"
    typical_s: float = 0.00006
    datagram: bool = True
    least_packets: tuple[int, int] = (1, 1)

    def content(self, payload_bytes: int) -> bytes:
        if payload_bytes < PACKET_BYTES:
            raise UsageError(
                f"payload {payload_bytes} is too small for ntp, whose packet has at least {PACKET_BYTES} bytes"
            )
        if payload_bytes > PACKET_BYTES:
            raise UsageError(f"payload {payload_bytes} is too large for ntp, whose packet has {PACKET_BYTES} bytes")
        return _REQUEST

    def conversation(self, state: ServerState, index: int, ipver: int) -> Conversation:
        del state, index, ipver
        return Exchange(_REQUEST[:40] + os.urandom(8))

    def canned_replies(self, state: ServerState) -> CannedReplies:
        del state
        head = bytes([VERSION << 3 | _SERVER, 1])
        response = head + bytes(30) + b"\xee" * 16  # any time but 0
        return CannedReplies(b"", (), datagram=CannedDatagram(response, ((40, 24, 8),), unanswered=head[:1]))

    @asynccontextmanager
    async def library(self, state: ServerState, *, family: int, source: str, port: int) -> AsyncIterator[Transaction]:
        del source, port  # the agent makes the socket
        ipver = 6 if family == socket.AF_INET6 else 4

        async def ask(call: Call) -> None:
            await _exchange(call, self.conversation(state, call.index, ipver))

        yield ask


async def _exchange(call: Call, talk: Conversation) -> None:
    """Carry out a conversation by asyncio's own socket calls."""
    import asyncio  # noqa: PLC0415 - the lean client has no use for it

    loop, request = asyncio.get_running_loop(), talk.first_bytes()
    with contextlib.closing(await call.connect()) as sock:
        await loop.sock_sendall(sock, request)
        with call.repeating(lambda: sock.send(request)):
            while not talk.finished:
                talk.receive_data(await loop.sock_recv(sock, 4096))
                if talk.trouble:
                    raise ReplyError(talk.trouble)
        call.note_first_byte()
        call.note_end(talk.content_bytes)
        await call.everyone()


protocol = Ntp()
