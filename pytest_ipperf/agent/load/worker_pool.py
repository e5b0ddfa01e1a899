"""A crew: worker processes that share the connections of each burst, and begin it at one instant.

Each is a fork of the agent and bound to its life. What they tell is put together as if one process had made it all.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import os
import signal
import time
import warnings
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, NoReturn

from pytest_ipperf.agent.load.results import BurstTold, merged
from pytest_ipperf.agent.load.spec import LoadSpec
from pytest_ipperf.agent.load.worker import Share
from pytest_ipperf.core.portable.errors import AgentError

_PR_SET_PDEATHSIG = 1
# From the word to the beginning: enough for the word to reach all.
_SOON_S = 0.003
_GOING_S = 2.0


class Crew:
    """The workers of one order; they live until `close`."""

    def __init__(self, spec: LoadSpec) -> None:
        self._workers: list[_Worker] = []
        try:
            for place in range(spec.workers):
                self._workers.append(_Worker(spec, place))
        except BaseException:
            self._kill()
            raise

    def ready(self, number: int) -> None:
        """Has them make one; AgentError when a worker dies."""
        self._asked(number)

    def begin(self, at: float = 0.0) -> BurstTold:
        """Runs what was made last, when the clock says `at`, else soon; AgentError when a worker dies."""
        return merged(self._asked(at or time.perf_counter() + _SOON_S))

    def _asked(self, word: float) -> list[Any]:
        try:
            self._say(word)
            return self._heard()
        except BaseException:
            self._kill()
            raise

    def close(self) -> None:
        """Lets them end what stays open, and go."""
        with contextlib.suppress(AgentError):
            self._say(None)
        end = time.monotonic() + _GOING_S
        while any(worker.lives() for worker in self._workers) and time.monotonic() < end:
            time.sleep(0.001)
        self._kill()

    def _say(self, word: float | None) -> None:
        for worker in self._workers:
            worker.say(word)

    def _heard(self) -> list[Any]:
        """An answer from each; one that dies is known of at once."""
        answers: dict[Any, Any] = {}
        lines = {worker.line: worker for worker in self._workers}
        while len(answers) < len(lines):
            for line in wait([line for line in lines if line not in answers]):
                answers[line] = lines[line].hear()  # type: ignore[index]
        return [answers[line] for line in lines]

    def _kill(self) -> None:
        for worker in self._workers:
            worker.kill()
        self._workers.clear()


class _Worker:
    """One of them, as the agent sees it."""

    def __init__(self, spec: LoadSpec, place: int) -> None:
        self._name = f"worker {place + 1} of {spec.workers}"
        self.line, there = Pipe()
        self._status: int | None = None
        agent = os.getpid()
        with warnings.catch_warnings():
            # The agent has a thread that reads its line. The worker touches nothing that this thread may hold.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._pid = os.fork()
        if not self._pid:
            self.line.close()
            _work(there, spec, place, agent)
        there.close()

    def say(self, word: float | None) -> None:
        """AgentError when nobody hears it."""
        try:
            self.line.send(word)
        except OSError:
            raise AgentError(self._end()) from None

    def hear(self) -> Any:
        """What it answers; AgentError when it cannot any more."""
        try:
            answer = self.line.recv()
        except (EOFError, OSError):
            raise AgentError(self._end()) from None
        if isinstance(answer, str):
            raise AgentError(f"{self._name} broke: {answer}")
        return answer

    def lives(self) -> bool:
        if self._status is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            self._status = status if pid else None
        return self._status is None

    def kill(self) -> None:
        """Ends it, if it has not ended."""
        self.line.close()
        if self.lives():
            os.kill(self._pid, signal.SIGKILL)
            self._status = os.waitpid(self._pid, 0)[1]

    def _end(self) -> str:
        if self.lives():  # its line is closed, and its end is near
            self._status = os.waitpid(self._pid, 0)[1]
        code = os.waitstatus_to_exitcode(self._status or 0)
        how = f"was killed by signal {-code}" if code < 0 else f"exited with status {code}"
        return f"{self._name} {how} in the midst of a run"


def _work(line: Connection, spec: LoadSpec, place: int, agent: int) -> NoReturn:
    """A worker's life; nothing of the agent's is done in it, so it leaves without the agent's clean-up."""
    status = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the agent is told too, and this one by its end
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == agent:  # or it has died before the signal was set
            _take_orders(line, Share(spec, place, spec.workers))
            status = 0
    except EOFError:
        pass
    except Exception as error:  # noqa: BLE001 - whatever it is has to be told there
        with contextlib.suppress(OSError):
            line.send(f"{type(error).__name__}: {error}")
    finally:
        os._exit(status)


def _take_orders(line: Connection, share: Share) -> None:
    """A burst by its number, and the instant at which it begins; None is the end."""
    spent_s = time.process_time()
    while (number := line.recv()) is not None:
        share.ready(number)
        line.send(None)
        told = share.begin(line.recv())
        cpu_s = time.process_time()
        line.send(dataclasses.replace(told, beside_s=cpu_s - spent_s))
        spent_s = cpu_s
    share.close()
