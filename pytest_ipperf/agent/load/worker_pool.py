"""Worker pool: forked processes that share the connections of each burst and start it at one instant.

Each is a fork of the agent and ends with it. Their results are merged as if one process had run everything.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from functools import partial
from multiprocessing.connection import Connection, wait
from typing import Any

from pytest_ipperf.agent.kernel.child_process import ChildProcess
from pytest_ipperf.agent.load.results import BurstResult, merged
from pytest_ipperf.agent.load.spec import LoadSpec
from pytest_ipperf.agent.load.worker import LoadWorker
from pytest_ipperf.core.portable.errors import AgentError

# Delay from the start message to the start, so that the message reaches all workers in time.
_START_DELAY_S = 0.003
_EXIT_TIMEOUT_S = 2.0


class WorkerPool:
    """Worker processes of one run; they live until `close`."""

    def __init__(self, spec: LoadSpec) -> None:
        self._workers: list[ChildProcess] = []
        try:
            for index in range(spec.workers):
                name = f"worker {index + 1} of {spec.workers}"
                self._workers.append(ChildProcess(name, partial(_run_bursts, spec=spec, index=index)))
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


def _run_bursts(pipe: Connection, *, spec: LoadSpec, index: int) -> None:
    """Receive the number of a burst and its starting instant, repeatedly, until None comes."""
    worker, spent_s = LoadWorker(spec, index, spec.workers), time.process_time()
    while (number := pipe.recv()) is not None:
        worker.prepare(number)
        pipe.send(None)
        result = worker.run(pipe.recv())
        cpu_s = time.process_time()
        pipe.send(dataclasses.replace(result, workers_cpu_s=cpu_s - spent_s))
        spent_s = cpu_s
    worker.close()
