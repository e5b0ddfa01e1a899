"""SMTP (RFC 5321): one message sent, measured until `250 ... queued` is seen (paper 000, Table 2-1)."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache

from pytest_ipperf.core.portable.content import check_message, message_of, wrong_content, wrong_size
from pytest_ipperf.core.portable.reply_script import CannedReplies
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.protocols.base import (
    Application,
    Call,
    Conversation,
    Replies,
    ReplyError,
    Transaction,
)

_HEADERS = b"From: <client@ipperf.test>\r\nTo: <server@ipperf.test>\r\nSubject: pytest-ipperf\r\n\r\n"
# Each connection has its own sender, which identifies its message at the server; all have the same length.
_SENDER = "client-%010d@ipperf.test"
_SENT_BY = re.compile(r"client-(\d{10,})@ipperf\.test")
# Headers that a server may add on top of a message (RFC 5321, section 4.4; Delivered-To by custom, X-... by anybody),
# with their continuation lines, and the empty line if the message itself begins with no header.
_TRACE = re.compile(
    rb"(?:(?:Received|Return-Path|Delivered-To|X-[!-9;-~]+):[^\n]*\n(?:[ \t][^\n]*\n)*)*\n?", re.IGNORECASE
)
_HEADER = re.compile(rb"[!-9;-~]+[ \t]*:")
# The greeting answers no command, so the n-th reply is the answer to the n-th line of this table.
_COMMANDS = (
    ("the greeting", b"EHLO client.ipperf.test\r\n", (b"220 ",)),
    ("EHLO", b"", (b"250 ",)),
    ("MAIL", b"RCPT TO:<server@ipperf.test>\r\n", (b"250 ",)),
    ("RCPT", b"DATA\r\n", (b"250 ", b"251 ")),
    ("DATA", b"", (b"354 ",)),
    ("the message", b"", (b"250 ",)),
)
_EHLO, _LAST = 1, 5
_QUEUED = re.compile(rb"(?i)\bqueued\b")
_ENHANCED = re.compile(rb"(\d)\.\d{1,3}\.\d{1,3}(?![^ \r\n])")  # RFC 3463, section 2


class Send(Replies):
    """Submission of one message."""

    __slots__ = ("_mail", "_message", "_size_bytes", "_step")

    closing_bytes = b"QUIT\r\n"
    lockstep = True

    def __init__(self, message: bytes, sender: str) -> None:
        super().__init__()
        self.may_finish = False
        self._mail = b"MAIL FROM:<%s>\r\n" % sender.encode()
        self._message = _dotted(message)
        self._size_bytes = len(message)
        self._step = 0

    def _continues(self, line: bytes) -> bool:
        # All lines have the same code, and the last one no hyphen after it (RFC 5321, section 4.2.1).
        if line[3:4] != b"-" or not line[:3].isdigit() or (self._open and line[:3] != self._open):
            return False
        self._open = line[:3]
        return True

    def _reply(self, line: bytes) -> bytes:
        asked, following, expected = _COMMANDS[self._step]
        last = self._step == _LAST
        if (
            (line[:4] not in expected and line.rstrip() + b" " not in expected)  # a reply without text
            or (self._open and self._open != line[:3])
            or (line[5:6] == b"." and self._step > _EHLO and _contradicts(line[:3], line[4:]))
            or (last and not _QUEUED.search(line, 4))
        ):
            self.trouble = f"reply {line.strip()[:80].decode('latin-1')!r} to {asked}"
            return b""
        if last:
            self.finished = True
            self.content_bytes = self._size_bytes
            return b""
        to_send = following or (self._mail if self._step == _EHLO else self._message)
        self._open = b""
        self._step += 1
        self.may_finish = self._step == _LAST
        return to_send


@dataclass(frozen=True, kw_only=True)
class Smtp(Application):
    """SMTP; the message, headers included, has the payload's size, and SMTP's dots come on top.

    They are the final one, and one more for each line of a suite's own message that begins with a dot.
    """

    name: str = "smtp"
    # Version 2: Postfix holds messages, which costs less than discarding them during a burst.
    version: int = 2
    hands_over: bool = True
    title: str = "SMTP"
    summary: str = "hand over a message, timed to `250 ... queued`"
    host: str = "mail.ipperf.test"
    source: str = "RFC 5321; paper 000, section 2.5"
    ends_with: str = "250 ... queued"
    typical_s: float = 0.0011
    # The first version that refuses a reply which is too long.
    packages: tuple[str, ...] = ("aiosmtplib>=5.1.3",)

    def content(self, payload_bytes: int) -> bytes:
        return message_of(self.name, _HEADERS, payload_bytes)

    def filled(self, state: ServerState, payload_bytes: int) -> ServerState:
        filled = super().filled(state, payload_bytes)
        check_message(filled.content)
        return filled

    def conversation(self, state: ServerState, index: int, ipver: int) -> Conversation:
        del ipver
        return Send(state.content, _SENDER % index)

    def sent_by(self, sender: str) -> int | None:
        found = _SENT_BY.fullmatch(sender)
        return int(found[1]) if found else None

    def difference(self, state: ServerState, message: bytes) -> str:
        sent, kept = state.content.replace(b"\r\n", b"\n"), message.replace(b"\r\n", b"\n")
        on_top = kept[: max(0, len(kept) - len(sent))]
        if kept.endswith(sent) and _may_stand_on_top(on_top, sent):
            return ""
        trace = _TRACE.match(kept)
        left = kept[trace.end() :] if trace else kept
        return wrong_size(sent, len(left)) if sent.startswith(left) else wrong_content(sent, 0, left)

    def canned_replies(self, state: ServerState) -> CannedReplies:
        del state
        ok = (b"\r\n", b"250 2.0.0 Ok\r\n")
        queued = (b"\r\n.\r\n", b"250 2.0.0 Ok: queued as 0\r\n")
        go_on, bye = (b"\r\n", b"354 go on\r\n"), (b"\r\n", b"221 2.0.0 Bye\r\n")
        return CannedReplies(b"220 mail.ipperf.test ESMTP\r\n", (ok, ok, ok, go_on, queued, bye))

    @asynccontextmanager
    async def library(self, state: ServerState, *, family: int, source: str, port: int) -> AsyncIterator[Transaction]:
        del family, source, port  # the agent connects, so that connecting and the greeting are timed apart

        async def send(call: Call) -> None:
            await _sent_by_library(call, state.content)

        yield send


def _may_stand_on_top(added: bytes, sent: bytes) -> bool:
    """Return whether a server may have put this on top: trace headers, and an empty line only to end them."""
    if not _TRACE.fullmatch(added):
        return False
    ended = added == b"\n" or added.endswith(b"\n\n")
    return not ended or not _HEADER.match(sent)


def _contradicts(code: bytes, text: bytes) -> bool:
    """Return whether a reply's enhanced code is of another class than its code (RFC 2034, section 4)."""
    enhanced = _ENHANCED.match(text)
    return enhanced is not None and enhanced[1] != code[:1]


