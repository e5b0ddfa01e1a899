"""The offloading study (paper 002): the four ratios of its two comparisons, beside our own."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pytest_ipperf.core.design.cell import Arm, arm_level_text
from pytest_ipperf.core.inference.effect import percent_of_log, percent_text
from pytest_ipperf.core.portable.offload import OFF, OFFLOAD, ON
from pytest_ipperf.core.records.arm_summary import ArmSummary
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.core.stats.interval import Interval, t_interval
from pytest_ipperf.report.studies.ministat.data_set import LEAST_VALUES, DataSet
from pytest_ipperf.report.studies.ministat.text import difference_of
from pytest_ipperf.report.tables.layout import Row, Table
from pytest_ipperf.report.tables.network_notes import testbed_text

_METRIC = "throughput"
_CONFIDENCE = 0.95
_PERCENT = 100 * _CONFIDENCE
_LEAST_EPOCHS = 3  # of two, an interval is a dozen times as wide as their spread
NOTES = (
    "The study: difference of the means of 30 runs in percent of the second one's, 95 % by Student's t, runs taken for",
    "independent (paper 002); `by its formula`: the same of our runs. By epochs: mean log ratio of an epoch's blocks,",
    "mean over the epochs, with a two-sided 95 % t interval over the epochs.",
)
"""Lines that explain the figures of the tables."""


class _Ratio(NamedTuple):
    """A ratio of two arms, IP version and level of each; the study's change and half its interval, in percent."""

    test: tuple[int, str]
    reference: tuple[int, str]
    change: float
    half: float


_RATIOS = (
    _Ratio((6, OFF), (6, ON), -49.4035, 1.31103),
    _Ratio((4, OFF), (6, OFF), 35.8262, 1.64361),
    _Ratio((6, ON), (6, OFF), 97.6423, 2.59114),
    _Ratio((4, ON), (6, OFF), 103.133, 1.16445),
)


def tables(records: Iterable[Record]) -> list[Table]:
    """Return a table for each workload that has all four arms of the study."""
    groups: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        if record.metric == _METRIC and record.compared and record.test.arm.level.startswith(f"{OFFLOAD.name}_"):
            groups[record.workload, record.design].append(record)
    return [table for _, found in sorted(groups.items()) for table in _tables(found)]


def _tables(records: Sequence[Record]) -> Iterator[Table]:
    sides = {side.arm: side for record in records for side in record.sides}
    if not all(_arm(*end) in sides for ratio in _RATIOS for end in (ratio.test, ratio.reference)):
        return
    first = records[0]
    rows: list[Row] = [
        ("change of throughput", ["the study", "here by its formula", "here by epochs", "95 % interval"])
    ]
    for ratio in _RATIOS:
        test, reference = (sides[_arm(*end)] for end in (ratio.test, ratio.reference))
        study = _plus_minus(ratio.change, ratio.half)
        rows.append(
            (
                f"{test.arm.title} against {reference.arm.title}",
                [study, _by_formula(test, reference), *_by_epochs(test, reference, first)],
            )
        )
    yield Table(
        title="Paper 002: throughput with and without offloading, all four arms in the same blocks",
        about=(testbed_text(records), f"workload {first.workload}, design {first.design}"),
        rows=tuple(rows),
    )


def _arm(ipver: int, level: str) -> Arm:
    return Arm(ipver, "native", level=arm_level_text(OFFLOAD.name, level))


def _by_formula(test: ArmSummary, reference: ArmSummary) -> str:
    if min(len(test.values), len(reference.values)) < LEAST_VALUES or reference.mean <= 0:
        return "-"
    change, half, _ = difference_of(DataSet("test", test.values), DataSet("reference", reference.values), _PERCENT)
    return _plus_minus(100 * change / reference.mean, 100 * half / reference.mean)


def _plus_minus(change: float, half: float) -> str:
    return f"{percent_text(change)} ± {percent_text(half, sign=False)} %"


def _by_epochs(test: ArmSummary, reference: ArmSummary, record: Record) -> list[str]:
    """Return the change and its interval; a run without throughput has no ratio, so that neither is known."""
    count = record.epochs * record.blocks
    if not len(test.values) == len(reference.values) == count or min(*test.values, *reference.values) <= 0:
        return ["-", "-"]
    logs = [math.log(one / other) for one, other in zip(test.values, reference.values, strict=True)]
    epochs = [statistics.fmean(logs[at : at + record.blocks]) for at in range(0, count, record.blocks)]
    change = f"{percent_text(percent_of_log(statistics.fmean(epochs)))} %"
    if len(epochs) < _LEAST_EPOCHS:
        return [change, "-"]
    return [change, _interval_text(t_interval(epochs, _CONFIDENCE).mapped(percent_of_log))]


def _interval_text(found: Interval) -> str:
    return f"[{percent_text(found.low)}, {percent_text(found.high)}] %"
