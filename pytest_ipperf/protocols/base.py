"""Protocol without I/O (sans-I/O): an application's conversations, or traffic between two agents.

Rule 1: a conversation is given bytes and gives bytes; sockets, clocks and deadlines belong to the agent.
Rule 2: it ends where the study's Table 2-1 ends the measurement (paper 000); what follows is `closing_bytes`.
Rule 3: it travels: standard library only, Python 3.10; what `library` imports, it imports inside.
"""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, replace

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.factor import Factor, Value
from pytest_ipperf.core.portable.reply_script import CannedReplies
from pytest_ipperf.core.portable.server_state import ServerState

IP_BIND_ADDRESS_NO_PORT = 24
"""The socket option by which a port is chosen when the peer is known (ip(7)); Python has no name for it."""

PHASES = ("start", "dns", "connect", "first_byte", "total", "late", "behind")
"""What is known of a transaction, in seconds: the start since the burst began, the next four since the start.

The start is when the connection was to be opened, and `behind` is how much later that was done: 0 in a closed-loop
burst, where the clock starts with the opening. `total` contains it.

`late` is how long the segment that ended the transaction had waited in this host's kernel when the client read it; nan
where the kernel did not tell. `total` contains it, as it ends when the client knows.
"""

_SHOWN = 80
_ENOUGH_BYTES = 2**20  # what is refused is too small
_LINE = b"The quick brown fox jumps over the lazy dog 0123456789.\r\n"
_LONGEST_LINE = 4096  # eight times what RFC 5321, section 4.5.3.1.5 allows


PROTOCOL, CONTENT = "protocol", "content"
"""Kinds of failure: a reply that is not as it should be, and content that is not what the server was given."""


class Conversation(ABC):
    """One transaction. `finished`, `trouble` and `data_port` are looked at after every call.

    A conversation that sets `data_port` asks for a data connection to that port of the same server (FTP, RFC 2428).
    `kind` is that of the trouble. `content_bytes` counts the content that came, or was taken by the server, and is
    right; what leaves it at 0 has no goodput.
    """

    __slots__ = ("content_bytes", "data_port", "finished", "kind", "trouble")

    closing_bytes = b""
    """What a polite client sends after the measurement, before it closes."""

    def __init__(self) -> None:
        self.finished = False
        self.trouble = ""
        self.kind = PROTOCOL
        self.data_port = 0
        self.content_bytes = 0

    @property
    def failure(self) -> str:
        """Return the trouble with its kind, as failures are counted; empty without any."""
        return self.trouble and f"{self.kind}: {self.trouble}"

    def differs(self, sentence: str) -> None:
        """Note content that is not what the server was given."""
        self.kind, self.trouble = CONTENT, sentence

    def closed(self) -> None:  # noqa: B027 - to most the end of the connection tells nothing
        """Take note that the server has closed before the end; sets `trouble` where that was the end of the content."""

    @abstractmethod
    def first_bytes(self) -> bytes:
        """What the client says as soon as it is connected; empty where the server speaks first."""

    @abstractmethod
    def receive_data(self, data: bytes) -> bytes:
        """Takes what came in and gives what is to be sent. A reply that is not as it should be sets `trouble`."""

    def data_connection_opened(self) -> bytes:
        """The data connection stands; gives what is to be sent on the first one."""
        return b""

    def receive_from_data_connection(self, data: bytes) -> bytes:
        """Takes what came by the data connection, empty at its end; gives what is to be sent on the first one."""
        del data
        return b""


class Replies(Conversation):
    """A transaction by lines in which the server speaks first, and each reply begins with a code of three digits.

    `_open` is the code of a reply of several lines, of which the last one is still to come, where that has to be known.
    """

    __slots__ = ("_buffer", "_open")

    def __init__(self) -> None:
        super().__init__()
        self._buffer = b""
        self._open = b""

    def first_bytes(self) -> bytes:
        return b""

    def receive_data(self, data: bytes) -> bytes:
        if data[3:4] == b" " and not self._buffer and not self._open and data.find(b"\n") == len(data) - 1:
            return self._reply(data)  # one reply of one line, as nearly all are
        self._buffer += data
        while (end := self._buffer.find(b"\n")) >= 0:
            line, self._buffer = self._buffer[:end], self._buffer[end + 1 :]
            if self._within(line):
                continue
            said = self._reply(line)
            # What a server says before it is asked would be taken for the answer to the next question.
            if (said or self.finished or self.data_port) and self._buffer:
                self._early()
                return b""
            if said or self.finished or self.trouble:
                return said
        if len(self._buffer) > _LONGEST_LINE:
            self.trouble = f"a reply line of more than {_LONGEST_LINE} bytes"
        return b""

    def _early(self) -> None:
        self.finished = False
        self.trouble = f"{_shown(self._buffer)} before it was asked for"

    @abstractmethod
    def _within(self, line: bytes) -> bool:
        """Whether a reply goes on after this line."""

    @abstractmethod
    def _reply(self, line: bytes) -> bytes:
        """Takes the last line of a reply, and gives what is to be sent."""


