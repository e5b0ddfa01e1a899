"""Protocol without I/O (sans-I/O): an application's conversations, or traffic between two agents.

Rule 1: a conversation receives bytes and returns bytes; sockets, clocks and deadlines belong to the agent.
Rule 2: it ends where the study's Table 2-1 ends the measurement (paper 000); `closing_bytes` are sent afterwards.
Rule 3: it travels to hosts: standard library only, Python 3.10; packages that `library` needs are imported inside it.
"""

from __future__ import annotations

import math
import socket
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, replace
from typing import ClassVar

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.factor import Factor, StudySize, Value
from pytest_ipperf.core.portable.figure_row import FigureRow
from pytest_ipperf.core.portable.offload import OFFLOAD
from pytest_ipperf.core.portable.reply_script import CannedReplies
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.core.portable.workload_kind import CONNECTIONS, FLOWS, WorkloadKind

IP_BIND_ADDRESS_NO_PORT = 24
"""Socket option that delays the choice of a port until the peer is known (ip(7)); Python has no name for it."""

PHASES = ("start", "dns", "connect", "first_byte", "total", "late", "behind")
"""Columns of a transaction's sample, in seconds: the start since the burst began, the next four since the start.

The start is the instant at which the connection was to be opened; `behind` is the delay until it really was: 0 in a
closed-loop burst, where the clock starts with the opening. `total` includes `behind`.

`late` is the time that the segment which ended the transaction had waited in this host's kernel when the client read
it; nan without a timestamp, or if the clock was set. `total` includes `late`, as it ends when the client has the data.
"""

_SHOWN = 80
_ENOUGH_BYTES = 2**20  # so that a check makes no large content
_MOST_CONTENT_BYTES = 2**30  # hosts hold it in memory, several times
_LONGEST_LINE = 4096  # eight times the limit of RFC 5321, section 4.5.3.1.5

PROTOCOL, CONTENT = "protocol", "content"
"""Kinds of failure: a malformed or unexpected reply, and content that differs from the server's."""


class Conversation(ABC):
    """One transaction. The caller checks `finished`, `trouble` and `data_port` after every call.

    If it sets `data_port`, it asks for a data connection there (FTP, RFC 2428). `kind` is the kind of the failure in
    `trouble`. `content_bytes` counts verified content, received or accepted by the server; without it there is no
    goodput. While `may_finish` is False, what comes next is read without its timestamp.
    """

    __slots__ = ("content_bytes", "data_port", "finished", "kind", "may_finish", "trouble")

    closing_bytes = b""
    """Bytes that a polite client sends after the measurement, before it closes."""
    lockstep = False
    """True if all that it has sent was acknowledged whenever it sends: then Nagle's algorithm delays nothing."""

    def __init__(self) -> None:
        self.finished, self.may_finish = False, True
        self.kind, self.trouble = PROTOCOL, ""
        self.data_port = self.content_bytes = 0

    @property
    def failure(self) -> str:
        """Return the trouble with its kind, as failures are counted; empty if there is none."""
        return self.trouble and f"{self.kind}: {self.trouble}"

    def differs(self, sentence: str) -> None:
        """Record a content failure: the content differs from the server's, as `sentence` says."""
        self.kind, self.trouble = CONTENT, sentence

    def closed(self) -> None:  # noqa: B027 - most protocols learn nothing from the end of the connection
        """Handle the server's closing early; set `trouble` if the content was to last until the connection's end."""

    @abstractmethod
    def first_bytes(self) -> bytes:
        """Return the bytes to send on connecting; empty if the server speaks first."""

    @abstractmethod
    def receive_data(self, data: bytes) -> bytes:
        """Process received bytes and return the bytes to send; set `trouble` if a reply is wrong."""

    def data_connection_opened(self) -> bytes:
        """Return the bytes to send on the control connection now that the data connection is open."""
        return b""

    def receive_from_data_connection(self, data: bytes) -> bytes:
        """Process bytes of the data connection (empty: its end); return the bytes to send on the control connection."""
        del data
        return b""


class Replies(Conversation):
    """Transaction by lines in which the server speaks first and each reply begins with a three-digit code.

    `_open` is the code of an unfinished multi-line reply, for protocols that have to know it.
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
            return self._reply(data)  # fast path: nearly all replies are one line in one segment
        self._buffer += data
        while (end := self._buffer.find(b"\n")) >= 0:
            line, self._buffer = self._buffer[:end], self._buffer[end + 1 :]
            if self._continues(line):
                continue
            to_send = self._reply(line)
            # Bytes that arrive before the client asks would be taken for the answer to its next command.
            if (to_send or self.finished or self.data_port) and self._buffer:
                self._early()
                return b""
            if to_send or self.finished or self.trouble:
                return to_send
        if len(self._buffer) > _LONGEST_LINE:
            self.trouble = f"a reply line of more than {_LONGEST_LINE} bytes"
        return b""

    def _early(self) -> None:
        self.finished = False
        self.trouble = f"{_shown(self._buffer)} before it was asked for"

    @abstractmethod
    def _continues(self, line: bytes) -> bool:
        """Return whether the reply continues after this line."""

    @abstractmethod
    def _reply(self, line: bytes) -> bytes:
        """Process the last line of a reply and return the bytes to send."""


class ReplyError(Exception):
    """A server's reply is wrong; the text says how."""

    kind = PROTOCOL


