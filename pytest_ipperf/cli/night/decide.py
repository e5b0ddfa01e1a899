"""Decide a night from the records of its sessions, of earlier nights and of what was accepted.

All of it is on the disk, so that a night can be decided once more at any time, with the same result.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pytest_ipperf.core.nightly.gate import decide
from pytest_ipperf.core.nightly.report import GateStatus, NightReport
from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.core.portable.errors import DamageError
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.store import LOST, Archive, acceptances, read_session_summary

_FAILED = 1
_OTHERWISE = (
    "it ended with status 1, for a test that measures nothing or by --ipperf-inconclusive=fail; its output says"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NightDecision:
    """A night's report, with the summaries of its screening, which holds it, and of its fresh session if it had one."""

    report: NightReport
    summary: SessionSummary
    fresh: SessionSummary | None


_VERDICT = "verdict"


def decide_night(
    archive: Archive,
    screening: Path,
    fresh: Path | None,
    *,
    saved: str,
    baseline: str,
    lost: str = "",
    troubles: Mapping[str, str] | None = None,
) -> NightDecision:
    """What a night found whose sessions lie in these folders; it has the name `saved`.

    Compared is with the earlier nights of the name `baseline`. What was accepted by the end of the night counts. `lost`
    says that an answer could not be kept, which its sessions cannot know; `troubles` are further ones. DamageError
    where not all of its own sessions can be read; of earlier ones a warning says what had to be left out.
    """
    summary = read_session_summary(screening)
    again = read_session_summary(fresh) if fresh else None
    for each in (summary, again):
        if each is not None and each.status is None and not lost:
            raise DamageError(
                f"session {each.name} has no end, so that no night can be decided of it; measure it again"
            )
    began = dt.datetime.fromtimestamp(summary.began_at, dt.UTC)
    ended_at = max(each.began_at + (each.seconds or 0) for each in (summary, again) if each)
    before = archive.last_night(saved, before=screening.name)
    report = decide(
        screen=summary.records,
        fresh=again.records if again else (),
        expected=before.cells if before else (),
        histories=archive.nights(screening.name, saved=baseline),
        accepted=acceptances(archive.root, by=ended_at),
        today=began.date(),
        troubles={**_troubles(summary, again), **({LOST: lost} if lost else {}), **(troubles or {})},
        metric_of=lambda name: METRICS[name].metric,
    )
    left_out = [f"left out of the history: {each}" for each in archive.damage(saved=baseline, before=screening.name)]
    report = replace(report, warnings=(*report.warnings, *left_out))
    histories = archive.histories(screening.name, saved=baseline)
    return NightDecision(report=report, summary=replace(summary, histories=histories, night=report), fresh=again)


def decide_again(archive: Archive, screening: Path, verdict: Mapping[str, Any]) -> NightDecision:
    """Decide a night again, by the arguments in its stored verdict.

    Where the result is another one, the records are not what they were, and that is trouble of the night.
    """
    fresh = verdict.get("fresh_session")
    saved, said = verdict["saved"], {each["nodeid"]: each["sentence"] for each in verdict.get("troubles", ())}
    again = partial(
        decide_night,
        archive,
        screening,
        archive.root / "runs" / fresh if fresh else None,
        saved=saved,
        baseline=verdict.get("baseline") or saved,
        lost=said.get(LOST, ""),
    )
    found = again()
    then = {(each["cell"], each["metric"]): each["ruling"] for each in verdict["cells"]}
    now = {(each.key.cell, each.key.metric): each.decision.name.lower() for each in found.report.cells}
    if found.report.gate_status == verdict["status"] and then == now:
        return found
    before, after = GateStatus(verdict["status"]).word, found.report.gate_status.word
    other = sum(then.get(cell) != now.get(cell) for cell in then.keys() | now.keys())
    sentence = (
        f"night {screening.name} ended as {before}, and what is kept of it gives {after} now, with another ruling of "
        f"{other} of its cells: earlier nights, what was accepted, or the rules are not what they were then"
    )
    return again(troubles={_VERDICT: sentence})


def _troubles(screening: SessionSummary, fresh: SessionSummary | None) -> dict[str, str]:
    """What the budget left out is no trouble: the gate reports that it is missing, or that it has no fresh data."""
    both = [*screening.troubles, *(fresh.troubles if fresh else ())]
    found = {each.nodeid: each.sentence for each in both if each.kind != "inconclusive"}
    if screening.status == _FAILED and not found:
        return {"pytest": _OTHERWISE}
    return found
