"""Worker pool: forked processes that share the connections of each burst and start it at one instant.

Each is a fork of the agent and ends with it. Their results are merged as if one process had run everything.
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

from pytest_ipperf.agent.load.results import BurstResult, merged
from pytest_ipperf.agent.load.spec import LoadSpec
from pytest_ipperf.agent.load.worker import LoadWorker
from pytest_ipperf.core.portable.errors import AgentError

_PR_SET_PDEATHSIG = 1
# Delay from the start message to the start, so that the message reaches all workers in time.
_START_DELAY_S = 0.003
_EXIT_TIMEOUT_S = 2.0


class WorkerPool:
    """Worker processes of one run; they live until `close`."""

    def __init__(self, spec: LoadSpec) -> None:
        self._workers: list[_WorkerProcess] = []
        try:
            for index in range(spec.workers):
                self._workers.append(_WorkerProcess(spec, index))
        except BaseException:
            self._kill()
            raise

    def prepare(self, number: int) -> None:
        """Let the workers prepare a burst; raise AgentError if one of them dies."""
        self._request_all(number)

    def run(self, at: float = 0.0) -> BurstResult:
        """Run the prepared burst when the clock says `at`, else soon; raise AgentError if a worker dies."""
        return merged(self._request_all(at or time.perf_counter() + _START_DELAY_S))

    def _request_all(self, message: float) -> list[Any]:
        try:
            self._send_all(message)
            return self._receive_all()
        except BaseException:
            self._kill()
            raise

    def close(self) -> None:
        """Let the workers close their sessions and exit; kill those that do not."""
        with contextlib.suppress(AgentError):
            self._send_all(None)
        end = time.monotonic() + _EXIT_TIMEOUT_S
        while any(worker.is_alive() for worker in self._workers) and time.monotonic() < end:
            time.sleep(0.001)
        self._kill()

    def _send_all(self, message: float | None) -> None:
        for worker in self._workers:
            worker.send(message)

    def _receive_all(self) -> list[Any]:
        """Return a reply from each worker; a dead one is noticed at once."""
        replies: dict[Any, Any] = {}
        workers = {worker.pipe: worker for worker in self._workers}
        while len(replies) < len(workers):
            for pipe in wait([pipe for pipe in workers if pipe not in replies]):
                replies[pipe] = workers[pipe].receive()  # type: ignore[index]
        return [replies[pipe] for pipe in workers]

    def _kill(self) -> None:
        for worker in self._workers:
            worker.kill()
        self._workers.clear()


class _WorkerProcess:
    """Worker process, seen from the agent."""

    def __init__(self, spec: LoadSpec, index: int) -> None:
        self._name = f"worker {index + 1} of {spec.workers}"
        self.pipe, worker_end = Pipe()
        self._status: int | None = None
        agent = os.getpid()
        with warnings.catch_warnings():
            # The agent has a thread that reads its channel. The worker uses nothing that this thread may hold.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._pid = os.fork()
        if not self._pid:
            self.pipe.close()
            _worker_main(worker_end, spec, index, agent)
        worker_end.close()

    def send(self, message: float | None) -> None:
        """Send a message; raise AgentError if the worker is gone."""
        try:
            self.pipe.send(message)
        except OSError:
            raise AgentError(self._exit_message()) from None

    def receive(self) -> Any:
        """Return the worker's reply; raise AgentError if the worker is gone or broke."""
        try:
            reply = self.pipe.recv()
        except (EOFError, OSError):
            raise AgentError(self._exit_message()) from None
        if isinstance(reply, str):
            raise AgentError(f"{self._name} broke: {reply}")
        return reply

    def is_alive(self) -> bool:
        if self._status is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            self._status = status if pid else None
        return self._status is None

    def kill(self) -> None:
        """Kill the worker, if it still runs."""
        self.pipe.close()
        if self.is_alive():
            os.kill(self._pid, signal.SIGKILL)
            self._status = os.waitpid(self._pid, 0)[1]

    def _exit_message(self) -> str:
        if self.is_alive():  # its pipe is closed, and it is about to exit
            self._status = os.waitpid(self._pid, 0)[1]
        code = os.waitstatus_to_exitcode(self._status or 0)
        how = f"was killed by signal {-code}" if code < 0 else f"exited with status {code}"
        return f"{self._name} {how} during a run"


def _worker_main(pipe: Connection, spec: LoadSpec, index: int, agent: int) -> NoReturn:
    """Run a worker process; it exits without the agent's clean-up."""
    status = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the agent receives it too, and this process ends with the agent
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == agent:  # or the agent died before the signal was set
            _run_bursts(pipe, LoadWorker(spec, index, spec.workers))
            status = 0
    except EOFError:
        pass
    except Exception as error:  # noqa: BLE001 - whatever it is has to be reported there
        with contextlib.suppress(OSError):
            pipe.send(f"{type(error).__name__}: {error}")
    finally:
        os._exit(status)


def _run_bursts(pipe: Connection, worker: LoadWorker) -> None:
    """Receive the number of a burst and its starting instant, repeatedly, until None comes."""
    spent_s = time.process_time()
    while (number := pipe.recv()) is not None:
        worker.prepare(number)
        pipe.send(None)
        result = worker.run(pipe.recv())
        cpu_s = time.process_time()
        pipe.send(dataclasses.replace(result, workers_cpu_s=cpu_s - spent_s))
        spent_s = cpu_s
    worker.close()
