"""Build the columns of CSV files by their names: of a cell, of an arm, and of the answer; in base units."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.question import FAILED_SHARE, SLOW_SHARE
from pytest_ipperf.core.records.arm_summary import QUANTILES, ArmSummary
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.core.stats.variance import stdev
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.report.tables.component_rows import components_of

SHOWN_PHASES = ("dns", "connect", "first_byte")
"""Phases of a connection that tables and CSV files show beside the total."""

_OF_RECORD: Mapping[str, Callable[[Record], Any]] = {
    "unit": lambda record: METRICS[record.metric].metric.unit,
    "rate_bit_s": lambda record: record.rate_bit_s or None,
    "link_rate_bit_s": lambda record: record.rate_bit_s or None,
    "link_loss": lambda record: record.loss,
    "link_delay_s": lambda record: record.delay_s,
}
"""Columns of a cell that are not fields of its record; `link_...` are properties of the links."""


def _spread(side: ArmSummary) -> float | None:
    """Return the standard deviation of an arm's runs; None for a single run."""
    return stdev(side.values) if len(side.values) > 1 else None


def failed_text(side: ArmSummary) -> str:
    """Return the failures by kind: `connect refused: 3; reply timeout: 1`."""
    return "; ".join(f"{kind}: {count}" for kind, count in side.failed.items())


def _phase(name: str) -> Callable[[ArmSummary], Any]:
    return lambda side: side.phases.get(name)


def _quantile(name: str) -> Callable[[ArmSummary], Any]:
    """Return the column of a quantile: `inf` if it is a failed connection, None if it is not known."""

    def value(side: ArmSummary) -> float | None:
        found = side.quantiles.get(name)
        return math.inf if found is None and name in side.quantiles else found

    return value


_QUANTILE_COLUMNS = {f"{name.replace('.', '')}_s": _quantile(name) for name in QUANTILES}
_OF_SIDE: Mapping[str, Callable[[ArmSummary], Any]] = {
    "arm": lambda side: str(side.arm),
    "runs": lambda side: len(side.values),
    "mean_s": lambda side: side.mean,
    "sd_of_runs": _spread,
    "sd_of_runs_s": _spread,
    "mean_of_completed_s": lambda side: statistics.fmean(side.completed_values) if side.completed_values else None,
    "failed": failed_text,
    **{f"{phase}_s": _phase(phase) for phase in SHOWN_PHASES},
    "client_share": lambda side: side.instrument.share if side.instrument else None,
    "goodput_bit_s": lambda side: side.pace.goodput_bit_s if side.pace else None,
    "ceiling_bit_s": lambda side: side.pace.ceiling_bit_s if side.pace else None,
    "path_bit_s": lambda side: side.pace.path_bit_s if side.pace else None,
    **_QUANTILE_COLUMNS,
    "notes": lambda side: " | ".join(side.notes),
}
"""Columns of an arm that are not fields of its summary."""
ARM_COLUMNS = (
    *(f"{phase}_s" for phase in SHOWN_PHASES),
    *("client_share", "goodput_bit_s", "ceiling_bit_s", "path_bit_s"),
    *_QUANTILE_COLUMNS,
)
"""Medians of an arm's phases, client share, rates of its links and quantiles of its times; None if not known."""


def of_record(record: Record, names: Iterable[str]) -> dict[str, Any]:
    """Return the columns of a cell with these names."""
    return {name: _OF_RECORD[name](record) if name in _OF_RECORD else getattr(record, name) for name in names}


def of_side(side: ArmSummary, names: Iterable[str]) -> dict[str, Any]:
    """Return the columns of an arm with these names."""
    return {name: _OF_SIDE[name](side) if name in _OF_SIDE else getattr(side, name) for name in names}


ARM = ("arm", "ipver", "transport", "twin", "level")
"""Columns that name an arm."""


def arm_columns(arm: Arm) -> dict[str, Any]:
    """Return the columns of an arm: its text, IP version, transport, whether it is a twin, and the compared level."""
    level = arm.level or None
    return dict(zip(ARM, (str(arm), arm.ipver, arm.transport, arm.twin, level), strict=True))


def levels(record: Record, names: Iterable[str]) -> dict[str, Any]:
    """Return the levels of these factors of the protocol, each in a column `level_...`."""
    return {f"level_{name}": record.levels.get(name) for name in names}


def figures(side: ArmSummary, names: Iterable[str]) -> dict[str, Any]:
    """Return the means of these figures over the arm's runs, each in a column `mean_...`."""
    return {f"mean_{name}": side.figures.get(name) for name in names}


def names_of(records: Iterable[Record]) -> tuple[list[str], list[str]]:
    """Return the names of all levels, and of all figures, in these records."""
    found = list(records)
    means = sorted({name for record in found for side in (record.test, record.reference) for name in side.figures})
    return list(dict.fromkeys(name for record in found for name in record.levels)), means


def answer(record: Record) -> dict[str, Any]:
    """Return the columns of a record's answer; the unit of the change is `%` or `pp`."""
    return {
        "change": record.estimate,
        "low": record.low,
        "high": record.high,
        "lower_bound": record.lower_bound,
        "upper_bound": record.upper_bound,
        "unit_of_change": record.change_unit,
        "confidence": record.confidence if record.judges else None,
        "effective_margin": _margin(record),
        "verdict": record.verdict,
    }


def _margin(record: Record) -> float | None:
    """Return the margin in the unit of the change; None before a question, or under a design that never judges."""
    return None if record.margin_fraction is None or not record.judges else 100 * record.margin_fraction


_BESIDE = {FAILED_SHARE: "failed", SLOW_SHARE: "slow"}
"""Prefixes of the columns of components, by metric."""


def beside(record: Record) -> dict[str, Any]:
    """Return the verdict of the metric alone, and the columns of the components, whose changes are in `pp`."""
    found = components_of(record)
    return {
        "metric_verdict": record.metric_verdict or record.verdict,
        **{name: value for metric in _BESIDE for name, value in _component(metric, found.get(metric)).items()},
    }


def _component(metric: str, part: Record | None) -> dict[str, Any]:
    columns = {
        "change": "estimate",
        **{name: name for name in ("low", "high", "lower_bound", "upper_bound")},
    }
    figures = {name: getattr(part, field) if part else None for name, field in columns.items()}
    figures |= {"margin": _margin(part) if part else None, "verdict": part.verdict if part else None}
    return {f"{_BESIDE[metric]}_{name}": value for name, value in figures.items()}
