"""Say in which phase of a connection a worse cell lost its time, from the medians of its phases."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise

from pytest_ipperf.core.portable.units import quantity_text
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.protocols.base import PHASES
from pytest_ipperf.report.answer.words import listed
from pytest_ipperf.report.tables.component_rows import deciding_part

_RESOLVED, _CONNECTED, _ANSWERED, _DONE = PHASES[1:5]
_STEPS = {
    _RESOLVED: (_RESOLVED, f"{_RESOLVED} took", "the resolver"),
    _CONNECTED: (_CONNECTED, f"{_CONNECTED} took", "the path and the server's queue of connections"),
    _ANSWERED: ("first byte", "the first byte came", "the server"),
    _DONE: ("the rest", "what follows the first byte took", "the server's later answers and the transfer"),
}
"""Name of each phase, how a sentence about it begins, and where to look; in the order of a connection."""
_MOST = 0.5
"""Smallest share of the time lost that a phase has to have to be named."""
_ALIKE = 0.1
"""Largest change of another phase, as a share of the named one's, that is no change in the words of the sentence."""


def slower_phase(record: Record) -> tuple[str, str]:
    """Return a sentence on the phase that took the time, and where to look; both empty if the phases do not say it.

    Phases are medians since the start of a connection, so that a phase's own time is that since the one before.
    """
    metric = METRICS[record.metric].metric
    if not record.compared or metric.unit != "s" or deciding_part(record).metric != record.metric:
        return "", ""
    reference, test = _own_times(record.reference.phases), _own_times(record.test.phases)
    later = {name: test[name] - reference[name] for name in reference if name in test}
    lost = sum(later.values())
    worst = max(later, key=lambda name: later[name], default="")
    if not worst or not math.isfinite(lost) or lost <= 0 or later[worst] < _MOST * lost:
        return "", ""
    alike = [_STEPS[name][0] for name in later if abs(later[name]) <= _ALIKE * later[worst]]
    others = f", {listed(alike)} took about as long" if alike else ""
    much = quantity_text(later[worst], "s")
    how = f"{much} later" if worst == _ANSWERED else f"{much} longer"
    return f"{_STEPS[worst][1]} {how}{others}", _STEPS[worst][2]


def _own_times(phases: Mapping[str, float]) -> dict[str, float]:
    """Return the time of each phase alone, in seconds."""
    known = [name for name in _STEPS if name in phases]
    firsts = {known[0]: phases[known[0]]} if known else {}
    return firsts | {name: phases[name] - phases[before] for before, name in pairwise(known)}
