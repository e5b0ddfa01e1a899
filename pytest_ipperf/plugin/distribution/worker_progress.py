"""Show the progress of xdist's workers, read from their journals while they write them.

A worker has no terminal, and a message to the controller beside its reports would end it. Its journal has every
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
from pytest_ipperf.plugin.display.progress_text import ProgressText
from pytest_ipperf.plugin.display.screen import Screen, StatusLines
from pytest_ipperf.plugin.session.session import Session

_POLL_S = 0.25


class LogTail:
    """Follows a journal that is being written: gives each event once and whole."""

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


class WorkerStatus:
    """What one worker measures; `plans` are those of the session, by their workloads' texts."""

    def __init__(self, name: str, folder: Path, plans: Callable[[], Mapping[str, Plan]]) -> None:
        self.name = name
        self.status = ""
        self._log = LogTail(folder / f"{name}.jsonl")
        self._plans = plans
        self._text: ProgressText | None = None

    def lines(self) -> Iterator[str]:
        """Yield the lines that are new and are to stay; update `status`."""
        for event in self._log.events():
            # What another version has written is not worth a session.
            with contextlib.suppress(KeyError, TypeError, ValueError, StopIteration):
                if line := self._update(event):
                    yield self._labelled(line)

    def _labelled(self, line: str) -> str:
        testbed = f" {self._text.plan.workload.testbed}" if self._text else ""
        return f"[{self.name}{testbed}] {line.strip()}"

    def _update(self, event: Mapping[str, Any]) -> str:
        kind, now_s = event["event"], event["at"]
        if kind == "workload":
            plan = self._plans().get(event["workload"])
            self._text = ProgressText(plan, now_s) if plan else None
            self.status = f"[{self.name}] {event['workload']}"
        elif kind == "note":
            return f"ipperf: {event['text']}"
        return self._of_workload(self._text, event, now_s) if self._text else ""

    def _of_workload(self, text: ProgressText, event: Mapping[str, Any], now_s: float) -> str:
        match event["event"]:
            case "epoch":
                text.epoch_started(event["server"])
            case "run":
                line = text.run_done(now_s, event["arm"], event["epoch"], event["values"])
                self.status = f"[{self.name}] {line.strip()}"
            case "look":
                going_on = event["going_on"]
                undecided = [arm for arm in going_on if arm in event["verdicts"]]
                return text.look_done(event["look"] - 1, undecided, [Arm.parse(arm) for arm in going_on])
            case "broken":
                self.status = ""
                return text.broke_off(event["sentence"])
            case "complete":
                self.status = ""
                return text.ended(now_s)
        return ""


class WorkerProgress:
    """The hooks of the controller that show it, whenever xdist's loop waits for its workers."""

    def __init__(self, config: pytest.Config, session: Session, loop: Any) -> None:
        self._session = session
        self._workers: dict[str, WorkerStatus] = {}
        self._screen, self._status_lines = Screen(config), StatusLines(config)
        if hasattr(loop, "queue"):  # as in the xdist that is known
            loop.queue = _PollingQueue(loop.queue, self.poll, self.flush)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Leave the screen as it is to be, however the loop ended."""
        self.flush()

    @pytest.hookimpl
    def pytest_testnodeready(self, node: Any) -> None:
        """A worker has come."""
        name = node.gateway.id
        self._workers[name] = WorkerStatus(name, self._session.folder, self._plans)

    @pytest.hookimpl(tryfirst=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Write the last lines of a worker that has gone, and forget it."""
        if worker := self._workers.pop(node.gateway.id, None):
            self._write_new(worker)

    def poll(self) -> None:
        """Write what is new, and how far each worker is."""
        for worker in self._workers.values():
            self._write_new(worker)
        self._status_lines.show([worker.status for worker in self._workers.values() if worker.status])

    def flush(self) -> None:
        """Write what is new and clear the status lines, as others are about to write."""
        self._status_lines.clear()
        for worker in self._workers.values():
            self._write_new(worker)

    def _write_new(self, worker: WorkerStatus) -> None:
        for line in worker.lines():
            self._status_lines.clear()
            self._screen.line(line)

    def _plans(self) -> Mapping[str, Plan]:
        return {str(workload): plan for workload, plan in self._session.plans.items()}


class _PollingQueue:
    """The queue of xdist's loop; it polls the journals while it waits, and flushes before it returns anything."""

    def __init__(self, theirs: queue.Queue[Any], poll: Callable[[], None], flush: Callable[[], None]) -> None:
        self._theirs, self._poll, self._flush = theirs, poll, flush

    def __getattr__(self, name: str) -> Any:
        return getattr(self._theirs, name)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:  # noqa: FBT001, FBT002 - as that of `queue`
        """As that of the queue, which raises `queue.Empty` when the time is over."""
        end = math.inf if timeout is None else time.monotonic() + timeout * block
        while True:
            self._poll()
            left_s = max(0.0, end - time.monotonic())
            try:
                found = self._theirs.get(timeout=min(_POLL_S, left_s))
            except queue.Empty:
                if time.monotonic() >= end:
                    raise
                continue
            self._flush()
            return found
