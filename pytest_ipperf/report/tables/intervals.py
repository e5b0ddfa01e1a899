"""Choose the interval of a change that reports print and draw first: the one whose ends the verdict compares."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_ipperf.core.records.change_interval import ChangeInterval, interval_that_decides, two_sided_interval
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.metrics import METRICS

_SUFFIX = " % interval"


def deciding_interval(record: Record) -> ChangeInterval | None:
    """Return the interval of the one-sided bounds that decide; None if the design never judges."""
    return interval_that_decides(record, METRICS[record.metric].metric)


def wider_interval(record: Record) -> ChangeInterval | None:
    """Return the record's two-sided interval if it is wider than the one that decides; None otherwise."""
    deciding, plain = deciding_interval(record), two_sided_interval(record)
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
