"""Show the progress of xdist's workers, read from their journals while they are being written.

A worker has no terminal, and cannot send the controller anything but reports. Its journal has every event at once, so
the controller polls the journals whenever it waits for its workers; that needs no thread.
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
from pytest_ipperf.core.design.plan import Plan, confirmed_by
from pytest_ipperf.plugin.display.progress_text import ProgressText
from pytest_ipperf.plugin.display.screen import Screen, StatusLines
from pytest_ipperf.plugin.session.plan_text import plan_from_data
from pytest_ipperf.plugin.session.session import Session

_POLL_S = 0.25


class LogTail:
    """Reader that follows a journal while it is written, and yields each complete event once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def events(self) -> Iterator[Mapping[str, Any]]:
        """Yield the events appended since the last call, without an incomplete line; none if there is no file."""
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
    """Progress of one worker; `plans` returns the session's plans by their workloads' texts."""

    def __init__(self, name: str, folder: Path, plans: Callable[[], Mapping[str, Plan]]) -> None:
        self.name = name
        self.status = ""
        self._log = LogTail(folder / f"{name}.jsonl")
        self._plans = plans
        self._text: ProgressText | None = None

    def lines(self) -> Iterator[str]:
        """Yield the new permanent lines, and update `status`."""
        for event in self._log.events():
            # An event in an unknown format, as of another version, is skipped.
            with contextlib.suppress(KeyError, TypeError, ValueError, StopIteration):
                if line := self._update(event):
                    yield self._labelled(line)

    def _labelled(self, line: str) -> str:
        testbed = f" {self._text.plan.workload.testbed}" if self._text else ""
        return f"[{self.name}{testbed}] {line.strip()}"

    def _update(self, event: Mapping[str, Any]) -> str:
        kind, now_s = event["event"], event["at"]
        if kind == "workload":
            plan = self._plan(event)
            self._text = ProgressText(plan, now_s) if plan else None
            self.status = f"[{self.name}] {event['workload']}"
            return self._text.begun() if self._text else ""
        if kind == "note":
            return f"ipperf: {event['text']}"
        return self._of_workload(self._text, event, now_s) if self._text else ""

    def _plan(self, event: Mapping[str, Any]) -> Plan | None:
        if not event.get("confirms"):
            return self._plans().get(event["workload"])
        workload, number = confirmed_by(event["workload"])
        plan = self._plans().get(workload)
        return plan_from_data(plan, event["order"], number) if plan else None

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
    """Hooks of the controller that show the progress whenever xdist's loop waits for its workers."""

    def __init__(self, config: pytest.Config, session: Session, loop: Any) -> None:
        self._session = session
        self._workers: dict[str, WorkerStatus] = {}
        self._screen, self._status_lines = Screen(config), StatusLines(config)
        if hasattr(loop, "queue"):  # not a public attribute of xdist
            loop.queue = _PollingQueue(loop.queue, self.poll, self.flush)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Write the last lines and clear the status lines, however the loop ended."""
        self.flush()

    @pytest.hookimpl
    def pytest_testnodeready(self, node: Any) -> None:
        """Follow the journal of a new worker."""
        name = node.gateway.id
        self._workers[name] = WorkerStatus(name, self._session.folder, self._plans)

    @pytest.hookimpl(tryfirst=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Write the last lines of a worker that has ended, and stop following it."""
        if worker := self._workers.pop(node.gateway.id, None):
            self._write_new(worker)

    def poll(self) -> None:
        """Write new lines, and show the status of each worker."""
        for worker in self._workers.values():
            self._write_new(worker)
        found = [worker.status for worker in self._workers.values() if worker.status]
        self._status_lines.show(found)
        self._screen.keep_up(found)

    def flush(self) -> None:
        """Write new lines and clear the status lines, before other output."""
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
    """Wrapper of the queue of xdist's loop, which polls while it waits, and flushes before it returns an item."""

    def __init__(self, wrapped: queue.Queue[Any], poll: Callable[[], None], flush: Callable[[], None]) -> None:
        self._wrapped, self._poll, self._flush = wrapped, poll, flush

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped, name)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:  # noqa: FBT001, FBT002 - the signature of `queue.Queue.get`
        """Return the next item, polling meanwhile; raise `queue.Empty` after `timeout`."""
        end = math.inf if timeout is None else time.monotonic() + timeout * block
        while True:
            self._poll()
            left_s = max(0.0, end - time.monotonic())
            try:
                found = self._wrapped.get(timeout=min(_POLL_S, left_s))
            except queue.Empty:
                if time.monotonic() >= end:
                    raise
                continue
            self._flush()
            return found
