"""Say what to do next about a session: the command that continues, decides, confirms or looks closer."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from pytest_ipperf.core.nightly.report import RED, NightReport
from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.report.answer.names import Names
from pytest_ipperf.report.answer.sentence import worse_by
from pytest_ipperf.report.answer.slower_phase import slower_phase
from pytest_ipperf.report.flow.tables import answered

_SETTINGS = ("--design", "--ipperf-design")
_OF_ONE_SESSION = (
    *_SETTINGS, "--ipperf-resume", "--ipperf-seed", "--ipperf-save", "--ipver", "--transport", "--allure", "--junit",
    "--basetemp", "--ipperf-exceeds", "--ipperf-outcome",
)  # fmt: skip
"""Beginnings of the options that a repetition of one cell leaves out."""


def look_closer(summary: SessionSummary) -> str:
    """Return where to look at the worst confirmed cell, as a sentence without its full stop; empty without one."""
    worse = _confirmed(summary)
    if not worse or not summary.completeness.is_whole:
        return ""
    worst = max(worse, key=worse_by)
    which = f"the worst of {len(worse)} worse cells, " if len(worse) > 1 else ""
    name = f"{which}{Names(summary.records).cell(worst)}"
    found, where = slower_phase(worst)
    if not found:
        return f"Look closer at {name}: its card has its runs and failures, and the command that measures it again"
    captured = any(each.startswith("--ipperf-capture") for each in _given(summary))
    return f"Look closer at {name}: {found}; look at {where}{', then at the captures' * captured}"


def _confirmed(summary: SessionSummary) -> list[Record]:
    """Return the records of the cells whose excess fresh epochs have confirmed."""
    if summary.night is not None:
        return [cell.record for cell in summary.night.with_decision(*RED) if cell.record and not cell.is_beside]
    if not summary.question.get("confirm"):
        return []
    return [record for record in answered(summary.records) if record.verdict == "exceeds" and not record.twin]


def next_step(summary: SessionSummary) -> str:
    """Return the next step as a sentence with its command; empty if there is none."""
    if not summary.completeness.is_whole:
        resume = summary.completeness.resume
        return f"Measure the rest: pytest {_arguments(summary)} --ipperf-resume={resume}".rstrip() if resume else ""
    if summary.night is not None:
        return _after_a_night(summary.night)
    verdicts = {record.verdict for record in answered(summary.records) if not record.twin}
    if "exceeds" in verdicts and not summary.question.get("confirm"):
        return f"Confirm what exceeds in fresh epochs: pytest {_arguments(summary)} --lf --ipperf-confirm=yes"
    if "inconclusive" in verdicts:
        return f"Decide the rest with more epochs: pytest {_arguments(summary)} --lf --design=standard"
    if verdicts and verdicts <= {"unjudged"}:
        return f"Get a verdict: pytest {_arguments(summary)} --design=quick"
    return ""


def _after_a_night(night: NightReport) -> str:
    """Return what to do about the first worse cell of a night."""
    worse = night.with_decision(*RED)
    if not worse:
        return ""
    accept = f"pytest-ipperf accept {shlex.quote(worse[0].key.cell)} --reason TEXT"
    return f"Repeat a cell by the command in its card, or accept a change that is meant to stay: {accept}"


def reproduce_command(record: Record, summary: SessionSummary) -> str:
    """Return the command that measures one cell again, in the same order of runs; empty without a node id."""
    if not record.nodeid:
        return ""
    kept = [each for each in _given(summary) if each.startswith("--") and "=" in each]
    kept = [each for each in kept if not each.startswith(_OF_ONE_SESSION)]
    own = [f"--design={record.design}", f"--ipperf-seed={record.seed}"]
    return shlex.join(["pytest", record.nodeid, *kept, *own])


def _arguments(summary: SessionSummary) -> str:
    left = [each for each in _given(summary) if not each.startswith((*_SETTINGS, "--ipperf-resume"))]
    return shlex.join(left)


def _given(summary: SessionSummary) -> list[str]:
    """Return the session's arguments, options with their values as one."""
    given: Iterable[object] = summary.question.get("arguments") or ()
    return [str(each) for each in given]
