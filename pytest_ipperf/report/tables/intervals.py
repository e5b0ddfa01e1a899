"""Choose the interval of a change that reports print and draw first: the one whose ends the verdict compares."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pytest_ipperf.core.inference.effect import percent_text
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.metrics import METRICS

_SUFFIX = " % interval"


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


def deciding_interval(record: Record) -> ChangeInterval | None:
    """Return the interval of the one-sided bounds that decide; None if the design never judges.

    A record without bounds, such as one of an earlier version or one without a question, has its two-sided interval.
    """
    if not record.judges:
        return None
    if record.lower_bound is not None and record.upper_bound is not None:
        excess = record.confirms.level if record.confirms else record.alpha
        missed = record.alpha + excess * METRICS[record.metric].metric.exceeds_level
        return ChangeInterval(record.lower_bound, record.upper_bound, 1 - missed)
    return _two_sided(record)


def wider_interval(record: Record) -> ChangeInterval | None:
    """Return the record's two-sided interval if it is wider than the one that decides; None otherwise."""
    deciding, plain = deciding_interval(record), _two_sided(record)
    if deciding is None or plain is None or not (plain.low < deciding.low or plain.high > deciding.high):
        return None
    return plain


def levels_text(records: Iterable[Record]) -> str:
    """Return the levels of the records' intervals: `90 %`, `90 % or 95 %`; empty without intervals."""
    found = (deciding_interval(record) for record in records)
    return " or ".join(dict.fromkeys(each.level for each in found if each))


def is_interval_title(title: str) -> bool:
    """Return whether a row's title is that of an interval."""
    return title.endswith(_SUFFIX)


def _two_sided(record: Record) -> ChangeInterval | None:
    if not record.judges or record.low is None or record.high is None:
        return None
    return ChangeInterval(record.low, record.high, record.confidence)