class ContentError(ReplyError):
    """Content differs from the server's; the text says what was expected and what was seen."""

    kind = CONTENT


class Call(ABC):
    """One connection made by a library client: services of the agent, and events to report in this order.

    The agent does the look-up, reads the clock and decides when to leave, as it does for the lean client.
    """

    __slots__ = ()

    index: int
    """Number of the connection in its run, which selects its account."""

    @abstractmethod
    async def resolve(self) -> str:
        """Look up the server's name over the arm's own family; this opens the connection's first socket."""

    @abstractmethod
    async def connect(self) -> socket.socket:
        """Look up the name, connect from the source address and record it; the caller owns the socket."""

    @abstractmethod
    def repeating(self, ask: Callable[[], object]) -> AbstractContextManager[None]:
        """Call `ask` whenever a request by datagram, which may be lost, has to be repeated, while the context lasts."""

    @abstractmethod
    def note_connected(self, sock: socket.socket) -> None:
        """Record that a library that connects by itself has connected, by this socket."""

    @abstractmethod
    def note_data_connection(self, sock: socket.socket) -> None:
        """Record that the library has opened a data connection, by this socket."""

    @abstractmethod
    def note_first_byte(self) -> None:
        """Record that the library has delivered the first byte from the server."""

    @abstractmethod
    def note_end(self, content_bytes: int = 0) -> None:
        """Record the end of the measurement and the number of verified content bytes received, or taken by the peer."""

    @abstractmethod
    async def everyone(self) -> None:
        """Wait until every connection of the burst has completed or failed, and it is time to leave."""


Transaction = Callable[[Call], Awaitable[None]]
"""Coroutine function that carries out one call from beginning to end.

It raises OSError or EOFError if the connection breaks, ReplyError if the server replies something wrong.
"""


@dataclass(frozen=True, kw_only=True)
class Protocol(ABC):
    """Kind of workload that can be measured; each file of this folder offers one as `protocol`."""

    kind: ClassVar[WorkloadKind]
    """Kind of workload, with all that depends on the kind."""
    name: str
    title: str
    summary: str = ""
    """Description for the documentation; Markdown, a verb first."""
    source: str
    """RFC of the protocol, and the study whose measurement it repeats."""
    version: int = 1
    """Version of this definition: a new one measures something else and begins new histories."""
    metrics: tuple[str, ...]
    """Metrics of a run, by their files in `metrics/`; the first is used by tests that name none."""
    connections: tuple[int, ...] = (1, 10, 100)
    """Levels that are measured where a test names none."""
    payload: tuple[str, ...] = ("1k",)
    """Sizes of a page, message, datagram or write that are measured where a test names none."""
    factors: tuple[Factor, ...] = (OFFLOAD,)
    """Further parameters that are held equal within a workload, those of the hosts among them."""
    host: str = "host.ipperf.test"
    """Name that every connection of an application looks up first, and that the path is probed with."""
    datagram: bool = False
    """True if it uses datagrams; an application's conversation is then one each way, and itself the look-up."""
    least_packets: tuple[int, int] = (3, 2)
    """Fewest packets of a completed transaction, there and back; with TCP SYN, ACK and data, and SYN and data."""
    columns: tuple[str, ...]
    """Columns of its samples, in base units."""
    samples_title: str = "response times"
    """Name of the times among its samples, in titles of figures."""
    payload_title: str = "payload"
    """Name of the payload, in headings of tables."""
    accounts: bool = False
    """True if each connection logs in to an account of its own."""
    hands_over: bool = False
    """True if each connection leaves a message at the server, which keeps it to be counted and compared."""
    study: StudySize | None = None
    """Size of the study that measured it, if another than that of design `paper`."""
    longest_run_s: float = math.inf
    """Seconds of the longest run; a longer one is made in parts, so that a session that breaks off keeps most of it."""
    longest_warmup_s: float = math.inf
    """Seconds of the longest warm-up run; others are as long as the runs that are counted."""
    null: str = ""
    """Server against which the baseline cost is measured; empty if there is no server to replace."""

    @abstractmethod
    def check(self, connections: int, payload_bytes: int, factors: Mapping[str, Value]) -> None:
        """Raise UsageError if this number of connections, payload or these levels of its factors cannot be measured."""

    def typical_run_s(self, connections: int) -> float:
        """Return the typical seconds of that many connections one after another; 0 where a run has its own length."""
        del connections
        return 0.0

    def filled(self, state: ServerState, payload_bytes: int) -> ServerState:
        """Return the state with the protocol's own content where it has none; raise UsageError if it lacks more."""
        del payload_bytes
        return state