class ReplyError(Exception):
    """A server's reply is not as it should be; the text names it."""

    kind = PROTOCOL


class ContentError(ReplyError):
    """Content is not what the server was given; the text says what was expected and what was seen."""

    kind = CONTENT


class Call(ABC):
    """One of the N as a library makes it: what the agent lends it, and what it has to note, in this order.

    The look-up, the clock and the hour of leaving are the agent's, so that they are those of the lean client.
    """

    __slots__ = ()

    index: int
    """Which of the run's connections it is, for the account that it logs in to."""

    @abstractmethod
    async def resolve(self) -> str:
        """Looks up the server's name, over the arm's own family; this opens the connection's first socket."""

    @abstractmethod
    async def connect(self) -> socket.socket:
        """Looks up, connects from the source, notes it: for a library that takes a socket, which is then its own."""

    @abstractmethod
    def repeating(self, ask: Callable[[], object]) -> AbstractContextManager[None]:
        """While it lasts, `ask` is called when a question by a datagram, which may be lost, is to be repeated."""

    @abstractmethod
    def note_connected(self, sock: socket.socket) -> None:
        """For a library that connects by itself: it has, by this socket."""

    @abstractmethod
    def note_data_connection(self, sock: socket.socket) -> None:
        """For a library that opens a second connection: it has, by this socket."""

    @abstractmethod
    def note_first_byte(self) -> None:
        """The library has handed over the first that came from the server."""

    @abstractmethod
    def note_end(self, content_bytes: int = 0) -> None:
        """Note that the measurement ends here, and how much content came, or was taken by the server, and is right."""

    @abstractmethod
    async def everyone(self) -> None:
        """Returns when it is time to leave: when every connection of the burst has its figure or has failed."""


Transaction = Callable[[Call], Awaitable[None]]
"""Makes one call from beginning to end.

It raises OSError or EOFError when the connection breaks, ReplyError when the server says something wrong.
"""


@dataclass(frozen=True, kw_only=True)
class Protocol(ABC):
    """A kind of workload that can be measured; each file of this folder offers one as `protocol`."""

    name: str
    title: str
    source: str
    """RFC of the protocol and the study whose measurement this is."""
    version: int = 1
    """Of this definition: another one measures something else, and begins new histories."""
    metrics: tuple[str, ...]
    """What a run of it yields, by files of `metrics/`; the first is what a test asks of it that names none."""
    connections: tuple[int, ...] = (1, 10, 100)
    """The levels that are measured where a test names none."""
    payload: tuple[str, ...] = ("1k",)
    """Likewise, as sizes of a page, message, datagram or write."""
    factors: tuple[Factor, ...] = ()
    """What else is held equal within a workload of it."""
    host: str = "host.ipperf.test"
    """The name that every connection of an application looks up first, and by which the path is probed."""
    datagram: bool = False
    """Whether it goes by datagrams; an application's conversation is one each way then, and itself the look-up."""
    least_packets: tuple[int, int] = (3, 2)
    """What each that completed has sent at least, there and back: of TCP SYN, ACK and data, and SYN and data."""
    columns: tuple[str, ...]
    """Of its samples, in base units."""

    @abstractmethod
    def check(self, connections: int, payload_bytes: int, factors: Mapping[str, Value]) -> None:
        """UsageError where it cannot be had with so many connections, so large, or at these levels of its factors."""


@dataclass(frozen=True, kw_only=True)
class Flow(Protocol):
    """Traffic between the agents at a path's two ends, which an engine of theirs makes."""

    engine: str
    """The file of `agent/flows/engines/`."""
    deadline_s: float = 10.0
    """After which a reply is lost, and a silent path is given up."""


