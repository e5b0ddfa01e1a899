"""SMTP (RFC 5321): one message sent, measured until `250 ... queued` is seen (paper 000, Table 2-1)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache

from pytest_ipperf.core.script import Script
from pytest_ipperf.core.state import ServerState
from pytest_ipperf.protocols.base import (
    Application,
    Call,
    Conversation,
    Replies,
    ReplyError,
    Transaction,
    check_message,
    message_of,
)

_HEADERS = b"From: <client@ipperf.test>\r\nTo: <server@ipperf.test>\r\nSubject: pytest-ipperf\r\n\r\n"
# The greeting answers nothing, so the n-th reply is the answer to the n-th line of this table.
_COMMANDS = (
    ("the greeting", b"EHLO client.ipperf.test\r\n", b"2"),
    ("EHLO", b"MAIL FROM:<client@ipperf.test>\r\n", b"2"),
    ("MAIL", b"RCPT TO:<server@ipperf.test>\r\n", b"2"),
    ("RCPT", b"DATA\r\n", b"2"),
    ("DATA", b"", b"3"),
    ("the message", b"", b"2"),
)
_LAST = 5


class Send(Replies):
    """One message handed over."""

    __slots__ = ("_message", "_step")

    goodbye = b"QUIT\r\n"

    def __init__(self, message: bytes) -> None:
        super().__init__()
        self._message = message
        self._step = 0

    def _within(self, line: bytes) -> bool:
        return line[3:4] == b"-"  # all lines have the code, and the last one a space after it (RFC 5321, section 4.2.1)

    def _reply(self, line: bytes) -> bytes:
        asked, following, expected = _COMMANDS[self._step]
        last = self._step == _LAST
        if line[:1] != expected or (last and b"queued" not in line.lower()):
            self.trouble = f"reply {line.strip()[:80].decode('latin-1')!r} to {asked}"
            return b""
        if last:
            self.finished = True
            return b""
        self._step += 1
        return following or self._message


@dataclass(frozen=True, kw_only=True)
class Smtp(Application):
    """The message, headers included, has the payload's size; the dots that SMTP asks for come on top.

    These are the final one, and one more for each line of a suite's own message that begins with a dot.
    """

    name: str = "smtp"
    title: str = "SMTP"
    host: str = "mail.ipperf.test"
    source: str = "RFC 5321; paper 000, section 2.5"
    ends_with: str = "250 ... queued"
    typical_s: float = 0.0011
    packages: tuple[str, ...] = ("aiosmtplib>=2",)

    def content(self, payload_bytes: int) -> bytes:
        return message_of(self.name, _HEADERS, payload_bytes)

    def filled(self, state: ServerState, payload_bytes: int) -> ServerState:
        filled = super().filled(state, payload_bytes)
        check_message(filled.content)
        return filled

    def conversation(self, state: ServerState, index: int, ipver: int) -> Conversation:
        del index, ipver
        return Send(_dotted(state.content))

    def script(self, state: ServerState) -> Script:
        del state
        ok = (b"\r\n", b"250 2.0.0 Ok\r\n")
        queued = (b"\r\n.\r\n", b"250 2.0.0 Ok: queued as 0\r\n")
        go_on, bye = (b"\r\n", b"354 go on\r\n"), (b"\r\n", b"221 2.0.0 Bye\r\n")
        return Script(b"220 mail.ipperf.test ESMTP\r\n", (ok, ok, ok, go_on, queued, bye))

    @asynccontextmanager
    async def library(self, state: ServerState, *, family: int, source: str, port: int) -> AsyncIterator[Transaction]:
        del family, source, port  # the agent connects, so that connecting and the greeting are told apart

        async def send(call: Call) -> None:
            await _sent_by_library(call, state.content)

        yield send


@lru_cache(maxsize=1)  # all connections of a run send the same
def _dotted(message: bytes) -> bytes:
    """As it goes over the wire, to its final dot (RFC 5321, section 4.5.2)."""
    return (b"\r\n" + message).replace(b"\r\n.", b"\r\n..")[2:] + b".\r\n"


async def _sent_by_library(call: Call, message: bytes) -> None:
    """The same commands as `Send`, by aiosmtplib."""
    import asyncio  # noqa: PLC0415 - the lean client has no use for it

    from aiosmtplib import SMTP, SMTPResponseException  # noqa: PLC0415 - the host may lack it

    # With a name of its own it looks none up, and without STARTTLS and time-outs it does what the lean client does.
    # That there is no other host than the socket's has to be said up to version 3.
    client = SMTP(
        sock=await call.connect(), hostname=None, local_hostname="client.ipperf.test", start_tls=False, timeout=None
    )
    asked = "the greeting"
    try:
        await client.connect()
        call.note_first_byte()
        asked = "EHLO"
        await client.ehlo()
        asked = "MAIL"
        await client.mail("client@ipperf.test")
        asked = "RCPT"
        await client.rcpt("server@ipperf.test")
        asked = "DATA"
        code, said = await client.data(message)
        if "queued" not in said.lower():
            raise ReplyError(_wrong_reply(code, said, "the message"))
        call.note_end()
        await call.everyone()
        await client.quit()
    except SMTPResponseException as error:
        raise ReplyError(_wrong_reply(error.code, error.message, asked)) from error
    finally:
        if isinstance(client.transport, asyncio.Transport):  # a call that was broken off
            client.transport.abort()


def _wrong_reply(code: int, said: str, asked: str) -> str:
    text = " ".join(said.split())
    return f"reply {(text if code < 0 else f'{code} {text}')[:80]!r} to {asked}"  # the library's own words have none


protocol = Smtp()
