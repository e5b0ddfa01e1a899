"""Observe the measurement of a workload: write it to the journal, show its progress and the time left."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any
from zlib import crc32

from pytest_ipperf.agent.paths.capture import HEAD_BYTES
from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.plan import Plan
from pytest_ipperf.core.design.question import Question
from pytest_ipperf.core.inference.verdict import Judgement
from pytest_ipperf.core.measurement.run import Run
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.lab.runs.result import RunResult, ServerEndpoint
from pytest_ipperf.plugin.display.progress_text import ProgressText, SessionPosition
from pytest_ipperf.plugin.display.screen import Screen
from pytest_ipperf.plugin.session.journal import begun_facts, journal_of
from pytest_ipperf.plugin.session.plan_text import plan_data
from pytest_ipperf.plugin.session.session import Session
from pytest_ipperf.store import EventLog, StoredWorkload
from pytest_ipperf.store.log.checksum import KEY

_OF_A_LINE = frozenset({"event", "at", KEY})


class Progress:
    """The observer of one workload; it rewrites one line on a terminal, and elsewhere writes one at the end."""

    def __init__(
        self,
        plan: Plan,
        journal: EventLog,
        screen: Screen,
        facts: Mapping[str, Any],
        position: SessionPosition | None = None,
    ) -> None:
        self._plan = plan
        self._journal = journal
        self._screen = screen
        self._text = ProgressText(plan, time.monotonic(), position)
        facts = {"workload": plan.name, "seed": plan.seed, "order": plan_data(plan), **facts}
        journal.append("workload", {**facts, "confirms": True} if plan.confirms else facts)
        if line := self._text.begun():
            screen.line(line)

    @classmethod
    def of(cls, session: Session, plan: Plan, state: ServerState) -> Progress:
        """Return the observer of the session's next workload."""
        facts = begun_facts(session, plan.workload, state)
        return cls(plan, journal_of(session), Screen(session.config), facts, _position(session, plan))

    def keep(self, found: StoredWorkload, session: str) -> None:
        """Copy what an earlier session has recorded of the workload, as this one goes on with it."""
        self.note(f"{self._plan.workload} goes on after the {len(found.runs)} runs of session {session}")
        for epoch in found.epochs:
            self._copy("epoch", epoch)
        for run, samples in zip(found.runs, found.samples(), strict=True):
            self._copy("run", {**run, "offset": self._journal.append_samples(samples.tobytes())})
        for cost in found.baseline_costs:
            self._copy("floor", {**cost, "rows": 0, "offset": 0})  # nothing reads its samples
        for kind, facts in found.others:
            self._copy(kind, facts)
        self._text.keep(Counter(run["epoch"] for run in found.runs))

    def _copy(self, kind: str, facts: Mapping[str, Any]) -> None:
        self._journal.append(kind, {name: value for name, value in facts.items() if name not in _OF_A_LINE})

    # --- what the experiment reports --------------------------------------------------------------------------------

    def note(self, text: str) -> None:
        """Record a note and show it to the user."""
        self._journal.append("note", {"text": text})
        self._screen.line(f"ipperf: {text}")

    def rebooted(self, number: int, hosts: Mapping[str, float]) -> None:
        """Record that the hosts were rebooted, with the seconds that each took."""
        facts = {"workload": self._plan.name, "epoch": number, "seconds": dict(hosts)}
        self._journal.append("reboot", facts)

    def epoch(
        self,
        number: int,
        service: ServerEndpoint,
        paths: Mapping[Arm, Mapping[str, Any]],
        hosts: Any,
        backends: Mapping[str, str],
    ) -> None:
        """Record an epoch that has started: its server, network paths and hosts."""
        self._text.epoch_started(str(service))
        facts = {
            "epoch": number, "server": str(service), "resolver": service.resolver, "service": service,
            "backends": dict(backends), "paths": {str(arm): f for arm, f in paths.items()},
        }  # fmt: skip
        self._journal.append("epoch", {"workload": self._plan.name, **facts, "fingerprint": hosts})

    def counters(self, number: int, when: str, hosts: Mapping[str, Mapping[str, Any]]) -> None:
        """Record the hosts' interface counters."""
        facts = {"workload": self._plan.name, "epoch": number, "when": when, "hosts": hosts}
        self._journal.append("counters", facts)

    def run(self, run: Run, result: RunResult) -> None:
        """Record a finished run; its samples are written first, so that the event never refers to missing ones."""
        packed = result.data.samples.tobytes()
        offset = self._journal.append_samples(packed)
        facts = {
            "workload": self._plan.name, "arm": str(run.arm), "epoch": run.epoch, "block": run.block,
            "slot": run.slot, "warmup": run.warmup, "started_at": run.started_at, "began_at": run.began_at,
            "took_s": run.took_s, "drain_s": result.drain_s, "finish_s": result.finish_s, "attempted": run.attempted,
            "failed": dict(run.failed), "values": dict(run.values), "facts": dict(run.facts), "notes": run.notes,
            "columns": result.data.columns, "rows": result.data.row_count,
            "offset": offset, "samples_crc32": crc32(packed),
            "proof": dict(result.proof), "contradictions": result.violations, "unsettled": result.unsettled,
            "client": run.client,
        }  # fmt: skip
        self._journal.append("run", facts)
        for role, packets in result.captures.items():
            name = f"captures/{self._plan.name}-{run.arm}-{role}.pcap"
            self._journal.append_file(name, packets, head_bytes=HEAD_BYTES)
        self._screen.status(self._text.run_done(time.monotonic(), str(run.arm), run.epoch, run.values))

    def baseline_cost(self, arm: Arm, value_s: float | None, result: RunResult) -> None:
        """Record the baseline cost of an arm."""
        facts = {"workload": self._plan.name, "arm": str(arm), "value": value_s, "rows": result.data.row_count}
        offset = self._journal.append_samples(result.data.samples.tobytes())
        counts = {"offset": offset, "attempted": result.data.attempted, "failed": dict(result.data.failed)}
        proof = {"proof": dict(result.proof), "contradictions": result.violations}
        self._journal.append("floor", {**facts, **counts, **proof})

    def logs(self, number: int, logs: Mapping[str, str]) -> None:
        """Keep the servers' logs; a failure to write them must not hide the error that they document."""
        for server, text in logs.items():
            with contextlib.suppress(LabError):
                self._journal.write_file(f"logs/{self._plan.name}-epoch{number}-{server}.log", text.encode())

    def look(
        self, number: int, answers: Mapping[Arm, Mapping[Question, Judgement]], going_on: Collection[Arm], stopped: str
    ) -> None:
        """Record a look, and show the arms that are measured on, as they take time; the items show the verdicts."""
        plan, epochs = self._plan, self._plan.epochs_by(number + 1)
        verdicts = {
            str(arm): {str(question): answer.verdict.name.lower() for question, answer in found.items()}
            for arm, found in answers.items()
        }
        facts = {
            "workload": plan.name, "look": number + 1, "looks": plan.looks, "epochs": epochs,
            "verdicts": verdicts, "going_on": [str(arm) for arm in going_on], "stopped": stopped,
        }  # fmt: skip
        self._journal.append("look", facts)
        undecided = [str(arm) for arm in going_on if arm in answers]
        if line := self._text.look_done(number, undecided, going_on):
            self._screen.line(line)

    def time(self, seconds: Mapping[str, float], epoch: int | None = None) -> None:
        """Record the seconds by activity; a failure to write them must not hide the error of a measurement."""
        place = {"workload": self._plan.name} if epoch is None else {"workload": self._plan.name, "epoch": epoch}
        with contextlib.suppress(LabError):
            self._journal.append("time", {**place, "seconds": dict(seconds)})

    def broke_off(self, sentence: str) -> None:
        """Record that the measurement failed; the item reports the error."""
        self._screen.line(self._text.broke_off(sentence))
        with contextlib.suppress(LabError):  # such as a full disk: the item reports the first error
            self._journal.append("broken", {"workload": self._plan.name, "sentence": sentence})

    def ended(self) -> None:
        """Show that the measurement is complete."""
        self._screen.line(self._text.ended(time.monotonic()))


def _position(session: Session, plan: Plan) -> SessionPosition | None:
    """Return the position of a workload among those that the session measures; None for one alone, or fresh epochs."""
    planned, measured, own = session.planned, session.measured, session.total_of(plan)
    if planned.plans < 2 or plan.confirms:
        return None
    return SessionPosition(
        number=measured.plans + 1,
        count=planned.plans,
        runs_before=measured.runs,
        runs_after=planned.runs - measured.runs - own.runs,
        forecast_s=own.seconds,
        later_s=max(0.0, planned.seconds - measured.seconds - own.seconds),
    )
