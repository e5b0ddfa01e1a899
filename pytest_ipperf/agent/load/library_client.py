"""Library client: a burst by a common library, with the phases and words of the lean client: what an application feels.

Look-ups, sources, arrivals, deadline and failures are as in `epoll_client.py`; the loop is asyncio's, and everything on
a connected socket is the library's work (`Application.library`). The client's own work is a larger part of every
figure, so figures of the two clients are never compared.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from importlib import import_module
from typing import Any

from pytest_ipperf.agent.sockets.target import RETRY_S, Target, answer_failure, bound_socket, failure_kind
from pytest_ipperf.core.portable import dns
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.protocols.base import Application, Call, ReplyError, Transaction

_CLOSE_TIMEOUT_S = 2.0
_TIMER_S = 0.005
_SO_DOMAIN = 39


class LibraryBurst:
    """Burst of N calls to a target; `run()` returns when each has finished, failed or met the deadline, and has left.

    It then has the attributes of a `Burst`. `lag_s` is the largest delay of the loop for a timer; `rx_delay_s` of a
    connection is nan, as the library reads the socket. With `stay` no connection ends before `close()`, whatever the
    library does.
    """

    def __init__(
        self,
        target: Target,
        protocol: Application,
        state: ServerState,
        connections: int,
        *,
        deadline_s: float,
        first_ident: int,
        first_index: int = 0,
        stride: int = 1,
        starts: Sequence[float] = (),
        hold: bool = True,
        stay: bool = False,
    ) -> None:
        self.target = target
        self.datagram = protocol.datagram
        self._protocol = protocol
        self._state = state
        self._deadline_s = deadline_s
        self.rtype = dns.record_type(6 if target.family == socket.AF_INET6 else 4)
        self.question = dns.question(target.name, self.rtype) if target.resolver else b""
        self.connections = [
            LibraryCall(self, first_ident + at * stride, first_index + at * stride, hold=hold)
            for at in range(connections)
        ]
        self._starts = starts
        self._stay = stay
        self._staying: list[socket.socket] = []
        self.sources: set[str] = set()
        self.families: set[int] = set()
        self.dns_retries = 0
        self.began = self.woke = 0.0
        self.lag_s = 0.0
        self.peak = 0
        self._unfinished = connections
        self._active = 0
        _import(protocol)
        self._everyone: asyncio.Event

    def run(self, at: float = 0.0) -> None:
        """Open and complete all connections, then close all that need not stay; begin when the clock says `at`."""
        try:
            _run(self._run(at))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close all connections that are still open."""
        while self._staying:
            self._staying.pop().close()

    async def _run(self, at: float) -> None:
        target = self.target
        client = self._protocol.library(self._state, family=target.family, source=target.source, port=target.port)
        async with client as transaction:
            self._everyone = asyncio.Event()
            time.sleep(max(0.0, at - time.perf_counter()))  # noqa: ASYNC251 - nothing else is on this loop yet
            self.woke = time.perf_counter()
            self.began = at or self.woke
            ends = self.began + self._deadline_s + (self._starts[-1] if self._starts else 0.0)
            for call in self.connections:
                call.due = ends
            for call, start in zip(self.connections, self._starts, strict=False):
                call.opens = self.began + start
                call.due = call.opens + self._deadline_s
            lag = _Lag(asyncio.get_running_loop())
            tasks = [asyncio.ensure_future(_run_call(call, transaction)) for call in self.connections]
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.everyone(), ends - time.perf_counter())
            self.lag_s = lag.end()
            for call, task in zip(self.connections, tasks, strict=True):
                if call.live:
                    call.fail(f"{call.phase} deadline")
                    task.cancel()
            # The figures are taken: a server that is slow to close is waited for no longer than this.
            _, staying = await asyncio.wait(tasks, timeout=_CLOSE_TIMEOUT_S)
            for task in staying:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # closes the sockets of the transports closed last
        del self._everyone  # it would keep the loop

    async def everyone(self) -> None:
        """Wait until no call is live."""
        await self._everyone.wait()

    def count_started(self) -> None:
        """Count a call that has begun its conversation."""
        self._active += 1
        self.peak = max(self.peak, self._active)

    def keep(self, sock: socket.socket) -> None:
        """Keep a duplicate of a connection that has to stay."""
        if self._stay:
            self._staying.append(sock.dup())

    def record_endpoint(self, sock: socket.socket) -> None:
        """Record source and family of a connected socket, as the kernel reports them."""
        self.families.add(sock.getsockopt(socket.SOL_SOCKET, _SO_DOMAIN))
        self.sources.add(sock.getsockname()[0])

    def ended(self, *, talking: bool) -> None:
        """Count a call that has ended."""
        self._active -= talking
        self._unfinished -= 1
        if not self._unfinished:
            self._everyone.set()