@dataclass(frozen=True, kw_only=True)
class Flow(Protocol):
    """Traffic between the agents at a path's two ends, made by one of their engines."""

    kind: ClassVar[WorkloadKind] = FLOWS
    engine: str
    """Name of the engine, a file of `agent/flows/engines/`."""
    deadline_s: float = 10.0
    """Seconds after which a reply counts as lost and a silent path is given up."""
    rows: tuple[str | FigureRow, ...] = ()
    """Rows below an arm's value in its tables, metrics by name; empty: all of its metrics."""
    about_rows: str = ""
    """Sentences on the rows that no metric defines."""

    server_protocol: str = ""
    """Protocol of the server at the far end, whose accounts and large file are used; empty: the server's agent."""
    server_connections: int = 0
    """Most connections that this server has at once, if more than those of the workload."""
    greedy: bool = False
    """True if it sends as much as the path carries."""

    def served_state(self, state: ServerState, payload_bytes: int) -> ServerState:
        """Return the state that its server holds, with what a payload of that size needs."""
        del payload_bytes
        return state

    def offered_bit_s(self, factors: Mapping[str, Value]) -> float | None:
        """Return the payload rate that it offers, by its factor in bit/s; None if it has none or offers all it can."""
        offered = (factors.get(each.name) for each in self.factors if each.unit == "bit/s")
        return next((value for value in offered if isinstance(value, float)), None)

    def filled(self, state: ServerState, payload_bytes: int) -> ServerState:
        del payload_bytes
        if self.accounts:
            state.check_accounts(self.name)
        return state

    def derived_facts(self, factors: Mapping[str, Value], facts: Mapping[str, float]) -> Mapping[str, float]:
        """Return further facts of a run for its metrics, which follow from its levels and the engine's facts."""
        del factors, facts
        return {}

    def caution(self, run_s: float) -> str:
        """Return a sentence about what runs of `run_s` seconds are too short for; empty without any."""
        del run_s
        return ""


@dataclass(frozen=True, kw_only=True)
class Application(Protocol):
    """Transactions with a server: each connection has one conversation."""

    kind = CONNECTIONS
    metrics: tuple[str, ...] = ("response_time",)
    columns: tuple[str, ...] = PHASES
    ends_with: str
    """End of the measurement, for the tables."""
    typical_s: float
    """Typical seconds of a connection on an ordinary machine, for the forecast before there are data."""
    packages: tuple[str, ...] = ()
    """Distributions that `library` needs, with their oldest versions; none if the standard library suffices."""

    path: str = ""
    """Path under which a server holds the content, beside the state's pages."""
    stays: bool = False
    """True if sessions stay open until the run is over, for servers that pause when a session ends."""
    sockets: int = 1
    """Largest number of sockets that one transaction has open at once."""
    resolves: bool = False
    """True if its servers answer the look-ups of the other protocols."""
    null: str = "null"

    def check(self, connections: int, payload_bytes: int, factors: Mapping[str, Value]) -> None:
        del connections, factors
        if payload_bytes > _MOST_CONTENT_BYTES:
            most = f"{_MOST_CONTENT_BYTES} at most, or file_transfer for larger files"
            raise UsageError(f"payload {payload_bytes} is more than {self.name} compares in memory; take {most}")
        self.content(min(payload_bytes, _ENOUGH_BYTES))

    @abstractmethod
    def content(self, payload_bytes: int) -> bytes:
        """Return the page or message of exactly that size; raise UsageError if the protocol cannot have it so small."""

    def typical_run_s(self, connections: int) -> float:
        return connections * self.typical_s

    def filled(self, state: ServerState, payload_bytes: int) -> ServerState:
        if self.accounts:
            state.check_accounts(self.name)
        for page in state.pages:
            if self.path and f"{page}/".startswith(f"{self.path}/"):
                raise UsageError(f"page {page!r} is where {self.name} has its content; give it as content")
        return state if state.content else replace(state, content=self.content(payload_bytes))

    @abstractmethod
    def conversation(self, state: ServerState, index: int, ipver: int) -> Conversation:
        """Return a new transaction; `index` is the connection's number in the run."""

    def sent_by(self, sender: str) -> int | None:
        """Return the index of the connection that used this sender; None if it is not ours. Only with `hands_over`."""
        del sender
        return None

    def difference(self, state: ServerState, message: bytes) -> str:
        """Describe how a message, as the server keeps it, differs from the one that was sent; empty if it does not."""
        del state, message
        return ""

    @abstractmethod
    def canned_replies(self, state: ServerState) -> CannedReplies:
        """Return the replies of the cheapest server that serves a conversation, for the baseline cost."""

    @property
    def has_library(self) -> bool:
        """Return whether the protocol has a library client."""
        return type(self).library is not Application.library

    def library(
        self, state: ServerState, *, family: int, source: str, port: int
    ) -> AbstractAsyncContextManager[Transaction]:
        """Return the library client for one burst, to be used on the running event loop.

        An empty `source` leaves the choice of the address to the kernel.
        """
        del state, family, source, port
        raise UsageError(f"{self.name} has no library client; leave out --client=library")


def _shown(reply: bytes) -> str:
    return repr(" ".join(reply[:_SHOWN].decode("latin-1").split()))
