"""Show the phases of a connection of both arms, which all count from its start."""

from __future__ import annotations

import math

from pytest_ipperf.core.records.record import Record
from pytest_ipperf.protocols.base import PHASES
from pytest_ipperf.report.flow.quantity import shown_time_unit

_ANSWERED, _DONE = PHASES[3:5]
_SINCE_START = "medians since the start of a connection"


def phases_text(record: Record) -> str:
    """Return the medians of the phases of both arms since the start of a connection; empty if there are none.

    All have one unit: `medians since the start of a connection: dns 3.51 → 3.31 ms, connect 3.77 → 3.62 ms`.
    """
    reference, test = record.reference.phases, record.test.phases
    names = [name for name in reference if name in test]
    if not names or not record.compared:
        return ""
    known = [side[name] for side in (reference, test) for name in names if math.isfinite(side[name])]
    unit = shown_time_unit(max(known, default=0.0))
    pairs = {name: f"{unit.text(reference[name])} → {unit.text(test[name])} {unit.name}" for name in names}
    texts = [f"{name.replace('_', ' ')} {pair}" for name, pair in pairs.items()]
    at_once = _ANSWERED in pairs and pairs[_ANSWERED] == pairs.get(_DONE)
    whole = "; the rest of the reply came with its first byte" if at_once else ""
    return f"{_SINCE_START}: {', '.join(texts)}{whole}"
