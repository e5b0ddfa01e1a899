"""Decide a night from the records of its sessions, from earlier nights and from acceptances.

All of these are on disk, so that a night can be decided again at any time, with the same result.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pytest_ipperf.core.nightly.gate import decide
from pytest_ipperf.core.nightly.outages import RunCount, outage_sentence
from pytest_ipperf.core.nightly.report import GateDecision, GateStatus, NightReport
from pytest_ipperf.core.nightly.session_summary import UNEXPLAINED, WHOLE_SESSION, SessionSummary
from pytest_ipperf.core.portable.errors import DamageError
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.store import LOST, Archive, StoredNight, acceptances, read_session_summary

_FAILED = 1
_NAMED = 5
_WELL = {GateDecision.WITHIN, GateDecision.ACCEPTED}


@dataclass(frozen=True, slots=True, kw_only=True)
class NightDecision:
    """A night's report, the summary of its screening, which contains the report, and that of its fresh session."""

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
    """Decide the night `saved`, whose sessions lie in these folders.

    It is compared with the earlier nights of the name `baseline`; acceptances made by its end count. `lost` is the
    message that an answer could not be kept, which the records cannot contain, and `troubles` are further ones.
    Raise DamageError if its own sessions cannot be read completely; unreadable earlier ones become warnings.
    """
    summary = read_session_summary(screening)
    again = read_session_summary(fresh) if fresh else None
    for each in (summary, again):
        if each is not None and each.status is None and not lost:
            raise DamageError(f"session {each.name} has no end, so its night cannot be decided; measure it again")
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
    notes = filter(None, [outage_sentence(_run_counts(archive, summary, baseline))])
    asked = [*_left_by_budget(summary), *_margins_not_asked(report, before)]
    report = replace(report, warnings=(*report.warnings, *asked, *left_out), notes=tuple(notes))
    histories = archive.histories(screening.name, saved=baseline)
    return NightDecision(report=report, summary=replace(summary, histories=histories, night=report), fresh=again)


def _left_by_budget(screening: SessionSummary) -> list[str]:
    """Return a sentence about the items for which the budget left no time, which are no cells of the night."""
    left = sorted(each.nodeid for each in screening.troubles if each.kind == "inconclusive")
    if not left:
        return []
    return [f"not measured, as --ipperf-budget was spent: {len(left)} item{'s' * (len(left) > 1)}: {_names(left)}"]


def _margins_not_asked(report: NightReport, before: StoredNight | None) -> list[str]:
    """Return a sentence about cells that are well by other margins than all those that the last night asked of them."""
    found: dict[tuple[str, str], set[GateDecision]] = {}
    asked = set()
    for each in (*report.cells, *report.quiet):
        if each.screen is not None:
            found.setdefault((each.key.cell, each.key.metric), set()).add(each.decision)
            asked.add((each.key.cell, each.key.metric, each.screen.margin))
    well = {name for name, decisions in found.items() if decisions <= _WELL}
    gone = sorted(each for each in (before.margins if before else ()) if each not in asked and each[:2] in well)
    if not gone:
        return []
    named = _names([f"{cell} {metric} ({margin})" for cell, metric, margin in gone])
    return [f"margins that the last night asked and this one did not: {len(gone)}: {named}"]


def _names(items: Sequence[str]) -> str:
    more = len(items) - _NAMED
    return ", ".join(items[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _run_counts(archive: Archive, screening: SessionSummary, baseline: str) -> dict[str, RunCount]:
    """Return the runs over the nights of the cells whose runs count failed connections, without twins."""
    found = archive.run_counts(screening.name, saved=baseline)
    counting = {
        record.cell
        for record in screening.records
        if not record.twin and PROTOCOLS[record.protocol].kind.counts_failures
    }
    return {cell: found[cell] for cell in sorted(counting & found.keys())}


def decide_again(archive: Archive, screening: Path, verdict: Mapping[str, Any]) -> NightDecision:
    """Decide a night again, with the arguments in its stored verdict.

    A different result means that the records have changed, and is a trouble of the night.
    """
    fresh = verdict.get("fresh_session")
    saved, sentences = verdict["saved"], {each["nodeid"]: each["sentence"] for each in verdict.get("troubles", ())}
    again = partial(
        decide_night,
        archive,
        screening,
        archive.root / "runs" / fresh if fresh else None,
        saved=saved,
        baseline=verdict.get("baseline") or saved,
        lost=sentences.get(LOST, ""),
    )
    found = again()
    then = {(each["cell"], each["metric"]): each["ruling"] for each in verdict["cells"]}
    # Verdicts of earlier versions do not list tails and limits that were well.
    unlisted = {(each.key.cell, each.key.metric) for each in found.report.quiet} - then.keys()
    reports = (*found.report.cells, *found.report.quiet)
    ruled = {(each.key.cell, each.key.metric): each.decision.name.lower() for each in reports}
    now = {name: ruling for name, ruling in ruled.items() if name not in unlisted}
    if found.report.gate_status == verdict["status"] and then == now:
        return found
    before, after = GateStatus(verdict["status"]).word, found.report.gate_status.word
    other = sum(then.get(cell) != now.get(cell) for cell in then.keys() | now.keys())
    sentence = (
        f"night {screening.name} ended as {before}, but its records now give {after}, with another ruling of "
        f"{other} of its cells: earlier nights, acceptances or the rules have changed since"
    )
    return again(troubles={_VERDICT: sentence})


def _troubles(screening: SessionSummary, fresh: SessionSummary | None) -> dict[str, str]:
    """Return the troubles by node id, without items that the budget left out, of which a warning tells."""
    again = [each for each in fresh.troubles if each.nodeid != WHOLE_SESSION] if fresh else []
    both = [*screening.troubles, *again]
    found = {each.nodeid: each.sentence for each in both if each.kind != "inconclusive"}
    if screening.status == _FAILED and not found:
        return {WHOLE_SESSION: UNEXPLAINED}  # cells that are only flagged do not explain it
    return found