class LibraryCall(Call):
    """One call of a burst, like the lean client's `Connection`: its state and its recorded times."""

    __slots__ = (
        "_again", "_burst", "_hold", "_query", "connected", "content_bytes", "done", "due", "failure", "first",
        "index", "opened", "opens", "peer", "resolved", "rx_delay_s", "start_delay_s",
    )  # fmt: skip

    def __init__(self, burst: LibraryBurst, ident: int, index: int, *, hold: bool) -> None:
        self._burst = burst
        self.index = index
        self._hold = hold
        self._query = dns.query(burst.target.name, burst.rtype, ident & 0xFFFF) if burst.target.resolver else b""
        self.failure = ""
        self.peer = ""
        self.opened = self.resolved = self.connected = self.first = self.done = self.start_delay_s = 0.0
        self.opens = self.due = 0.0
        self.content_bytes = 0
        self.rx_delay_s = math.nan
        self._again: asyncio.TimerHandle

    @property
    def live(self) -> bool:
        """Return whether the call has neither completed nor failed yet."""
        return not (self.done or self.failure)

    @property
    def phase(self) -> str:
        """Return the phase of the call, as failures name it."""
        if not self.resolved:
            return "dns"
        return "talk" if self.connected else "connect"

    # --- calls and notes of the library -------------------------------------------------------------------------------

    async def resolve(self) -> str:
        """Look up the server's address by a query of its own."""
        target = self._burst.target
        if self.opened:
            raise RuntimeError("the library began a second time")
        now = time.perf_counter()
        self.opened = self.opens or now
        self.start_delay_s = now - self.opened
        if target.resolver is None:
            self.peer, self.resolved = target.name, self.opened
            if self._burst.datagram:  # there is no connecting
                self.connected = self.opened
                self._burst.count_started()
            return self.peer
        with bound_socket(target, socket.SOCK_DGRAM) as sock:
            sock.connect(target.resolver)
            self._burst.sources.add(sock.getsockname()[0])
            sock.send(self._query)
            answer = dns.answer(await self._answer(sock), self._burst.question, target.addresses)
        if answer.trouble:
            raise _NoAddressError(answer_failure(answer))
        self.peer = answer.address
        self.resolved = time.perf_counter()
        return self.peer

    async def connect(self) -> socket.socket:
        """Return a socket of its own, bound to the source and connected; of datagrams if the protocol uses them."""
        address = await self.resolve()
        sock = bound_socket(self._burst.target, socket.SOCK_DGRAM if self._burst.datagram else socket.SOCK_STREAM)
        try:
            await asyncio.get_running_loop().sock_connect(sock, (address, self._burst.target.port))
            self.note_connected(sock)
        except BaseException:
            sock.close()
            raise
        return sock

    @contextlib.contextmanager
    def repeating(self, ask: Callable[[], object]) -> Iterator[None]:
        """Repeat on the schedule of the look-ups, and count with them."""
        self._again = asyncio.get_running_loop().call_later(RETRY_S[0], self._ask_again, ask, 1)
        try:
            yield
        finally:
            self._again.cancel()
            del self._again  # it would keep the loop

    def note_connected(self, sock: socket.socket) -> None:
        """Record the connected socket, while it certainly exists."""
        now = time.perf_counter()
        with contextlib.suppress(OSError):  # after a reset by the peer the address that was looked up stays
            self.peer = sock.getpeername()[0]
        self._burst.record_endpoint(sock)
        self._burst.keep(sock)
        if not self._burst.datagram:
            self.connected = now
            self._burst.count_started()

    def note_data_connection(self, sock: socket.socket) -> None:
        """Record the data connection's source and family."""
        self._burst.record_endpoint(sock)

    def note_first_byte(self) -> None:
        """Record the time of the first byte."""
        self.first = time.perf_counter()

    def note_end(self, content_bytes: int = 0) -> None:
        """Complete the call, if it is in time."""
        now = time.perf_counter()
        if now > self.due:  # a late loop must not complete a call after its deadline
            self.fail("talk deadline")
        elif self.live:
            self.done = now
            self.content_bytes = content_bytes
            self.first = self.first or now
            self._burst.ended(talking=True)

    async def everyone(self) -> None:
        """Wait until all calls have ended; return at once if sessions are not held."""
        if self._hold:
            await self._burst.everyone()

    # --- calls of the agent -------------------------------------------------------------------------------------------

    def fail(self, failure: str) -> None:
        """End the call as failed, if it is live."""
        if self.live:
            self.failure = failure
            self._burst.ended(talking=bool(self.connected))

    async def _answer(self, sock: socket.socket) -> bytes:
        """Return the answer to the query just sent, which is repeated while there is none."""
        loop = asyncio.get_running_loop()
        with self.repeating(lambda: sock.send(self._query)):
            while (message := await loop.sock_recv(sock, 4096))[:2] != self._query[:2]:
                pass  # not the answer to this query: keep listening
        return message

    def _ask_again(self, ask: Callable[[], object], asked: int) -> None:
        self._burst.dns_retries += 1
        with contextlib.suppress(OSError):  # the receiver reports the error
            ask()
        if asked < len(RETRY_S):
            self._again = asyncio.get_running_loop().call_later(RETRY_S[asked], self._ask_again, ask, asked + 1)


