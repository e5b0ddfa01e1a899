"""Progress: hears the experiment, appends it to the journal, and shows a person how far it is and how long still."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import pytest

from pytest_ipperf.agent.capture import HEAD_BYTES
from pytest_ipperf.core.cell import Arm
from pytest_ipperf.core.errors import LabError
from pytest_ipperf.core.judge import Judgement
from pytest_ipperf.core.plan import Plan
from pytest_ipperf.core.question import Question
from pytest_ipperf.core.run import Run
from pytest_ipperf.core.units import quantity_text, seconds_text
from pytest_ipperf.lab.receipt import Receipt, Service
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.plugin.asking import order_of
from pytest_ipperf.plugin.keeping import journal_of
from pytest_ipperf.plugin.session import Session
from pytest_ipperf.store import Journal


class Progress:
    """The listener of one workload. On a terminal one line is rewritten, elsewhere one is written at the end."""

    def __init__(self, plan: Plan, journal: Journal, screen: Screen) -> None:
        self._plan = plan
        self._journal = journal
        self._screen = screen
        self._look = 0
        self._planned = plan.first_runs
        self._done = 0
        self._began = time.monotonic()
        self._service = ""
        journal.append("workload", {"workload": str(plan.workload), "seed": plan.seed, "order": order_of(plan)})

    @classmethod
    def of(cls, session: Session, plan: Plan) -> Progress:
        """For the next workload of the session."""
        return cls(plan, journal_of(session), Screen(session.config))

    # --- what the experiment tells -----------------------------------------------------------------------------------

    def note(self, text: str) -> None:
        """Something a person waiting should know."""
        self._journal.append("note", {"text": text})
        self._screen.line(f"ipperf: {text}")

    def epoch(self, number: int, service: Service, paths: Mapping[Arm, Mapping[str, Any]], hosts: Any) -> None:
        """An epoch stands."""
        self._service = str(service)
        facts = {
            "epoch": number, "server": str(service), "resolver": service.resolver,
            "paths": {str(arm): f for arm, f in paths.items()},
        }  # fmt: skip
        self._journal.append("epoch", {"workload": str(self._plan.workload), **facts, "fingerprint": hosts})

    def run(self, run: Run, receipt: Receipt) -> None:
        """A run is done: its samples first, so that a line never points to what is not there."""
        offset = self._journal.append_samples(receipt.samples.tobytes())
        facts = {
            "workload": str(self._plan.workload), "arm": str(run.arm), "epoch": run.epoch, "block": run.block,
            "slot": run.slot, "warmup": run.warmup, "started_at": run.started_at, "attempted": run.attempted,
            "failed": dict(run.failed), "values": dict(run.values), "facts": dict(run.facts), "notes": run.notes,
            "columns": receipt.columns, "rows": receipt.rows, "offset": offset,
            "proof": dict(receipt.proof), "contradictions": receipt.contradictions, "unsettled": receipt.unsettled,
            "client": run.client,
        }  # fmt: skip
        self._journal.append("run", facts)
        for role, packets in receipt.captures.items():
            name = f"captures/{self._plan.workload}-{run.arm}-{role}.pcap"
            self._journal.keep_more(name, packets, head_bytes=HEAD_BYTES)
        self._done += 1
        plan = self._plan
        left = (time.monotonic() - self._began) / self._done * (self._planned - self._done)
        look = f"  look {self._look + 1}/{plan.looks}" if plan.looks > 1 else ""
        self._screen.status(
            f"  {plan.workload}{look}  epoch {run.epoch + 1}/{plan.epochs_by(self._look + 1)}"
            f"  run {self._done}/{self._planned}"
            f"  {run.arm} {_value_text(run)}  {seconds_text(left)} left"
        )

    def floor(self, arm: Arm, value_s: float | None, receipt: Receipt) -> None:
        """An arm's floor was measured."""
        facts = {"workload": str(self._plan.workload), "arm": str(arm), "value": value_s, "rows": receipt.rows}
        offset = self._journal.append_samples(receipt.samples.tobytes())
        told = {"offset": offset, "attempted": receipt.attempted, "failed": dict(receipt.failed)}
        proof = {"proof": dict(receipt.proof), "contradictions": receipt.contradictions}
        self._journal.append("floor", {**facts, **told, **proof})

    def logs(self, number: int, logs: Mapping[str, str]) -> None:
        """The servers' logs; that they cannot be kept must not hide what they are kept for."""
        for server, text in logs.items():
            with contextlib.suppress(LabError):
                self._journal.keep(f"logs/{self._plan.workload}-epoch{number}-{server}.log", text.encode())

    def look(
        self, number: int, answers: Mapping[Arm, Mapping[Question, Judgement]], going_on: Collection[Arm], stopped: str
    ) -> None:
        """A look was taken. What goes on is told as it costs a person's time; the verdicts are told by the items."""
        plan, epochs = self._plan, self._plan.epochs_by(number + 1)
        verdicts = {
            str(arm): {str(question): answer.verdict.name.lower() for question, answer in found.items()}
            for arm, found in answers.items()
        }
        facts = {
            "workload": str(plan.workload), "look": number + 1, "looks": plan.looks, "epochs": epochs,
            "verdicts": verdicts, "going_on": [str(arm) for arm in going_on], "stopped": stopped,
        }  # fmt: skip
        self._journal.append("look", facts)
        if going_on:
            self._look = number + 1
            self._planned = self._done + plan.runs_of(plan.look(number + 1), going_on)
            names = ", ".join(str(arm) for arm in going_on if arm in answers)
            self._screen.line(
                f"  {plan.workload}: undecided at look {number + 1} of {plan.looks}: {names}; measuring on"
            )

    def broke_off(self, sentence: str) -> None:
        """The measurement ended in trouble, which the item tells."""
        self._screen.line(f"  broke off {self._plan.workload} after {self._done} of {self._planned} runs: {sentence}")
        with contextlib.suppress(LabError):  # of a full disk: what came first is what the item tells
            self._journal.append("broken", {"workload": str(self._plan.workload), "sentence": sentence})

    def ended(self) -> None:
        """The measurement is complete."""
        took, plan = seconds_text(time.monotonic() - self._began), self._plan
        looks = f", {self._look + 1} of {plan.looks} looks" if plan.looks > 1 else ""
        self._screen.line(f"  measured {plan.workload}: {self._done} runs in {took}{looks}, server {self._service}")


