"""FTP (RFC 959, RFC 2428): one file, measured until `226` and all of the file are there (paper 000, 2.4)."""

from __future__ import annotations

import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_ipperf.core.portable.content import wrong_content, wrong_size
from pytest_ipperf.core.portable.reply_script import DATA_PORT, CannedReplies
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.protocols.base import (
    IP_BIND_ADDRESS_NO_PORT,
    Application,
    Call,
    ContentError,
    Conversation,
    Replies,
    ReplyError,
    Transaction,
)

if TYPE_CHECKING:
    import asyncio

    from aioftp import Client

FILE = "file.bin"
"""Name of the content where a server puts each of its accounts; not all servers make that place their root."""

_LINE = b"The quick brown fox jumps over the lazy dog 0123456789.\n"
_RETR = b"RETR %s\r\n" % FILE.encode("ascii")
# The request that the n-th reply answers, and the accepted codes.
_ASKED = ("the greeting", "USER", "PASS", "TYPE", "EPSV", "RETR", "RETR", "RETR")
_EXPECTED = ((b"220",), (b"331",), (b"230",), (b"200",), (b"229",), (b"150", b"125"), (b"226",), ())
_EPSV, _LAST = 4, 6
_PORT = re.compile(rb"\((.)\1\1(\d{1,5})\1\)")  # RFC 2428, section 3
_READ_BYTES = 65536


class Retrieve(Replies):
    """Retrieval of one file by an account of its own; `226` and the end of the data may come in either order."""

    __slots__ = ("_commands", "_content", "_ended", "_password", "_step")

    closing_bytes = b"QUIT\r\n"
    lockstep = True

    def __init__(self, user: str, password: str, content: bytes) -> None:
        super().__init__()
        self.may_finish = False
        # The n-th command answers the n-th reply; the fifth reply gives the port, and RETR waits for the data
        # connection.
        self._commands = (
            b"USER %s\r\n" % user.encode(), b"PASS %s\r\n" % password.encode(), b"TYPE I\r\n", b"EPSV\r\n", b"", b"",
        )  # fmt: skip
        self._password = password
        self._content = content
        self._ended = False
        self._step = 0

    def _continues(self, line: bytes) -> bool:
        """Return whether the reply goes on, until a line begins with its code and a space (RFC 959, section 4.2)."""
        if not self._open and line[3:4] == b"-" and line[:3].isdigit():
            self._open = line[:3]
            return True
        if self._open and line[:4] != self._open + b" ":
            return True
        self._open = b""
        return False

    def _reply(self, line: bytes) -> bytes:
        step = self._step
        # No reply is expected after the last one.
        if step > _LAST or line[:3] not in _EXPECTED[step] or line[3:4] not in b" \r\n":
            self._refuse(line)
            return b""
        if step == _LAST:
            self._step += 1
            self._settle()
            return b""
        if step == _EPSV:
            found = _PORT.search(line)
            if not found or not 0 < int(found[2]) < 65536:
                self._refuse(line)
                return b""
            self.data_port = int(found[2])
            self.may_finish = True
        self._step += 1
        return self._commands[step]

    def _refuse(self, line: bytes) -> None:
        asked = _ASKED[min(self._step, _LAST)]
        self.trouble = f"reply {_hidden(line.decode('latin-1'), self._password)!r} to {asked}"

    def _early(self) -> None:
        self.finished = False
        self._refuse(self._buffer)

    def data_connection_opened(self) -> bytes:
        return _RETR

    def receive_from_data_connection(self, data: bytes) -> bytes:
        if not data:
            self._ended = True
            self._settle()
        elif self._content.startswith(data, self.content_bytes):
            self.content_bytes += len(data)
        else:
            self.differs(wrong_content(self._content, self.content_bytes, data))
        return b""

    def _settle(self) -> None:
        """Finish, or set `trouble`, once both the last reply and the end of the data have come."""
        if self._ended and self._step > _LAST:
            self.finished = self.content_bytes == len(self._content) and not self._buffer
            if self._buffer:
                self._refuse(self._buffer)
            elif not self.finished:
                self.differs(wrong_size(self._content, self.content_bytes, "before 226"))


def _hidden(reply: str, password: str) -> str:
    """Return a reply for a failure, shortened and without the password, which a server may repeat."""
    return (reply.replace(password, "...") if password else reply).strip()[:80]