@dataclass(frozen=True, kw_only=True)
class Application(Protocol):
    """Transactions with a server: each connection has one conversation."""

    metrics: tuple[str, ...] = ("response_time",)
    columns: tuple[str, ...] = PHASES
    ends_with: str
    """Where the measurement ends, for the tables."""
    typical_s: float
    """Seconds a connection takes among others on an ordinary machine: for the forecast before there are data."""
    packages: tuple[str, ...] = ()
    """The distributions that `library` needs, with the oldest versions that will do; none: Python's own will do."""

    path: str = ""
    """Under which a server has the content beside the state's pages."""
    accounts: bool = False
    """Whether each connection logs in to an account of its own."""
    stays: bool = False
    """Whether sessions stay open until the run is over: for servers that pause when one ends."""
    sockets: int = 1
    """How many a transaction has open at once, at most."""
    hands_over: bool = False
    """Whether each connection leaves something at the server, which keeps it until it is counted and compared."""
    null: str = "null"
    """The server against which the baseline cost is measured."""

    def check(self, connections: int, payload_bytes: int, factors: Mapping[str, Value]) -> None:
        del connections, factors
        self.content(min(payload_bytes, _ENOUGH_BYTES))

    @abstractmethod
    def content(self, payload_bytes: int) -> bytes:
        """The page or message of exactly that size; UsageError where the protocol cannot have it so small."""

    def filled(self, state: ServerState, payload_bytes: int) -> ServerState:
        """The state with the content that it leaves to the protocol; UsageError where it lacks what that needs."""
        if self.accounts:
            _check_accounts(self.name, state)
        for page in state.pages:
            if self.path and f"{page}/".startswith(f"{self.path}/"):
                raise UsageError(f"page {page!r} is in the way of what {self.name} moves; give that as content")
        return state if state.content else replace(state, content=self.content(payload_bytes))

    @abstractmethod
    def conversation(self, state: ServerState, index: int, ipver: int) -> Conversation:
        """A new transaction; `index` numbers the connections of a run."""

    def sent_by(self, sender: str) -> int | None:
        """Return the index of the connection that handed over what this sender sent; None for a sender not ours.

        Only of a protocol that `hands_over`, as `difference`.
        """
        del sender
        return None

    def difference(self, state: ServerState, message: bytes) -> str:
        """Say where a message, as the server keeps it, is not the one that was sent; empty where it is."""
        del state, message
        return ""

    @abstractmethod
    def canned_replies(self, state: ServerState) -> CannedReplies:
        """The cheapest server that a conversation can be had with, for the baseline cost."""

    @property
    def has_library(self) -> bool:
        """Whether it has a library client."""
        return type(self).library is not Application.library

    def library(
        self, state: ServerState, *, family: int, source: str, port: int
    ) -> AbstractAsyncContextManager[Transaction]:
        """The library's client for the time of a burst, on the loop that runs.

        An empty `source` leaves the choice to the kernel.
        """
        del state, family, source, port
        raise UsageError(f"{self.name} has no library client; leave out --client=library")


def _shown(said: bytes) -> str:
    return repr(" ".join(said[:_SHOWN].decode("latin-1").split()))


def message_of(name: str, headers: bytes, payload_bytes: int) -> bytes:
    """A message of exactly that size with these headers; UsageError, naming the protocol, where it would be larger."""
    room = payload_bytes - len(headers) - 2
    if room < 0:
        least = len(headers) + 2
        raise UsageError(f"payload {payload_bytes} is too small for {name}, whose message has at least {least} bytes")
    body = (_LINE * (room // len(_LINE) + 1))[:room]
    # A cut in the middle of CR LF would leave a bare CR, which is no line's end (RFC 5322, section 2.3).
    return headers + body.removesuffix(b"\r").ljust(room, b".") + b"\r\n"


def check_message(given: bytes) -> None:
    """UsageError for a message that does not consist of lines which end in CR LF (RFC 5322, section 2.1)."""
    if not given.endswith(b"\r\n") or b"\r" in (rest := given.replace(b"\r\n", b"")) or b"\n" in rest:
        begins = given[:_SHOWN].decode("latin-1")
        raise UsageError(f"a message of server_state has a line that does not end in CR LF: {begins!r}")


def _check_accounts(name: str, state: ServerState) -> None:
    if not state.users:
        raise UsageError(
            f"{name} logs in, and server_state has no users; give it some, and a password, as in "
            "ServerState(users=500, password='secret')"
        )
    if not state.password or not state.password.isascii() or not state.password.isprintable():
        raise UsageError(
            f"{name} logs in, and the password of server_state is no line of printable ASCII characters; one such as "
            "'secret' will do"
        )
