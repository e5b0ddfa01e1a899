"""IMAP (RFC 9051, RFC 3501): one message of an own account, measured to the FETCH's OK (paper 000, Table 2-1)."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from pytest_ipperf.core.portable.content import check_message, message_of, wrong_content, wrong_size
from pytest_ipperf.core.portable.reply_script import CannedReplies
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.protocols.base import (
    Application,
    Call,
    ContentError,
    Conversation,
    ReplyError,
    Transaction,
)

_HEADERS = (
    b"From: <client@ipperf.test>\r\nTo: <server@ipperf.test>\r\nDate: Thu, 1 Jan 2026 00:00:00 +0000\r\n"
    b"Subject: pytest-ipperf\r\n\r\n"
)
_NAMES = ("the greeting", "LOGIN", "SELECT", "FETCH")
_GREETING, _FETCH = 0, 3
# PEEK, because BODY[] alone would mark the message as read and change what the next run finds.
_ASKED_FOR = "BODY.PEEK[]"
_LITERAL = re.compile(rb"\{(\d{1,18})\}\r?\n\Z")  # limited, as Python refuses to convert thousands of digits
_MESSAGE = re.compile(rb"(?:\* )?1 FETCH \((?:.* )?BODY\[\] \{\d+\}(?:\r?\n)?\Z", re.IGNORECASE)
_MESSAGES_END = re.compile(rb"(?: .*)?\)(?:\r?\n)?\Z")
_TWICE = "expected one message, seen another one after it"
_LONGEST_LINE = 8192
_SHOWN = 80


class Fetch(Conversation):
    """Retrieval of one message; its connection logs in to an account that no other connection uses."""

    __slots__ = (
        "_buffer", "_commands", "_continues", "_in_message", "_in_reply", "_left", "_message", "_message_seen",
        "_secret", "_step",
    )  # fmt: skip

    closing_bytes = b"a4 LOGOUT\r\n"
    lockstep = True

    def __init__(self, user: str, password: str, message: bytes) -> None:
        super().__init__()
        self.may_finish = False
        login = f"a1 LOGIN {user} {_quoted(password)}\r\n".encode()
        self._commands = (login, b"a2 SELECT INBOX\r\n", f"a3 FETCH 1 {_ASKED_FOR}\r\n".encode(), b"")
        self._secret = password
        self._message = message
        self._buffer = b""
        self._step = _GREETING
        self._continues = False  # the reply goes on after a literal
        self._left = 0  # bytes missing from a literal
        self._in_message = False  # the literal is the message
        self._in_reply = False  # inside the reply with the message
        self._message_seen = False  # the message has begun

    def first_bytes(self) -> bytes:
        return b""

    def receive_data(self, data: bytes) -> bytes:
        if self._buffer:
            data, self._buffer = self._buffer + data, b""
        at = 0
        while not self.trouble:
            if self._left:
                at = self._literal(data, at)
            end = data.find(b"\n", at) + 1
            if not end or self._left or self.trouble:
                break
            line, at = data[at:end], end
            to_send = self._line(line)
            if to_send or self.finished:
                self._buffer = data[at:]
                return b"" if self._buffer and self._is_premature() else to_send
        self._buffer = data[at:]
        if not self.trouble and len(self._buffer) > _LONGEST_LINE:
            self.trouble = f"a reply line of more than {_LONGEST_LINE} bytes"
        return b""

    def _is_premature(self) -> bool:
        """Refuse bytes that follow a command's last reply, unless untagged, as such a response may come any time."""
        if b"* ".startswith(self._buffer[:2]):
            return False
        self.finished = False
        self._wrong(self._buffer)
        return True

    def _literal(self, data: bytes, at: int) -> int:
        """Consume the bytes of a literal, which are no lines; return where they end."""
        end = min(len(data), at + self._left)
        self._left -= end - at
        if self._in_message:
            piece = memoryview(data)[at:end]
            if self._message.startswith(piece, self.content_bytes):
                self.content_bytes += end - at
            else:
                self.differs(wrong_content(self._message, self.content_bytes, piece))
        return end

    def _line(self, line: bytes) -> bytes:
        """Process a line; return the next command if the line ends the reply to the last one."""
        begun, self._continues = self._continues, False
        if (literal := _LITERAL.search(line)) and (begun or line.startswith(b"* ")):
            self._announced(line, int(literal[1]), begun=begun)
        elif begun:
            if self._in_reply and not _MESSAGES_END.match(line):  # else the rest of the reply after its literal
                self._wrong(line)
            self._in_reply = False
        elif self._step and line[:3] == b"a%d " % self._step:
            return self._reply(line[3:])
        elif line[:2] != b"* " or line[2:6].upper() == b"BYE ":
            self._wrong(line)
        elif self._step == _GREETING:
            return self._reply(line[2:])
        return b""

    def _announced(self, line: bytes, size: int, *, begun: bool) -> None:
        self._left, self._continues = size, True
        self._in_message = self._step == _FETCH and not begun and _MESSAGE.match(line) is not None
        if self._in_message:
            if self._message_seen:
                self.differs(_TWICE)
            elif size != len(self._message):
                self.differs(wrong_size(self._message, size, "in the literal"))
            self._message_seen = self._in_reply = True
        elif self._in_reply and not line.startswith(b" "):
            self._wrong(line)

    def _reply(self, reply: bytes) -> bytes:
        if reply[:2].upper() != b"OK" or reply[2:3] not in b" \r\n":
            self._wrong(reply)
        elif self._step == _FETCH:
            self.finished = self._message_seen
            if not self.finished:
                self.differs(_no_message(self._message, reply, self._secret))
        else:
            self._step += 1
            self.may_finish = self._step == _FETCH
            return self._commands[self._step - 1]
        return b""

    def _wrong(self, reply: bytes) -> None:
        self.trouble = _wrong_reply(reply, _NAMES[self._step], self._secret)


