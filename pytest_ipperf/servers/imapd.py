"""imapd: an embedded IMAP server (RFC 9051, RFC 3501), sufficient for a client that reads its mailbox.

Each account has an INBOX with its messages, all of them read, and nothing can be changed. There is no IDLE, no search
and no part of a message other than `HEADER` and `TEXT`.
"""

from __future__ import annotations

import asyncio
import json
import platform
import re
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.servers.base import ACCEPTED_AT_ONCE, Entry, Listener, Server, Site

_TIMEOUT_S = 300
_CAPABILITY = b"IMAP4rev1 LITERAL+"
_DATE = b'"01-Jan-2026 00:00:00 +0000"'
_MOST_BYTES = 1 << 16
_LITERAL = re.compile(rb"\{(\d+)(\+?)\}\Z")
# A quoted string, a list in parentheses, or an atom, which may have a section: BODY.PEEK[HEADER]<0.100>.
_WORD = re.compile(rb'"((?:[^"\\]|\\.)*)"|\(([^()]*)\)|([^\s()"\[]+(?:\[[^\]]*\](?:<\d+\.\d+>)?)?)')
_ITEM = re.compile(rb"(BODY(?:\.PEEK)?)\[(HEADER|TEXT|)\](?:<(\d+)\.(\d+)>)?\Z")
_MACROS = {b"ALL": b"FLAGS INTERNALDATE RFC822.SIZE", b"FAST": b"FLAGS INTERNALDATE RFC822.SIZE"}


class Imapd(Server):
    """Embedded IMAP server of one process and one thread."""

    name = "imapd"
    protocol = "imap"
    embedded = True
    apt = ""
    probe = (b"", b"* OK ")

    def missing(self) -> str:
        return ""

    def version(self) -> str:
        return f"Python {platform.python_version()}"

    def entries(self, site: Site) -> Sequence[Entry]:
        return (Entry("accounts", Mailboxes.of(site.state).to_bytes(), 0o600),)

    def argv(self, site: Site) -> Sequence[str]:
        config = {"addresses": site.addresses, "port": site.port, "accounts": f"{site.folder}/accounts"}
        return ("python", "-m", __name__, json.dumps(config))


@dataclass(frozen=True)
class Mailboxes:
    """Content of the server: the password of each account, and the messages that all of them have."""

    accounts: Mapping[bytes, bytes]
    messages: Sequence[bytes]

    @classmethod
    def of(cls, state: ServerState) -> Mailboxes:
        """Return the mailboxes of a workload's server state."""
        accounts = {name.encode(): state.password.encode() for name in state.names}
        return cls(accounts, (state.content, *state.messages))

    def to_bytes(self) -> bytes:
        """Return the mailboxes as a JSON file, with each byte as the character of that number."""
        accounts = {name.decode("latin-1"): password.decode("latin-1") for name, password in self.accounts.items()}
        return json.dumps([accounts, [message.decode("latin-1") for message in self.messages]]).encode("ascii")

    @classmethod
    def from_bytes(cls, data: bytes) -> Mailboxes:
        """Return the mailboxes that `to_bytes` has written."""
        accounts, messages = json.loads(data)
        held = {name.encode("latin-1"): password.encode("latin-1") for name, password in accounts.items()}
        return cls(held, [message.encode("latin-1") for message in messages])


class _Error(Exception):
    """A command is refused; the text is the answer, `NO ...` or `BAD ...`."""


