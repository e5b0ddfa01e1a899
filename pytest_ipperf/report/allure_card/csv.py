"""Write the run values of both arms and the answer as CSV, one figure in each row."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pytest_ipperf.core.records.arm_summary import ArmSummary
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.report.tables.component_rows import components_of
from pytest_ipperf.report.tables.csv_text import csv_text

_HEAD = ("what", "arm", "run", "value", "unit")
_Row = tuple[str | int | float | None, ...]


def values_csv(record: Record) -> str:
    """Return rows of what, arm, run (from 1, without warm-ups), value and unit; base units, all digits."""
    rows = [row for side in record.sides for row in _side(side, record)]
    rows += _answer(record)
    return csv_text([dict(zip(_HEAD, row, strict=True)) for row in rows], end="\n")


def _side(side: ArmSummary, record: Record) -> Iterator[_Row]:
    metric, unit, arm = record.metric, METRICS[record.metric].metric.unit, str(side.arm)
    yield from ((metric, arm, number, value, unit) for number, value in enumerate(side.values, start=1))
    yield f"mean {metric}", arm, "", side.mean, unit
    yield from ((name, arm, "", math.inf if value is None else value, "s") for name, value in side.quantiles.items())
    yield "attempted", arm, "", side.attempted, ""
    yield "completed", arm, "", side.completed, ""
    yield from ((f"failed: {kind}", arm, "", count, "") for kind, count in side.failed.items())


def _answer(record: Record) -> Iterator[_Row]:
    answer = {
        "change": record.estimate,
        "change, lower bound": record.low,
        "change, upper bound": record.high,
        "change, deciding lower bound": record.lower_bound,
        "change, deciding upper bound": record.upper_bound,
        "margin": None if record.margin_fraction is None else 100 * record.margin_fraction,
    }
    arm = str(record.test.arm)
    yield from ((what, arm, "", value, record.change_unit) for what, value in answer.items() if value is not None)
    for name, part in components_of(record).items():
        beside = {"change": part.estimate, "lower bound": part.lower_bound, "upper bound": part.upper_bound}
        yield from ((f"{name}, {what}", arm, "", value, "pp") for what, value in beside.items() if value is not None)
        yield f"{name}, verdict", arm, "", part.verdict, ""
    yield "verdict", arm, "", record.verdict, ""
