"""Say since when a cell is worse, from its results in earlier sessions of the same name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pytest_ipperf.core.inference.effect import percent_of_log, percent_text
from pytest_ipperf.core.nightly.report import GateDecision
from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.core.records.history_entry import HistoryEntry, commit_of
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.report.answer.words import day_text

_WITHIN, _EXCEEDS = "within", "exceeds"
_DIGITS = 12
"""Number of digits of a commit that are shown, as many as git shows in large repositories."""
_JUDGED = (_WITHIN, _EXCEEDS, "inconclusive")


class _Words(NamedTuple):
    """Words for a session, for this one, and for what a worse cell is."""

    session: str
    now: str
    worse: str


def since_text(record: Record, summary: SessionSummary, decision: GateDecision | None = None) -> str:
    """Return since when a worse cell is worse, as a sentence without its full stop; `decision` is that of a night.

    It is worse since the first of the sessions that found it worse after the last one that found it within its margin.
    Sessions that judged nothing are passed over.
    """
    past = [each for each in summary.histories.get(record.key, ()) if each.verdict in _JUDGED]
    if not past:
        return _unknown(record, summary)
    worse = "worse than its history" if decision is GateDecision.WORSE else "beyond its margin"
    at = commit_text(commit_of(summary.question))
    now = f"{'tonight' if summary.night else 'in this session'}{f' (at {at})' if at else ''}"
    words = _Words("night" if summary.night else "session", now, worse)
    bad = [_was_worse(each, decision) for each in past]
    well = max((at for at, each in enumerate(past) if each.verdict == _WITHIN and not bad[at]), default=-1)
    since = bad.index(True, well + 1) if any(bad[well + 1 :]) else len(past)
    before = past[since - 1] if since else None
    digest = past[since].fingerprint if since < len(past) else record.fingerprint
    return "; ".join(
        filter(
            None,
            (
                _beginning(past, bad, (well, since), words),
                _last_well(record, past, well, words.session),
                "the hosts or the server changed with it" if before and _differ(before.fingerprint, digest) else "",
            ),
        )
    )


def commit_text(commit: str) -> str:
    """Return a commit in short: `commit 4f2a91c7b0de-dirty`; empty if it is unknown."""
    name, dash, dirty = commit.partition("-")
    return f"commit {name[:_DIGITS]}{dash}{dirty}" if commit else ""


def _beginning(past: Sequence[HistoryEntry], bad: Sequence[bool], bounds: tuple[int, int], words: _Words) -> str:
    """Return since when it was found worse; `bounds` are the last session that found it well, and that beginning."""
    well, since = bounds
    if since == len(past):
        # Sessions that found neither may have been as bad as this one.
        return f"{'new' if well == len(past) - 1 else f'first found {words.worse}'} {words.now}"
    found, count = sum(bad[since:]), len(past) - since
    share = f"{f'{found} of' if found < count else 'each of'} the last {count} {words.session}s"
    times = f", and so in {share}" if count > 1 else ""
    return f"{words.worse} since {_named(past[since], words.session)}{times}"


def _last_well(record: Record, past: Sequence[HistoryEntry], well: int, word: str) -> str:
    """Return the last session that did not find the cell worse, with its change; or that none is known."""
    if well < 0:
        return f"no earlier {word} found it within its margin"
    return f"{_named(past[well], word)} did not find it worse ({_change(record, past[well])})"


def _was_worse(entry: HistoryEntry, decision: GateDecision | None) -> bool:
    """Return whether a session found the cell worse; a cell that a night only flagged it did not find worse."""
    if decision is GateDecision.WORSE:
        return not entry.sound
    flagged = decision is GateDecision.EXCEEDS and entry.sound
    return entry.verdict == _EXCEEDS and not flagged


def _named(entry: HistoryEntry, word: str) -> str:
    return (
        f"{word} {entry.session} ({day_text(entry.began_at)}{f', {at}' if (at := commit_text(entry.commit)) else ''})"
    )


def _change(record: Record, entry: HistoryEntry) -> str:
    if entry.change is None:
        return "no change known"
    ratio = METRICS[record.metric].metric.scale == "ratio"
    change = f"{percent_text(percent_of_log(entry.change) if ratio else 100 * entry.change)} {record.change_unit}"
    then, now = (f"{100 * (each.margin_fraction or 0.0):.3g}" for each in (entry, record))
    return change if then == now else f"{change}, then allowed {then} {record.change_unit}"


def _differ(before: str, after: str) -> bool:
    return bool(before and after) and before != after


def _unknown(record: Record, summary: SessionSummary) -> str:
    """Return how to get a history, or that it begins with this session."""
    if summary.saved:
        return f"this is the first session named {summary.saved} that measured it"
    return (
        "unknown, as this session has no name: --ipperf-save=NAME keeps a history on the page; "
        f"pytest-ipperf show {record.cell} lists all sessions that measured it, and pytest-ipperf compare last "
        "compares with the session before"
    )