class Session(asyncio.Protocol):
    """One connection, from its greeting to its end."""

    transport: asyncio.Transport

    def __init__(self, mailboxes: Mailboxes) -> None:
        self._mailboxes = mailboxes
        self._received = bytearray()
        self._parts: list[bytes] = []
        self._literal = 0
        self._user = b""
        self._selected = False
        self._closing = False
        self._output: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the greeting."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - for mypy: TCP's is one
        self.transport = transport
        self._loop = asyncio.get_running_loop()
        self._last_s = self._loop.time()
        self._timer = self._loop.call_later(_TIMEOUT_S, self._timed_out)
        self._respond(b"* OK [CAPABILITY %b] pytest-ipperf" % _CAPABILITY)
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the time-out."""
        del exc
        self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Answer all complete commands, in one segment if they fit."""
        self._received += data
        while not self._closing and self._consume():
            pass
        if len(self._received) > _MOST_BYTES:
            self._bye(b"that is too long")
        self._send()

    def _consume(self) -> bool:
        """Process a literal or a line; return whether there was a complete one."""
        if self._literal:
            if len(self._received) < self._literal:
                return False
            self._parts.append(_quoted(bytes(self._received[: self._literal])))
            del self._received[: self._literal]
            self._literal = 0
        end = self._received.find(b"\n")
        if end < 0:
            return False
        line = bytes(self._received[:end]).removesuffix(b"\r")
        del self._received[: end + 1]
        self._line(line)
        return True

    def _line(self, line: bytes) -> None:
        announced = _LITERAL.search(line)
        if not announced:
            command, self._parts = b"".join((*self._parts, line)), []
            self._command(command)
            return
        self._literal = int(announced[1])
        if self._literal > _MOST_BYTES:
            self._bye(b"that is too long")
            return
        self._parts.append(line[: announced.start()])
        if not announced[2]:
            self._respond(b"+ go on")

    def _command(self, line: bytes) -> None:
        self._last_s = self._loop.time()
        tag, _, rest = line.partition(b" ")
        name, _, arguments = rest.partition(b" ")
        if name.upper() == b"UID":
            by_uid, _, arguments = arguments.partition(b" ")
            name = b"UID " + by_uid
        try:
            answer = self._answer(name.upper(), _words(arguments))
        except _Error as error:
            answer = str(error).encode()
        self._respond(b"%b %b" % (tag or b"*", answer))

    def _answer(self, name: bytes, words: list[bytes]) -> bytes:
        command = _COMMANDS.get(name)
        if command is None:
            raise _Error("BAD no such command here")
        if name not in _BEFORE_LOGIN and not self._user:
            raise _Error("NO log in first")
        if name in _IN_MAILBOX and not self._selected:
            raise _Error("NO select a mailbox first")
        try:
            return command(self, *words)
        except (TypeError, ValueError):
            raise _Error("BAD these arguments are not understood") from None

    # --- commands ---------------------------------------------------------------------------------------------------

    def capability(self) -> bytes:
        self._respond(b"* CAPABILITY " + _CAPABILITY)
        return b"OK CAPABILITY completed"

    def noop(self) -> bytes:
        return b"OK completed"

    def logout(self) -> bytes:
        self._respond(b"* BYE")
        self._closing = True
        return b"OK LOGOUT completed"

    def login(self, user: bytes, password: bytes) -> bytes:
        if self._user:
            raise _Error("BAD you are logged in")
        if self._mailboxes.accounts.get(user) != password:
            raise _Error("NO [AUTHENTICATIONFAILED] no such account or another password")
        self._user = user
        return b"OK [CAPABILITY %b] LOGIN completed" % _CAPABILITY

    def listed(self, _: bytes, pattern: bytes) -> bytes:
        if not pattern:
            self._respond(b'* LIST (\\Noselect) "/" ""')
        elif pattern.upper() in {b"*", b"%", b"INBOX"}:
            self._respond(b'* LIST (\\HasNoChildren) "/" INBOX')
        return b"OK LIST completed"

    def status(self, mailbox: bytes, asked: bytes) -> bytes:
        _check_name(mailbox)
        count = len(self._mailboxes.messages)
        values = {b"MESSAGES": count, b"RECENT": 0, b"UIDNEXT": count + 1, b"UIDVALIDITY": 1, b"UNSEEN": 0}
        fields = b" ".join(b"%b %d" % (item, values[item]) for item in asked.upper().split() if item in values)
        self._respond(b"* STATUS INBOX (%b)" % fields)
        return b"OK STATUS completed"

    def select(self, mailbox: bytes) -> bytes:
        self.examine(mailbox)
        return b"OK [READ-WRITE] SELECT completed"  # some clients accept nothing less

    def examine(self, mailbox: bytes) -> bytes:
        self._selected = False
        _check_name(mailbox)
        self._selected = True
        count = len(self._mailboxes.messages)
        self._respond(
            b"* FLAGS (\\Answered \\Flagged \\Deleted \\Seen \\Draft)\r\n* OK [PERMANENTFLAGS ()] nothing changes\r\n"
            b"* %d EXISTS\r\n* 0 RECENT\r\n* OK [UIDVALIDITY 1]\r\n* OK [UIDNEXT %d]" % (count, count + 1)
        )
        return b"OK [READ-ONLY] EXAMINE completed"

    def close(self) -> bytes:
        self._selected = False
        return b"OK CLOSE completed"

    def uid_fetch(self, numbers: bytes, *items: bytes) -> bytes:
        return self.fetch(numbers, b"UID", *items)  # UIDs equal sequence numbers here

    def fetch(self, numbers: bytes, *items: bytes) -> bytes:
        asked = dict.fromkeys(item.upper() for each in items for item in _MACROS.get(each.upper(), each).split())
        if not asked:
            raise ValueError
        for number, message in enumerate(self._mailboxes.messages, start=1):
            if _holds(numbers, number, len(self._mailboxes.messages)):
                fields = b" ".join(_item(item, number, message) for item in asked)
                self._respond(b"* %d FETCH (%b)" % (number, fields))
        return b"OK FETCH completed"

    # --- output -----------------------------------------------------------------------------------------------------

    def _respond(self, line: bytes) -> None:
        self._output.append(line + b"\r\n")

    def _bye(self, why: bytes) -> None:
        self._respond(b"* BYE " + why)
        self._closing = True

    def _timed_out(self) -> None:
        # Extended only here, as a new timer for each command would cost more.
        if (end_s := self._last_s + _TIMEOUT_S) > self._loop.time():
            self._timer = self._loop.call_at(end_s, self._timed_out)
            return
        self._bye(b"that took too long")
        self._send()

    def _send(self) -> None:
        data, self._output = b"".join(self._output), []
        if data:
            self.transport.write(data)
        if self._closing:
            self.transport.close()