def _value_text(run: Run) -> str:
    """The first of a run's figures."""
    name, value = next(iter(run.values.items()))
    return "-" if value is None else quantity_text(value, METRICS[name].metric.unit)


class Screen:
    """What a person sees while an item is set up; a worker of xdist has none, and -q wants none."""

    def __init__(self, config: pytest.Config) -> None:
        self._reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
        self._capture: Any = config.pluginmanager.get_plugin("capturemanager")
        self._silent = self._reporter is None or config.get_verbosity() < 0

    def status(self, text: str) -> None:
        """A line that the next one replaces; only where a terminal can do that."""
        if not self._silent and self._reporter.isatty:
            width = self._reporter._tw.fullwidth  # noqa: SLF001 - pytest has no public way to the width
            self._show(lambda: self._reporter.rewrite(text[: width - 1], erase=True))

    def line(self, text: str) -> None:
        """A line that stays."""
        if not self._silent:
            self._show(lambda: self._write_line(text))

    def _write_line(self, text: str) -> None:
        if self._reporter.isatty:
            self._reporter.rewrite("", erase=True)
        if self._reporter.verbosity > 0:
            self._reporter.write_line(text)  # after which pytest repeats the item's name before its outcome
            return
        # Without -v pytest would repeat the name of the test file for each item.
        writer = self._reporter._tw  # noqa: SLF001 - pytest has no public way round its memory of the file
        if writer.width_of_current_line:
            writer.line()
        writer.line(text)

    def _show(self, write: Callable[[], None]) -> None:
        with self._capture.global_and_fixture_disabled() if self._capture else contextlib.nullcontext():
            write()
            self._reporter.flush()  # who follows a log file would read it with the outcome only
