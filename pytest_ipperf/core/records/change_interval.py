"""Intervals of a recorded change: the one whose ends the verdict compares, and the two-sided one."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_ipperf.core.design.metric import Metric
from pytest_ipperf.core.inference.effect import percent_text
from pytest_ipperf.core.records.record import Record


@dataclass(frozen=True, slots=True)
class ChangeInterval:
    """A two-sided interval of a change in its unit, with its confidence."""

    low: float
    high: float
    confidence: float

    @property
    def level(self) -> str:
        """Confidence as text: `90 %`."""
        return f"{100 * self.confidence:.4g} %"

    @property
    def title(self) -> str:
        """Title of the interval: `90 % interval`."""
        return f"{self.level} interval"

    @property
    def text(self) -> str:
        """Ends as text: `[-1.2, +4.6]`."""
        return f"[{percent_text(self.low)}, {percent_text(self.high)}]"


def interval_that_decides(record: Record, metric: Metric) -> ChangeInterval | None:
    """Return the interval of the one-sided bounds that decide; None if the design never judges.

    A record without bounds, such as one of an earlier version or one without a question, has its two-sided interval.
    """
    if not record.judges:
        return None
    if record.lower_bound is not None and record.upper_bound is not None:
        excess = record.confirms.level if record.confirms else record.alpha
        return ChangeInterval(
            record.lower_bound, record.upper_bound, 1 - (record.alpha + excess * metric.exceeds_level)
        )
    return two_sided_interval(record)


def two_sided_interval(record: Record) -> ChangeInterval | None:
    """Return the record's two-sided interval at its `confidence`; None if it has none, or its design never judges."""
    if not record.judges or record.low is None or record.high is None:
        return None
    return ChangeInterval(record.low, record.high, record.confidence)