_COMMANDS: Mapping[bytes, Callable[..., bytes]] = {
    b"CAPABILITY": Session.capability,
    b"NOOP": Session.noop,
    b"CHECK": Session.noop,
    b"LOGOUT": Session.logout,
    b"LOGIN": Session.login,
    b"LIST": Session.listed,
    b"STATUS": Session.status,
    b"SELECT": Session.select,
    b"EXAMINE": Session.examine,
    b"CLOSE": Session.close,
    b"FETCH": Session.fetch,
    b"UID FETCH": Session.uid_fetch,
}
_BEFORE_LOGIN = {b"CAPABILITY", b"NOOP", b"LOGIN", b"LOGOUT"}
_IN_MAILBOX = {b"FETCH", b"UID FETCH", b"CHECK", b"CLOSE"}


def _quoted(data: bytes) -> bytes:
    """Return a literal as the equivalent quoted string."""
    return b'"%b"' % data.replace(b"\\", b"\\\\").replace(b'"', b'\\"')


def _words(arguments: bytes) -> list[bytes]:
    """Return the arguments of a command, without quotes and parentheses."""
    found = _WORD.findall(arguments)
    return [listed or atom or re.sub(rb"\\(.)", rb"\1", quoted) for quoted, listed, atom in found]


def _check_name(mailbox: bytes) -> None:
    if mailbox.upper() != b"INBOX":
        raise _Error("NO there is only INBOX")


def _holds(numbers: bytes, number: int, most: int) -> bool:
    """Return whether a sequence set such as `1,3:*` contains that number."""
    for part in numbers.split(b","):
        ends = [most if end == b"*" else int(end) for end in part.split(b":")]
        if min(ends) <= number <= max(ends):
            return True
    return False


def _item(asked: bytes, number: int, message: bytes) -> bytes:
    """Return one item of a FETCH; raise ValueError if the item is not supported."""
    plain = {
        b"FLAGS": b"(\\Seen)",
        b"UID": b"%d" % number,
        b"INTERNALDATE": _DATE,
        b"RFC822.SIZE": b"%d" % len(message),
    }
    if asked in plain:
        return b"%b %b" % (asked, plain[asked])
    if asked == b"RFC822":
        return b"RFC822 {%d}\r\n%b" % (len(message), message)
    found = _ITEM.match(asked)
    if not found:
        raise ValueError
    header, blank, text = message.partition(b"\r\n\r\n")
    _, section, start, size = found.groups()
    part = {b"": message, b"HEADER": header + blank, b"TEXT": text}[section]
    origin = b""
    if start:
        part, origin = part[int(start) : int(start) + int(size)], b"<%b>" % start
    return b"BODY[%b]%b {%d}\r\n%b" % (section, origin, len(part), part)


async def _serve(addresses: Sequence[str], port: int, mailboxes: Mailboxes) -> None:
    loop = asyncio.get_running_loop()
    for address in addresses:
        listener = Listener(address, port)
        await loop.create_server(lambda: Session(mailboxes), sock=listener, backlog=ACCEPTED_AT_ONCE)
    ended = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()


def main(argv: Sequence[str]) -> None:
    """Serve until SIGTERM; the only argument is the configuration from `Imapd.argv`, as JSON."""
    config = json.loads(argv[0])
    asyncio.run(
        _serve(config["addresses"], config["port"], Mailboxes.from_bytes(Path(config["accounts"]).read_bytes()))
    )


server = Imapd()

if __name__ == "__main__":
    main(sys.argv[1:])
