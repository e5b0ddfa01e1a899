"""Write the run values of both arms and the answer as CSV, one figure to a row."""

from __future__ import annotations

import csv
import io

from pytest_ipperf.core.records.record import ArmSummary, Record
from pytest_ipperf.metrics import METRICS

_HEAD = ("what", "arm", "run", "value", "unit")


def values_csv(record: Record) -> str:
    """Rows of what, arm, run (from 1, warm-ups left out), value and unit; base units, all digits."""
    written = io.StringIO()
    lines = csv.writer(written, lineterminator="\n")
    lines.writerow(_HEAD)
    unit = METRICS[record.metric].metric.unit
    for side in (record.reference, record.test):
        lines.writerows(_side(side, record.metric, unit))
    answer = {
        "change": record.estimate,
        "change, lower bound": record.low,
        "change, upper bound": record.high,
        "margin": None if record.margin_fraction is None else 100 * record.margin_fraction,
    }
    arm = record.test.arm
    lines.writerows((what, arm, "", value, record.change_unit) for what, value in answer.items() if value is not None)
    lines.writerow(("verdict", arm, "", record.verdict, ""))
    return written.getvalue()


def _side(side: ArmSummary, metric: str, unit: str) -> list[tuple[str | int | float, ...]]:
    arm = str(side.arm)
    runs = [(metric, arm, number, value, unit) for number, value in enumerate(side.values, start=1)]
    return [
        *runs,
        (f"mean {metric}", arm, "", side.mean, unit),
        ("attempted", arm, "", side.attempted, ""),
        ("completed", arm, "", side.completed, ""),
        *((f"failed: {kind}", arm, "", count, "") for kind, count in side.failed.items()),
    ]
