"""Load run: a series of bursts, with packed rows, failures counted by kind, and the addresses of the sockets."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from typing import Protocol

from pytest_ipperf.agent.kernel.counters import cpu_times_s, deltas, tcp_error_counters
from pytest_ipperf.agent.kernel.timer_slack import low_jitter
from pytest_ipperf.agent.load.limits import enough_descriptors, enough_ports
from pytest_ipperf.agent.load.results import BurstResult, LoadResult
from pytest_ipperf.agent.load.silence import ProgressReporter
from pytest_ipperf.agent.load.spec import LoadSpec
from pytest_ipperf.agent.load.worker import LoadWorker

# A server that never answers would otherwise cost a deadline for each of hundreds of bursts.
_MOST_FAILED_BURSTS = 3


class _BurstRunner(Protocol):
    """Runner of the bursts of a spec, in this process or in others."""

    def prepare(self, number: int) -> None: ...

    def run(self, at: float = 0.0) -> BurstResult: ...

    def close(self) -> None: ...


class LoadRun:
    """Load run in progress, until its `result` is taken, or at the latest until `close`.

    Raise LabError if this host cannot have so many sockets at once, AgentError if a worker dies.
    """

    def __init__(self, spec: LoadSpec) -> None:
        self._spec = dataclasses.replace(spec, workers=min(spec.workers, spec.connection_count))
        enough_descriptors(self._spec)
        enough_ports(self._spec)
        self.bursts: list[BurstResult] = []
        with contextlib.ExitStack() as stack:
            stack.enter_context(low_jitter())
            self._runner = stack.enter_context(contextlib.closing(_burst_runner(self._spec)))
            self._stack = stack.pop_all()
        self._tcp, self._host_cpu, self._cpu_s = tcp_error_counters(), cpu_times_s(), time.process_time()

    def prepare(self, number: int) -> None:
        """Prepare a burst for the next `run`."""
        self._runner.prepare(number)

    def run(self, at: float = 0.0) -> BurstResult:
        """Run the prepared burst when the clock says `at`; 0: at once."""
        result = self._runner.run(at)
        self.bursts.append(result)
        return result

    def result(self) -> LoadResult:
        """End the run and return its result."""
        self._runner.close()
        cpu_s = time.process_time() - self._cpu_s
        self._stack.close()
        now = cpu_times_s()
        return LoadResult.of_bursts(
            self.bursts,
            attempted=len(self.bursts) * self._spec.connection_count,
            cpu_s=cpu_s + sum(each.workers_cpu_s for each in self.bursts),
            processors=min(self._spec.workers, len(os.sched_getaffinity(0))),
            tcp=deltas(self._tcp, tcp_error_counters()),
            host_cpu_s={name: now[name] - before for name, before in self._host_cpu.items()},
        )

    def close(self) -> None:
        """End the run, also without a result; may be called twice."""
        self._stack.close()


class ConsecutiveFailures:
    """Counter of consecutive bursts without a completed connection; a few of them end a run."""

    def __init__(self) -> None:
        self._bursts = 0

    def reached(self, *, completed: bool) -> bool:
        """Count one more burst; return whether the run has to end early."""
        self._bursts = 0 if completed else self._bursts + 1
        return self._bursts == _MOST_FAILED_BURSTS


def load(spec: LoadSpec, reporter: ProgressReporter | None = None) -> LoadResult:
    """Run the spec and return its result; `reporter` is notified when each burst begins and ends.

    The run ends early after a few bursts in a row without a completed connection; `attempted` counts the begun ones.
    Raise LabError if this host cannot have so many sockets at once, AgentError if a worker dies.
    """
    reporter, failures = reporter or ProgressReporter(), ConsecutiveFailures()
    with contextlib.closing(LoadRun(spec)) as run:
        for number in range(spec.bursts):
            reporter.measurement_started()
            run.prepare(number)
            burst = run.run()
            reporter.measurement_ended()
            if failures.reached(completed=bool(burst.rows)):
                break
        return dataclasses.replace(run.result(), control=reporter.control)


def _burst_runner(spec: LoadSpec) -> _BurstRunner:
    if spec.workers == 1:
        return LoadWorker(spec)
    from pytest_ipperf.agent.load.worker_pool import WorkerPool  # noqa: PLC0415 - not needed by a single process

    return WorkerPool(spec)