@dataclass(frozen=True, kw_only=True)
class Imap(Application):
    """IMAP; the message, headers included, has the payload's size as sent, with CRLF."""

    name: str = "imap"
    title: str = "IMAP"
    summary: str = "log in to an account of its own and fetch a message, timed to `OK FETCH completed`"
    host: str = "imap.ipperf.test"
    source: str = "RFC 9051, RFC 3501; paper 000, section 2.6"
    ends_with: str = "OK FETCH completed"
    typical_s: float = 0.002
    packages: tuple[str, ...] = ("aioimaplib>=1.0.1",)
    accounts: bool = True

    def content(self, payload_bytes: int) -> bytes:
        return message_of(self.name, _HEADERS, payload_bytes)

    def filled(self, state: ServerState, payload_bytes: int) -> ServerState:
        filled = super().filled(state, payload_bytes)
        for each in (filled.content, *filled.messages):
            check_message(each)
        return filled

    def conversation(self, state: ServerState, index: int, ipver: int) -> Conversation:
        del ipver
        return Fetch(state.user(index), state.password, state.content)

    def canned_replies(self, state: ServerState) -> CannedReplies:
        lean, library = _answers(b"a", state.content), _answers(b"A", state.content)
        return CannedReplies(
            b"* OK IMAP4rev1\r\n",
            tuple((b"\r\n", answer) for answer in lean[1:]),
            asides=tuple((b"A%d " % number, answer) for number, answer in enumerate(library)),
        )

    @asynccontextmanager
    async def library(self, state: ServerState, *, family: int, source: str, port: int) -> AsyncIterator[Transaction]:
        del family, source, port  # the agent connects, so that connecting and the greeting are timed apart

        async def fetch(call: Call) -> None:
            await _fetched_by_library(call, state)

        yield fetch


def _answers(tag: bytes, content: bytes) -> tuple[bytes, ...]:
    """Return the null server's answers to CAPABILITY, sent by the library alone, and to both clients' commands."""
    return (
        b"* CAPABILITY IMAP4rev1\r\n%b0 OK CAPABILITY completed\r\n" % tag,
        b"%b1 OK LOGIN completed\r\n" % tag,
        b"* FLAGS (\\Seen)\r\n* 1 EXISTS\r\n* 0 RECENT\r\n%b2 OK [READ-WRITE] SELECT completed\r\n" % tag,
        b"* 1 FETCH (BODY[] {%d}\r\n%b)\r\n%b3 OK FETCH completed\r\n" % (len(content), content, tag),
        b"* BYE\r\n%b4 OK LOGOUT completed\r\n" % tag,
    )


