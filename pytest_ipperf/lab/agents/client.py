"""Call the agent on a host over its execnet channel, with a time-out that each keep-alive restarts.

This is the only module that imports execnet. Its gateways can come up on a dead host and its calls can wait for ever,
so every step here has a deadline and ends in a sentence.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

import execnet
from execnet.gateway_base import Popen2IO
from execnet.gateway_bootstrap import bootstrap
from execnet.gateway_io import create_io

from pytest_ipperf.agent.kernel.processes import Process, survivors, tree
from pytest_ipperf.agent.load.silence import PROGRESS
from pytest_ipperf.agent.rpc.channel import HEARTBEAT as HEARTBEAT_MESSAGE
from pytest_ipperf.agent.rpc.messages import Hello
from pytest_ipperf.core.portable.errors import AgentError, LabError
from pytest_ipperf.core.printable import printable
from pytest_ipperf.lab.access import ACCESS_METHODS
from pytest_ipperf.lab.access.base import SUDO, RemoteAccessMethod
from pytest_ipperf.lab.agents.bootstrap import BOOT, FORKED_BOOT, start_agent, start_forked_agent
from pytest_ipperf.lab.agents.fork_server import ForkedAgent, ForkedProcess
from pytest_ipperf.lab.agents.heartbeat import HEARTBEAT, WATCHDOG_TIMEOUT_S
from pytest_ipperf.lab.agents.methods import AgentMethods
from pytest_ipperf.lab.agents.rpc_method import PATIENCE_S, Connection, Terms
from pytest_ipperf.lab.inventory.model import Host

_START_S = 20.0
# On this machine a silent agent only lacks processor time. The hosts of a lab start theirs at once; each needs 0.2 s of
# it, and as much here. With ten busy processes per processor that has taken 20 s.
_START_HERE_S = 60.0
_POLL_S = 0.25
_STOP_S = 5.0  # an agent first asks its servers to end
# An agent removes everything that it has made, perhaps thousands of mailboxes, before it ends; ssh takes time, too.
_GRACE_S, _REAP_S = 60.0, 90.0
# A pipe of Linux takes this much without a reader (pipe(7)), less some heartbeats.
_PIPE_BYTES = 32768
_DIED = "its host went down, the link broke, or it was killed (by the kernel, when memory runs out)"
_SILENT = "its host hangs or is overloaded, the link is broken, or it was stopped"
# Runs on a host whose agent was lost: a stopped agent is continued and told to end, which its connection cannot do.
_REAP = """
import os, signal, time
def lives():
    with open("/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return fields[19] == "{started_ticks}" and fields[0] not in "ZX"
try:
    for numbers, grace_s in (((signal.SIGCONT, signal.SIGTERM), {grace_s}), ((signal.SIGKILL,), 2)):
        end = time.monotonic() + grace_s
        for number in numbers:
            lives() and os.kill({pid}, number)
        while lives() and time.monotonic() < end:
            time.sleep(0.05)
except OSError:
    pass  # it is gone
"""


class AgentClient(AgentMethods):
    """RPC client of one agent; open from construction to `close`, use as a context manager.

    A host on another machine caches what it is sent if `keeps` is set. With `fork` the agent is not started but forked.
    """

    def __init__(
        self,
        host: Host,
        entry: Sequence[str] = (),
        *,
        keeps: bool = True,
        fork: Callable[[], ForkedAgent] | None = None,
    ) -> None:
        self.host = host
        self._fork = fork
        self.keeps = keeps and ACCESS_METHODS[host.way].far
        self._entry = (*entry, *(SUDO if host.sudo else ()))
        self._group = execnet.Group()
        self._process: subprocess.Popen[bytes] | ForkedProcess | None = None
        self._lost = self._called = ""
        self._hello: Hello | None = None
        self.terms = Terms(self)
        try:
            self._channel, hello = self._started(self._entry)
            if ACCESS_METHODS[host.way].far:
                self._hello = hello
                HEARTBEAT.add(self._send_heartbeat)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _started(self, entry: Sequence[str]) -> tuple[Any, Hello]:
        """Start the agent; return the channel to it and its identity."""
        way, settings = ACCESS_METHODS[self.host.way], self.host.settings
        patience_s = _START_S if way.far else _START_HERE_S
        opened: list[tuple[Any, Hello] | BaseException] = []
        sending: list[float] = []

        def open_gateway() -> None:
            try:
                gateway = self._gateway(way.spec(settings, entry))
                if self._fork:
                    channel = gateway.remote_exec(FORKED_BOOT)
                    opened.append((channel, start_forked_agent(channel, patience_s)))
                else:
                    channel = gateway.remote_exec(BOOT)
                    hello = start_agent(
                        channel,
                        patience_s,
                        sending.append,
                        near=not way.far,
                        keeps=self.keeps,
                        watchdog_s=WATCHDOG_TIMEOUT_S if way.far else 0.0,
                    )
                    opened.append((channel, hello))
            except BaseException as error:  # noqa: BLE001 - raised below, in the other thread
                opened.append(error)

        # execnet waits for a gateway's first byte without a deadline of its own.
        thread = threading.Thread(target=open_gateway, daemon=True)
        thread.start()
        thread.join(patience_s)
        thread.join(sum(sending))
        result = opened[0] if opened else None
        if isinstance(result, tuple):
            return result
        silence = f"no answer in {patience_s:g} s"
        why = printable(way.diagnosis(settings, entry)) or (_reason(result) if result else silence)
        raise AgentError(f"host {self.host.name}: no agent could be started by access method {self.host.way}: {why}")

    def _gateway(self, attributes: Mapping[str, str | bool]) -> execnet.Gateway:
        """Make a gateway as execnet's `makegateway` does, but keep its process, to be able to end it at any time."""
        # A process inherits blocked signals, and a Ctrl-C at the terminal is ours to handle, not the agent's.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        spec = execnet.XSpec(f"execmodel={self._group.remote_execmodel.backend}")
        for name, value in attributes.items():
            setattr(spec, name, value)
        self._group.allocate_id(spec)
        model = self._group.execmodel
        line = _ForkedLine(self._fork(), model) if self._fork else create_io(spec, model)
        self._process = line.popen
        try:
            gateway = line.gateway(spec) if isinstance(line, _ForkedLine) else bootstrap(line, spec)
        except BaseException:
            with contextlib.suppress(OSError):  # unwritten data no longer matters
                line.close_write()
            line.close_read()
            raise
        self._group._register(gateway)  # noqa: SLF001 - so that the group ends it
        return gateway

    @property
    def ended(self) -> bool:
        """Return whether the agent's process, or the one that leads to it, is gone."""
        return self._process is None or self._process.poll() is not None

    @property
    def lost(self) -> bool:
        """Return whether it accepts no more calls: it has ended, or a call was never answered."""
        return self.ended or bool(self._lost)

    def request(self, name: str, arguments: tuple[Any, ...], patience_s: float = PATIENCE_S) -> None:
        """Send the request of one call, whose `result` is read before the next; AgentError if the agent is gone.

        RPC methods send plain data by it; see `AgentMethods`.
        """
        if self._lost:
            raise AgentError(f"host {self.host.name}: {self._lost}")
        self._called, self._lost = name, f"the agent was left with call {name!r}"
        try:
            if arguments and _bytes(arguments) >= _PIPE_BYTES:
                with self._bounded(patience_s):
                    self._channel.send((name, arguments))
            else:  # a pipe always takes a small message
                self._channel.send((name, arguments))
        except OSError as error:
            raise self._died() from error

    @contextlib.contextmanager
    def _bounded(self, patience_s: float) -> Iterator[None]:
        """End the connection if it does not take a large message in time."""
        if self._process is None:
            yield
            return
        late = threading.Event()
        everything = [process for level in tree(self._process.pid) for process in level]

        def give_up() -> None:
            late.set()
            _kill(everything)

        giving_up = threading.Timer(patience_s, give_up)
        giving_up.start()
        try:
            yield
        except OSError as error:
            if late.is_set():
                raise self._mute(patience_s) from error
            raise
        finally:
            giving_up.cancel()

    def result(self, patience_s: float = PATIENCE_S, beside: Sequence[Connection] = ()) -> object:
        """Wait for the result of the requested call; AgentError if an agent of `beside` is gone."""
        try:
            reply = self._reply(patience_s, beside)
        except self._channel.TimeoutError:
            raise self._mute(patience_s) from None
        except (EOFError, OSError, self._channel.RemoteError) as error:
            raise self._died() from error
        self._lost = ""
        if reply[0] == "ok":
            return reply[1]
        _, kind, sentence = reply
        raise (AgentError if kind == "AgentError" else LabError)(f"host {self.host.name}: {printable(sentence)}")

    def _mute(self, patience_s: float) -> AgentError:
        self._lost = f"the agent sent no keep-alive for {patience_s:g} s during call {self._called!r}; {_SILENT}"
        return AgentError(f"host {self.host.name}: {self._lost}")

    def _died(self) -> AgentError:
        self._lost = f"the agent died during call {self._called!r}; {_DIED}"
        return AgentError(f"host {self.host.name}: {self._lost}")

    def _reply(self, patience_s: float, beside: Sequence[Connection]) -> Any:
        # The time-out is counted in polls and not by a clock, as stopping pytest for a while (Ctrl-Z) stops the polls,
        # too, and replies of that time must still be read.
        left = patience_s
        while True:
            for other in beside:
                if other.ended:
                    why = f"the agent died while host {self.host.name} needed it; {_DIED}"
                    raise AgentError(f"host {other.host.name}: {why}")
            wait_s = min(left, _POLL_S)
            try:
                reply = self._channel.receive(wait_s)
            except self._channel.TimeoutError:
                left -= wait_s
                if left <= 0:
                    raise
                continue
            if reply != PROGRESS:
                return reply
            left = patience_s
            HEARTBEAT.allow_one()

    def _send_heartbeat(self, timeout_s: float) -> None:
        with contextlib.suppress(OSError):  # the next call reports that the line has ended
            self._channel.send((HEARTBEAT_MESSAGE, timeout_s))

    def close(self) -> None:
        """End the agent; kill it if it does not end by itself."""
        HEARTBEAT.remove(self._send_heartbeat)
        # The whole tree is listed, as execnet only knows the process that entered a namespace, and ends only that one.
        levels = tree(self._process.pid) if self._process is not None and self._process.poll() is None else []
        everything = [process for level in levels for process in level]
        # execnet kills the process that it started, then waits as long again for its descendants.
        killing = threading.Timer(_STOP_S, _kill, [everything])
        killing.start()
        self._group.terminate(timeout=2 * _STOP_S)
        killing.cancel()
        killing.join()
        _kill(everything)
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):  # a process of root cannot be killed if sudo refuses
                self._process.wait(_STOP_S)
        if self._lost and self._hello:
            self._reap()

    def _reap(self) -> None:
        """Make sure that a remote agent that did not answer is gone; if it is out of reach, its watchdog ends it."""
        way = ACCESS_METHODS[self.host.way]
        if isinstance(way, RemoteAccessMethod) and self._hello:
            hello = self._hello
            script = _REAP.format(pid=hello.pid, started_ticks=hello.started_ticks, grace_s=_GRACE_S)
            _run(way.asking(self.host.settings, self._entry, script))


