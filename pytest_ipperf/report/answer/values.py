"""Show the two values behind a change: those that the change belongs to, in one unit."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from pytest_ipperf.core.inference.effect import percent_text
from pytest_ipperf.core.portable.scaling import Unit
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.report.flow.quantity import shown_time_unit, unit_of
from pytest_ipperf.report.tables.verdict_rows import means_disagree

_VALUES_AND_CHANGE = re.compile(r" instead of [^(]*\([-+]?[\d.]+ %")


def value_pair(record: Record) -> tuple[float, float]:
    """Return the reference's and the arm's value in base units.

    They are the means of the runs, or the typical values that the change belongs to where the means disagree with it.
    """
    if means_disagree(record) and record.reference_typical is not None and record.estimate is not None:
        return record.reference_typical, record.reference_typical * (1 + record.estimate / 100)
    return record.reference.mean, record.test.mean


def pair_unit(record: Record) -> Unit:
    """Return the unit of both values."""
    metric = METRICS[record.metric].metric
    values = [abs(each) for each in value_pair(record) if math.isfinite(each)]
    return shown_time_unit(max(values, default=0.0)) if metric.unit == "s" else unit_of(metric, values)


def arrow_text(record: Record) -> str:
    """Return `50.3 → 61.4 ms`; of an arm alone its value: `61.4 ms`."""
    unit, (reference, test) = pair_unit(record), value_pair(record)
    before = f"{unit.text(reference)} → " if record.compared else ""
    return f"{before}{unit.text(test)} {unit.name}".rstrip()


def instead_text(record: Record) -> str:
    """Return `61.4 instead of 50.3 ms`."""
    unit, (reference, test) = pair_unit(record), value_pair(record)
    return f"{unit.text(test)} instead of {unit.text(reference)} {unit.name}".rstrip()


def note_on_change(sentence: str, records: Iterable[Record]) -> str:
    """Return how the change in percent beside two values in a sentence comes about; empty without one.

    Who divides the values finds another change.
    """
    compared = [record for record in records if record.compared and not record.twin]
    if not _VALUES_AND_CHANGE.search(sentence) or all(map(means_disagree, compared)):
        return ""
    typical = " (where these contradict the change, typical values)" if any(map(means_disagree, compared)) else ""
    return (
        f"The two values are means of all runs{typical}; the change in % is the typical one between runs of the same "
        "block, so it can differ from that of the means"
    )


def typical_mark(record: Record) -> str:
    """Return the word for values that are not the means, as these contradict the change; else an empty text."""
    return "typical" if means_disagree(record) else ""


def short_change(record: Record) -> str:
    """Return the change alone: `+22 %`; empty if there is none."""
    if record.estimate is None:
        return ""
    return f"{percent_text(record.estimate)} {record.change_unit}"


def allowed_text(record: Record) -> str:
    """Return the margin as it applies to the cell: `10 %`; empty if nothing was judged."""
    if record.margin_fraction is None or not record.judges:
        return ""
    return f"{100 * record.margin_fraction:.3g} {record.change_unit}"