class _NoAddressError(Exception):
    """The name server's answer is not the server's address; the text is the failure."""


class _Lag:
    """Lag of a loop: its largest delay for a timer that is due every few milliseconds."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._most_s = 0.0
        self._arm()

    def _arm(self) -> None:
        self._due = self._loop.time() + _TIMER_S
        self._timer = self._loop.call_at(self._due, self._woken)

    def _woken(self) -> None:
        self._most_s = max(self._most_s, self._loop.time() - self._due)
        self._arm()

    def end(self) -> float:
        """Stop the timer; return the largest delay in seconds."""
        self._timer.cancel()
        return max(self._most_s, self._loop.time() - self._due)


def _import(protocol: Application) -> None:
    """Import the library before the burst begins, as that takes longer than a burst."""
    for text in protocol.packages:
        with contextlib.suppress(ImportError):  # reported by the client, where it is used
            import_module(re.split(r"\W", text)[0])


def _run(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run like `asyncio.run`, but at SIGTERM end the loop first, then raise the signal again.

    Its handler raises, and an exception raised within one of the many destructors of a loop is lost.
    """
    if threading.current_thread() is not threading.main_thread():  # where no signal arrives
        asyncio.run(coroutine)
        return
    before = signal.getsignal(signal.SIGTERM)
    signalled = []

    async def main() -> None:
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(coroutine)

        def end(*_: object) -> None:
            signalled.append(signal.SIGTERM)
            with contextlib.suppress(RuntimeError):  # it has ended already
                loop.call_soon_threadsafe(task.cancel)

        signal.signal(signal.SIGTERM, end)
        await task

    try:
        asyncio.run(main())
    finally:
        signal.signal(signal.SIGTERM, before)
        if signalled:
            signal.raise_signal(signal.SIGTERM)


async def _run_call(call: LibraryCall, transaction: Transaction) -> None:
    """Run a call and record its failure, if any; errors after its completion do not matter."""
    if call.opens:
        await asyncio.sleep(call.opens - time.perf_counter())
    try:
        await transaction(call)
    except Exception as error:  # noqa: BLE001 - a library may raise what it likes
        call.fail(_failure(error, call.phase))
    else:
        call.fail("talk closed")  # unless it has completed: the server closed too early


def _failure(error: Exception, phase: str) -> str:
    """Return the failure in the lean client's words."""
    if isinstance(error, ReplyError):
        return f"{error.kind}: {error}"
    if isinstance(error, _NoAddressError):
        return str(error)
    cause: BaseException | None = error
    while cause is not None:  # libraries wrap the socket's error
        if isinstance(cause, OSError) and cause.errno:
            return f"{phase} {failure_kind(cause)}"
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, EOFError | ConnectionError):
        return f"{phase} closed"
    return f"protocol: {type(error).__name__}: {error}".rstrip(": ")
