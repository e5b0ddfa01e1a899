"""Pool the runs of several nights that lost a connection; they inform about rare outages and decide nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

_ALPHA = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCount:
    """Runs of a cell's arm without warm-ups, over all `nights`, and those of them in which a connection failed."""

    runs: int
    hit: int
    nights: int


def missed_share(runs: int) -> float:
    """Return the largest share (0..1) of runs that an outage may hit if none of `runs` was hit, at 95 %.

    It assumes nothing about an outage but that it hits runs independently: 1 - 0.05 ** (1 / runs).
    """
    return -math.expm1(math.log(_ALPHA) / runs)


def outage_sentence(counts: Mapping[str, RunCount]) -> str:
    """Return the sentence about the runs of all cells, by cell; empty if there are none."""
    counted = {cell: each for cell, each in counts.items() if each.runs}
    if not counted:
        return ""
    runs, hit = sum(each.runs for each in counted.values()), sum(each.hit for each in counted.values())
    nights = max(each.nights for each in counted.values())
    cells = "" if len(counted) == 1 else f" of {len(counted)} cells"
    found = f"{hit} of {runs} runs{cells} over {nights} night{'s' * (nights != 1)} lost a connection"
    if hit:
        worst = max(counted, key=lambda cell: counted[cell].hit / counted[cell].runs)
        found += f", most in {worst} ({counted[worst].hit} of {counted[worst].runs})"
    if not (spared := [each.runs for each in counted.values() if not each.hit]):
        return found
    missed = f"an outage that hits fewer than {100 * missed_share(min(spared)):.2g} % of"
    if len(counted) == 1:
        return f"{found}: {missed} runs can have been missed"
    return f"{found}: in a cell without one, {missed} its runs can have been missed"