class _ForkedLine(Popen2IO):
    """Pipes to a forked agent, as execnet has them to a process that it has started itself."""

    def __init__(self, forked: ForkedAgent, execmodel: Any) -> None:
        super().__init__(os.fdopen(forked.to, "wb"), os.fdopen(forked.back, "rb"), execmodel)
        self.popen = forked.process

    def gateway(self, spec: execnet.XSpec) -> execnet.Gateway:
        """Return the gateway, once the agent has said that it is there."""
        self.read(1)
        return execnet.Gateway(self, spec)

    def wait(self) -> int | None:
        return self.popen.wait()

    def kill(self) -> None:
        self.popen.kill()


def _bytes(value: Any) -> int:
    """Estimate the bytes of a message, of which only large parts matter."""
    if isinstance(value, bytes | str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(map(_bytes, value.values()))
    return sum(map(_bytes, value)) if isinstance(value, list | tuple) else 8


def _kill(processes: Sequence[Process]) -> None:
    for process in survivors(processes):
        try:
            os.kill(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        except PermissionError:  # a process of root, started by sudo
            _run([*SUDO, "kill", "-KILL", str(process.pid)])


def _run(argv: Sequence[str]) -> None:
    """Run a command and ignore its failure."""
    nowhere = subprocess.DEVNULL
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(argv, stdin=nowhere, stdout=nowhere, stderr=nowhere, timeout=_REAP_S, check=False)


def _reason(error: BaseException) -> str:
    if isinstance(error, EOFError | OSError):
        return "what was started there ended before it answered; it must be a Python"
    lines = printable(str(error)).strip().splitlines() or [type(error).__name__]
    return re.sub(r"^[\w.]+: ", "", lines[-1])  # the last line of a traceback, without the exception's name