@dataclass(frozen=True, kw_only=True)
class Ftp(Application):
    """FTP; the file has the payload's size, and may be empty."""

    name: str = "ftp"
    title: str = "FTP"
    summary: str = (
        "log in and fetch a file over a second connection (EPSV), timed to `226` and the last byte of the file"
    )
    host: str = "ftp.ipperf.test"
    source: str = "RFC 959, RFC 2428; paper 000, section 2.4"
    ends_with: str = "226"
    typical_s: float = 0.003
    packages: tuple[str, ...] = ("aioftp>=0.18",)
    path: str = f"/{FILE}"
    accounts: bool = True
    stays: bool = True
    sockets: int = 2

    def content(self, payload_bytes: int) -> bytes:
        return (_LINE * (payload_bytes // len(_LINE) + 1))[:payload_bytes]

    def conversation(self, state: ServerState, index: int, ipver: int) -> Conversation:
        del ipver  # EPSV is the same for both
        return Retrieve(state.user(index), state.password, state.content)

    def canned_replies(self, state: ServerState) -> CannedReplies:
        replies = (
            b"331 Password required\r\n",
            b"230 Logged in\r\n",
            b"200 Type set to I\r\n",
            b"229 Entering Extended Passive Mode (|||%s|)\r\n" % DATA_PORT,
            b"150 Opening data connection\r\n226 Transfer complete\r\n",
            b"221 Goodbye\r\n",
        )
        return CannedReplies(
            b"220 ftp.ipperf.test\r\n", tuple((b"\r\n", reply) for reply in replies), data=state.content
        )

    @asynccontextmanager
    async def library(self, state: ServerState, *, family: int, source: str, port: int) -> AsyncIterator[Transaction]:
        from aioftp import Client  # noqa: PLC0415 - the host may lack it

        async def fetch(call: Call) -> None:
            client = _connecting(Client, call, family, source)
            await _fetched_by_library(client, state, port, call)

        yield fetch


def _connecting(base: type[Client], call: Call, family: int, source: str) -> Any:
    """Return aioftp's client with both connections made like the lean client's: of this family, from this source.

    Its `asked` is the last command, its `writers` belong to its connections.
    """
    import asyncio  # noqa: PLC0415 - the lean client has no use for it

    class Connecting(base):  # type: ignore[misc, valid-type]
        def __init__(self) -> None:
            super().__init__(encoding="latin-1", passive_commands=("epsv",))  # no time-outs: the burst has a deadline
            self.asked = "the greeting"
            self.writers: list[asyncio.StreamWriter] = []
            self._open_connection = self._opened  # up to version 0.24 it is an attribute, not a method to override

        async def command(self, command: str | None = None, *args: Any, **kwargs: Any) -> Any:
            self.asked = command.split()[0] if command else self.asked
            return await super().command(command, *args, **kwargs)

        async def _opened(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            try:
                if source:
                    sock.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)  # as in the lean client
                    sock.bind((source, 0))
                await asyncio.get_running_loop().sock_connect(sock, (host, port))
                (call.note_data_connection if self.writers else call.note_connected)(sock)
                reader, writer = await asyncio.open_connection(sock=sock)
            except BaseException:
                sock.close()
                raise
            self.writers.append(writer)
            return reader, writer

    return Connecting()


async def _fetched_by_library(client: Any, state: ServerState, port: int, call: Call) -> None:
    """Fetch the file by aioftp, with the same commands as `Retrieve`."""
    from aioftp import BaseClient, StatusCodeError  # noqa: PLC0415 - the host may lack it

    try:
        await BaseClient.connect(client, await call.resolve(), port)  # not Client.connect, which reads the greeting too
        await client.command(None, "220")
        call.note_first_byte()
        await client.login(state.user(call.index), state.password)
        stream = await client.download_stream(FILE)
        got_bytes = 0
        while data := await stream.read(_READ_BYTES):
            if not state.content.startswith(data, got_bytes):
                raise ContentError(wrong_content(state.content, got_bytes, data))
            got_bytes += len(data)
        stream.close()  # a server may wait for this before it replies
        await client.command(None, "226")
        if got_bytes != len(state.content):
            raise ContentError(wrong_size(state.content, got_bytes, "before 226"))
        call.note_end(got_bytes)
        await call.everyone()  # without QUIT, as the session has to stay open
    except StatusCodeError as error:
        reply = f"{error.received_codes[-1]}{error.info[-1]}"
        raise ReplyError(f"reply {_hidden(reply, state.password)!r} to {client.asked}") from error
    except (IndexError, OverflowError) as error:  # raised by aioftp if the reply has no port or an impossible one
        raise ReplyError("no port in the reply to EPSV") from error
    finally:
        for writer in client.writers:
            writer.transport.abort()


protocol = Ftp()
