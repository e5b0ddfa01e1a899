"""Stopwatch of a measurement: each second is charged to the activity that was begun last and has not ended."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TypeVar

from pytest_ipperf.core.measurement.run import Run
from pytest_ipperf.core.measurement.time_ledger import MEASURED, WARMUP
from pytest_ipperf.lab.runs.result import RunResult

Entered = TypeVar("Entered")
_REST = "rest"


class Stopwatch:
    """Stopwatch that runs from its construction on; activities are those of `core.measurement.time_ledger`."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since = clock()
        self._activities = [_REST]
        self._seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def activity(self, name: str) -> Iterator[None]:
        """Charge the time of a context to an activity, except that of activities within it."""
        self._charge()
        self._activities.append(name)
        try:
            yield
        finally:
            self._charge()
            self._activities.pop()

    @contextlib.contextmanager
    def around(self, context: AbstractContextManager[Entered], entering: str, leaving: str) -> Iterator[Entered]:
        """Enter a context; charge its entry and its exit to two activities, and the time between to neither."""
        with self.activity(leaving):
            with self.activity(entering):
                value = context.__enter__()
            try:
                with self.activity(_REST):
                    yield value
            except BaseException:
                if not context.__exit__(*sys.exc_info()):
                    raise
            else:
                context.__exit__(None, None, None)

    def move(self, seconds: float, to: str) -> None:
        """Charge seconds of the current activity to another one, as many as the current one has."""
        self._charge()
        current = self._activities[-1]
        moved_s = min(seconds, self._seconds[current])  # another clock counted them
        self._seconds[current] -= moved_s
        self._seconds[to] = self._seconds.get(to, 0.0) + moved_s

    def charge_run(self, run: Run, result: RunResult) -> None:
        """Charge the parts of a run, which is the current activity, to activities of their own."""
        self.move(result.proof.get("wall_s", 0.0), WARMUP if run.warmup else MEASURED)
        self.move(result.drain_s, "drain")
        self.move(result.finish_s, "finish")

    def take(self) -> dict[str, float]:
        """Return the seconds by activity since the last call, without activities that took none."""
        self._charge()
        taken, self._seconds = self._seconds, {}
        return {name: seconds for name, seconds in taken.items() if seconds}

    def _charge(self) -> None:
        now, current = self._clock(), self._activities[-1]
        self._seconds[current] = self._seconds.get(current, 0.0) + now - self._since
        self._since = now
