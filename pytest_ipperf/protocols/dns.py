"""DNS (RFC 1035, RFC 3596): one look-up over UDP, measured until its answer with an address is there (paper 000).

The query asks for A over IPv4 and for AAAA over IPv6. The look-ups of the other protocols are the same without padding.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from pytest_ipperf.core.portable import dns
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.reply_script import CannedReplies
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.protocols.base import CONTENT, Application, Call, ContentError, Conversation, ReplyError, Transaction

if TYPE_CHECKING:
    from asyncio import DatagramProtocol, Future

# 1280 bytes with the headers of IPv6 and UDP, which every link carries unfragmented (RFC 8200, section 5).
_MOST_BYTES = 1232


class LookUp(Conversation):
    """One query and its answer; replies to other queries are ignored."""

    __slots__ = ("_addresses", "_query", "_question")

    def __init__(self, query: bytes, question: bytes, addresses: tuple[str, ...]) -> None:
        super().__init__()
        self._query = query
        self._question = question
        self._addresses = addresses

    def first_bytes(self) -> bytes:
        return self._query

    def receive_data(self, data: bytes) -> bytes:
        if data[:2] == self._query[:2]:
            answer = dns.answer(data, self._question, self._addresses)
            if answer.differs:
                self.differs(f"dns: {answer.trouble}")
            elif answer.trouble:
                self.trouble = answer.trouble
            else:
                self.finished = True
                self.content_bytes = len(self._query)  # the query is the payload
        return b""


@dataclass(frozen=True, kw_only=True)
class Dns(Application):
    """DNS; the query has the payload's size and is padded if that is larger than the plain one (RFC 7830)."""

    name: str = "dns"
    title: str = "DNS"
    summary: str = "look up a name over UDP, A over IPv4 and AAAA over IPv6, timed to the `A or AAAA` of the answer"
    host: str = "host.ipperf.test"
    source: str = "RFC 1035, RFC 3596; paper 000, section 2.2"
    payload: tuple[str, ...] = ("34",)
    ends_with: str = "A or AAAA"
    typical_s: float = 0.00006
    datagram: bool = True
    resolves: bool = True
    least_packets: tuple[int, int] = (1, 1)
    null: str = "nameserver"

    def content(self, payload_bytes: int) -> bytes:
        return self._query(payload_bytes, dns.TYPE_A)

    def conversation(self, state: ServerState, index: int, ipver: int) -> Conversation:
        rtype = dns.record_type(ipver)
        ident = (index & 0xFFFF).to_bytes(2, "big")
        query = ident + self._query(len(state.content), rtype)[2:]
        return LookUp(query, self._question(rtype), _of_family(state.addresses, ipver))

    @cache  # noqa: B019 - there is one Dns, and few sizes
    def _query(self, size: int, rtype: int) -> bytes:
        plain = dns.query(self.host, rtype, 0)
        if size == len(plain):
            return plain
        padded = dns.least_padded(self.host)
        if size < len(plain):
            raise UsageError(f"payload {size} is too small for dns, whose query has at least {len(plain)} bytes")
        if size < padded:
            raise UsageError(
                f"payload {size} is not possible for dns, whose query has {len(plain)} bytes, or {padded} and more "
                "where it is padded"
            )
        if size > _MOST_BYTES:
            raise UsageError(f"payload {size} is too large for dns, whose query has at most {_MOST_BYTES} bytes")
        return dns.query(self.host, rtype, 0, size=size)

    @cache  # noqa: B019 - as above
    def _question(self, rtype: int) -> bytes:
        return dns.question(self.host, rtype)

    def canned_replies(self, state: ServerState) -> CannedReplies:
        del state
        return CannedReplies(b"", ())  # the address in an answer depends on the IP version: see `null`

    @asynccontextmanager
    async def library(self, state: ServerState, *, family: int, source: str, port: int) -> AsyncIterator[Transaction]:
        del source, port  # the agent makes the socket; an application would leave both to the kernel
        listener, ipver = _listener(), 6 if family == socket.AF_INET6 else 4

        async def look_up(call: Call) -> None:
            await _looked_up_by_asyncio(call, self.conversation(state, call.index, ipver), listener)

        yield look_up


@cache  # each connection of a run asks for the same
def _of_family(addresses: tuple[str, ...], ipver: int) -> tuple[str, ...]:
    return tuple(each for each in addresses if (":" in each) == (ipver == 6))


_Listener = Callable[[Call, Conversation, "Future[None]"], "DatagramProtocol"]


def _listener() -> _Listener:
    """Return a protocol class that passes a call's datagrams on and sets its future to the answer or the failure."""
    from asyncio import DatagramProtocol  # noqa: PLC0415 - the lean client has no use for it

    class Listener(DatagramProtocol):
        def __init__(self, call: Call, talk: Conversation, answered: Future[None]) -> None:
            self._call = call
            self._talk = talk
            self._answered = answered

        def datagram_received(self, data: bytes, addr: object) -> None:
            del addr  # the socket is connected
            if self._answered.done():
                return
            self._talk.receive_data(data)
            if self._talk.finished:
                self._call.note_first_byte()
                self._answered.set_result(None)
            elif self._talk.trouble:
                error = ContentError if self._talk.kind == CONTENT else ReplyError
                self._answered.set_exception(error(self._talk.trouble))

        def error_received(self, exc: Exception) -> None:
            if not self._answered.done():
                self._answered.set_exception(exc)

    return Listener


async def _looked_up_by_asyncio(call: Call, talk: Conversation, listener: _Listener) -> None:
    """Look up as `LookUp` does, by an endpoint of asyncio."""
    import asyncio  # noqa: PLC0415 - the lean client has no use for it

    loop, query = asyncio.get_running_loop(), talk.first_bytes()
    answered: asyncio.Future[None] = loop.create_future()
    transport, _ = await loop.create_datagram_endpoint(
        lambda: listener(call, talk, answered), sock=await call.connect()
    )
    with contextlib.closing(transport):
        transport.sendto(query)
        with call.repeating(lambda: transport.sendto(query)):
            await answered
        call.note_end(talk.content_bytes)
        await call.everyone()


protocol = Dns()
