"""Say what the verdicts of a session cannot tell: wrong ones among many cells, and rare outages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pytest_ipperf.core.records.record import Record

_JUDGED = ("within", "exceeds", "inconclusive")
_OF_ALL_LOOKS = 0.05
"""Joint error rate of several looks, at the truth equal to the margin."""
_MISSED = 0.05
"""Probability that no run of a session is hit by the outage whose share the note gives."""


def multiplicity(records: Iterable[Record]) -> str:
    """Return the sentence about cells that are judged alone; empty for less than two judged cells."""
    levels = {
        record.key: _OF_ALL_LOOKS if record.looks > 1 else record.alpha
        for record in records
        if record.judges and not record.twin and record.verdict in _JUDGED
    }
    if len(levels) < 2:
        return ""
    level, some = max(levels.values()), 1.0
    for each in levels.values():
        some *= 1 - each
    share = 100 * (1 - some)
    shown = f"{share:.2g}" if share < 99 else f"{share:.3g}"
    return (
        f"{len(levels)} cells, each judged alone at {100 * level:.3g} %: if all were just at their margins, expect "
        f"{sum(levels.values()):.2g} to exceed wrongly, and at least one in {shown} % of such sessions; "
        "--ipperf-confirm=yes measures cells that exceed again, in fresh epochs"
    )


def outage_notes(records: Sequence[Record]) -> list[str]:
    """Return the note on outages that hit too few runs to be seen, under designs that judge.

    No outage in n runs leaves shares of hit runs up to 1 - 0.05^(1/n) possible, whatever their distribution.
    """
    runs = min((len(record.test.values) for record in records if record.judges), default=0)
    if not runs:
        return []
    share = 1 - _MISSED ** (1 / runs)
    return [f"{runs} runs: an outage that hits fewer than {100 * share:.2g} % of runs can have been missed."]
