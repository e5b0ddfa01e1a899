"""Following: what the workers of xdist measure, read from their journals while they write them.

A worker has no terminal, and whatever it told the controller beside its reports would end it. Its journal has every
event as it comes, so the controller reads that whenever it waits for its workers anyway: no thread, nothing to end.
"""

from __future__ import annotations

import contextlib
import json
import math
import queue
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.plan import Plan
from pytest_ipperf.plugin.display.progress_text import Headway
from pytest_ipperf.plugin.display.screen import Board, Screen
from pytest_ipperf.plugin.session.session import Session

_LOOK_S = 0.25


class Journal:
    """The events of a journal that is being written, each once and whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def events(self) -> Iterator[Mapping[str, Any]]:
        """What has come since the last time; of a line that is not whole yet, or of no file, nothing."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                whole, newline, _ = file.read().rpartition(b"\n")
        except OSError:
            return
        self._offset += len(whole) + len(newline)
        for line in whole.splitlines():
            with contextlib.suppress(ValueError):
                event = json.loads(line)
                if isinstance(event, dict):
                    yield event


class Worker:
    """What one of them measures; `plans` are those of the session, by their workloads' texts."""

    def __init__(self, name: str, folder: Path, plans: Callable[[], Mapping[str, Plan]]) -> None:
        self.name = name
        self.status = ""
        self._journal = Journal(folder / f"{name}.jsonl")
        self._plans = plans
        self._headway: Headway | None = None

    def lines(self) -> Iterator[str]:
        """What it has told since the last time and is to stay; brings its `status` up to date."""
        for event in self._journal.events():
            # What another version has written is not worth a session.
            with contextlib.suppress(KeyError, TypeError, ValueError, StopIteration):
                if line := self._told(event):
                    yield self._signed(line)

    def _signed(self, line: str) -> str:
        testbed = f" {self._headway.plan.workload.testbed}" if self._headway else ""
        return f"[{self.name}{testbed}] {line.strip()}"

    def _told(self, event: Mapping[str, Any]) -> str:
        kind, now_s = event["event"], event["at"]
        if kind == "workload":
            plan = self._plans().get(event["workload"])
            self._headway = Headway(plan, now_s) if plan else None
            self.status = f"[{self.name}] {event['workload']}"
        elif kind == "note":
            return f"ipperf: {event['text']}"
        return self._of_workload(self._headway, event, now_s) if self._headway else ""

    def _of_workload(self, headway: Headway, event: Mapping[str, Any], now_s: float) -> str:
        match event["event"]:
            case "epoch":
                headway.stands(event["server"])
            case "run":
                told = headway.ran(now_s, event["arm"], event["epoch"], event["values"])
                self.status = f"[{self.name}] {told.strip()}"
            case "look":
                going_on = event["going_on"]
                undecided = [arm for arm in going_on if arm in event["verdicts"]]
                return headway.looked(event["look"] - 1, undecided, [Arm.parse(arm) for arm in going_on])
            case "broken":
                self.status = ""
                return headway.broke_off(event["sentence"])
            case "complete":
                self.status = ""
                return headway.ended(now_s)
        return ""


class Following:
    """The hooks of the controller that show it, whenever xdist's loop waits for its workers."""

    def __init__(self, config: pytest.Config, session: Session, loop: Any) -> None:
        self._session = session
        self._workers: dict[str, Worker] = {}
        self._screen, self._board = Screen(config), Board(config)
        if hasattr(loop, "queue"):  # as in the xdist that is known
            loop.queue = _Queue(loop.queue, self.look, self.settle)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Leave the screen as it is to be, however the loop ended."""
        self.settle()

    @pytest.hookimpl
    def pytest_testnodeready(self, node: Any) -> None:
        """A worker has come."""
        name = node.gateway.id
        self._workers[name] = Worker(name, self._session.folder, self._plans)

    @pytest.hookimpl(tryfirst=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """A worker has gone: what it told last, and no more of it."""
        if worker := self._workers.pop(node.gateway.id, None):
            self._tell(worker)

    def look(self) -> None:
        """Shows what has come since the last time, and how far each worker is."""
        for worker in self._workers.values():
            self._tell(worker)
        self._board.show([worker.status for worker in self._workers.values() if worker.status])

    def settle(self) -> None:
        """Leaves the screen to others, with what led to what they are about to write."""
        self._board.clear()
        for worker in self._workers.values():
            self._tell(worker)

    def _tell(self, worker: Worker) -> None:
        for line in worker.lines():
            self._board.clear()
            self._screen.line(line)

    def _plans(self) -> Mapping[str, Plan]:
        return {str(workload): plan for workload, plan in self._session.plans.items()}


class _Queue:
    """The queue of xdist's loop, which looks around while it waits, and settles before it gives anything."""

    def __init__(self, theirs: queue.Queue[Any], look: Callable[[], None], settle: Callable[[], None]) -> None:
        self._theirs, self._look, self._settle = theirs, look, settle

    def __getattr__(self, name: str) -> Any:
        return getattr(self._theirs, name)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:  # noqa: FBT001, FBT002 - as that of `queue`
        """As that of the queue, which raises `queue.Empty` when the time is over."""
        end = math.inf if timeout is None else time.monotonic() + timeout * block
        while True:
            self._look()
            left_s = max(0.0, end - time.monotonic())
            try:
                found = self._theirs.get(timeout=min(_LOOK_S, left_s))
            except queue.Empty:
                if time.monotonic() >= end:
                    raise
                continue
            self._settle()
            return found