def _quoted(text: str) -> str:
    """Return the text as a quoted string (RFC 9051, section 4.3)."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _shown(reply: bytes, secret: str) -> str:
    """Return a reply for a failure, shortened and without the password, which a server may repeat, quoted or not."""
    text = reply.decode("latin-1")
    for form in (_quoted(secret)[1:-1], secret):
        text = text.replace(form, "...") if secret else text
    return " ".join(text.split())[:_SHOWN]


def _wrong_reply(reply: bytes, asked: str, secret: str) -> str:
    return f"reply {_shown(reply, secret)!r} to {asked}"


def _no_message(message: bytes, reply: bytes, secret: str) -> str:
    return wrong_size(message, 0, f"before {_shown(reply, secret)!r}")


@cache
def _library_line() -> type[Any]:
    """Return the library's protocol class, which cancels its call on a broken connection; the library would wait on."""
    import asyncio  # noqa: PLC0415 - the lean client has no use for it

    from aioimaplib import aioimaplib  # noqa: PLC0415 - the host may lack it

    class Line(aioimaplib.IMAP4ClientProtocol):  # type: ignore[misc] # it brings no types
        def __init__(self, call: Call, secret: str) -> None:
            super().__init__(asyncio.get_running_loop())
            self.tagpre = "A"  # fixed, as the null server has canned replies; the library accepts no small letter
            # Replaces its `wait`, which cannot be cancelled while it asks for the server's capabilities.
            self.ready = self.loop.create_future()
            self.lost: Exception | None = None
            self._call = call
            self._secret = secret
            self._task = asyncio.current_task()

        def data_received(self, d: bytes) -> None:
            try:
                super().data_received(d)
            except Exception as error:  # noqa: BLE001 - it raises what it likes at what it does not understand
                self._lose(ReplyError(_shown(f"{type(error).__name__}: {error}".encode(), self._secret)))

        async def welcome(self, command: bytes) -> None:
            self._call.note_first_byte()
            try:
                await super().welcome(command)
                self.ready.set_result(None)
            except Exception as error:  # noqa: BLE001 - as above
                self._lose(ReplyError(_wrong_reply(str(error).encode(), _NAMES[_GREETING], self._secret)))

        def connection_lost(self, exc: Exception | None) -> None:
            self._lose(exc or EOFError())

        def _lose(self, error: Exception) -> None:
            if self.lost is None and self._task is not None:
                self.lost = error
                self._task.cancel()

    return Line


@cache
def _library_client() -> type[Any]:
    """Return the library's client class, for an open connection."""
    from aioimaplib import aioimaplib  # noqa: PLC0415 - the host may lack it

    class Client(aioimaplib.IMAP4):  # type: ignore[misc] # it brings no types
        def __init__(self, line: Any) -> None:
            self._line = line
            super().__init__(timeout=None)

        def create_client(self, *_: Any, **__: Any) -> None:
            self.protocol = self._line

    return Client


async def _fetched_by_library(call: Call, state: ServerState) -> None:
    """Fetch the message by aioimaplib, with the commands of `Fetch` after its own CAPABILITY."""
    import asyncio  # noqa: PLC0415 - as above

    make_line, sock = _library_line(), await call.connect()
    transport, line = await asyncio.get_running_loop().create_connection(
        lambda: make_line(call, state.password), sock=sock
    )
    client = _library_client()(line)
    try:
        await line.ready
        _check(await client.login(state.user(call.index), state.password), "LOGIN", state)
        _check(await client.select("INBOX"), "SELECT", state)
        fetched = await client.fetch("1", _ASKED_FOR)
        _check(fetched, "FETCH", state)
        _check_message(fetched.lines, state)
        call.note_end(len(state.content))
        await call.everyone()
        await client.logout()
    except asyncio.CancelledError:
        if line.lost is None:
            raise
        raise line.lost from None
    finally:
        transport.abort()


def _check(response: Any, asked: str, state: ServerState) -> None:
    if response.result.upper() != "OK":
        reply = b"%b %b" % (response.result.encode(), response.lines[-1])
        raise ReplyError(_wrong_reply(reply, asked, state.password))


def _check_message(lines: list[bytes | bytearray], state: ServerState) -> None:
    """Compare the message of a FETCH's reply, in which the library gives literals as bytearrays."""
    found = [at for at, line in enumerate(lines) if isinstance(line, bytes) and _MESSAGE.match(line)]
    if not found:
        raise ContentError(_no_message(state.content, b"OK " + lines[-1], state.password))
    if len(found) > 1:
        raise ContentError(_TWICE)
    message, after, *_ = *lines[found[0] + 1 :], b"", b""
    if len(message) != len(state.content):
        raise ContentError(wrong_size(state.content, len(message), "in the literal"))
    if message != state.content:
        raise ContentError(wrong_content(state.content, 0, bytes(message)))
    if not _MESSAGES_END.match(after):
        raise ReplyError(_wrong_reply(bytes(after), _NAMES[_FETCH], state.password))


protocol = Imap()