@lru_cache(maxsize=1)  # all connections of a run send the same
def _dotted(message: bytes) -> bytes:
    """Return the message as transmitted, with doubled dots and the final one (RFC 5321, section 4.5.2)."""
    return (b"\r\n" + message).replace(b"\r\n.", b"\r\n..")[2:] + b".\r\n"


async def _sent_by_library(call: Call, message: bytes) -> None:
    """Send the message by aiosmtplib, with the same commands as `Send`."""
    import asyncio  # noqa: PLC0415 - the lean client has no use for it

    from aiosmtplib import SMTP, SMTPResponseException  # noqa: PLC0415 - the host may lack it

    # A given local name saves a look-up; without STARTTLS and time-outs it does what the lean client does. Versions up
    # to 3 require the explicit `hostname=None` beside a socket.
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
        _check(*await client.mail(_SENDER % call.index), asked)
        asked = "RCPT"
        _check(*await client.rcpt("server@ipperf.test"), asked)
        asked = "DATA"
        code, reply = await client.data(message)
        _check(code, reply, "the message")
        if not _QUEUED.search(reply.encode(errors="replace")):
            raise ReplyError(_wrong_reply(code, reply, "the message"))
        call.note_end(len(message))
        await call.everyone()
        await client.quit()
    except SMTPResponseException as error:
        raise ReplyError(_wrong_reply(error.code, error.message, asked)) from error
    finally:
        if isinstance(client.transport, asyncio.Transport):  # the call was cancelled
            client.transport.abort()


def _check(code: int, reply: str, asked: str) -> None:
    """Check the enhanced code of a reply that the library accepts against its code."""
    if _contradicts(b"%d" % code, reply.rpartition("\n")[2].encode(errors="replace")):
        raise ReplyError(_wrong_reply(code, reply, asked))


def _wrong_reply(code: int, reply: str, asked: str) -> str:
    text = " ".join(reply.split())
    return f"reply {(text if code < 0 else f'{code} {text}')[:80]!r} to {asked}"  # its own errors have no code


protocol = Smtp()
