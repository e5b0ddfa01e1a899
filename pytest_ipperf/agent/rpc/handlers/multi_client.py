"""Orders of a run that several hosts share: bursts begin on all of them at instants that are given."""

from __future__ import annotations

import contextlib
import time
from itertools import pairwise
from typing import Any

from pytest_ipperf.agent.load.results import BurstTold
from pytest_ipperf.agent.load.runner import Loading
from pytest_ipperf.agent.load.spec import LoadSpec
from pytest_ipperf.agent.rpc.handlers.base import Here, Part

# What has been said over the control connection has passed by then.
_BEFORE_S = 0.002
LATE_S = 0.02
"""Who begins later than that does not begin together with the others."""


class Driving(Part):
    """One run at a time: opened, bursts made ready and begun, and closed, or left."""

    def __init__(self, here: Here) -> None:
        super().__init__(here)
        self._under_way = here.stack.enter_context(contextlib.ExitStack())

    def drive_open(self, spec: dict[str, Any]) -> None:
        """Takes this host's share of a run, and leaves one that was left open."""
        self._under_way.close()
        self._watch = self._here.line.watch()
        self._here.counters.begin()
        self._loading = Loading(LoadSpec(**spec))
        self._under_way.callback(self._loading.close)
        self._bursts: list[BurstTold] = []

    def drive_ready(self, number: int) -> None:
        """Makes a burst."""
        self._loading.ready(number)

    def drive_begin(self, number: int, instants_ns: list[int]) -> list[tuple[bool, float]]:
        """Runs that burst, and those after it, when CLOCK_MONOTONIC says so.

        Of each whether any of it completed, and what it took in seconds, its making included. It ends before one that
        others should have behind them. All else is told in the end, as they may still measure.
        """
        done: list[tuple[bool, float]] = []
        apart_ns = max([int(LATE_S * 1e9), *(after - before for before, after in pairwise(instants_ns))])
        for at_ns in instants_ns:
            began_s = time.monotonic()
            if done:
                if time.monotonic_ns() > at_ns + apart_ns:
                    break
                self._loading.ready(number + len(done))
            making_s = time.monotonic() - began_s
            time.sleep(max(0.0, (at_ns - time.monotonic_ns()) * 1e-9 - _BEFORE_S))
            self._watch.began()
            told = self._loading.begin(at_ns * 1e-9)
            self._watch.paused()  # the answer is the sign of life
            self._bursts.append(told)
            done.append((bool(told.rows), making_s + told.wall_s))
        return done

    def drive_close(self) -> dict[str, Any]:
        """What `load` tells, with the packets counted around it; in place of its rows the `bursts`, one by one."""
        told = self._loading.told()
        del told["rows"], told["indices"]
        bursts = [each.plain() for each in self._bursts]
        self._under_way.close()
        return {**told, "control": self._watch.control, **self._here.counters.run(), "bursts": bursts}

    def drive_leave(self) -> None:
        """Leaves a run that comes to nothing; may be said where none is open."""
        self._under_way.close()


part = Driving
