"""Reports of ministat on the comparisons of a session: the run values of each arm beside those of its reference."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from pytest_ipperf.core.records.record import Record
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.report.studies.ministat.data_set import LEAST_VALUES, DataSet
from pytest_ipperf.report.studies.ministat.text import MOST_SETS, WIDTH, ministat_lines

_SHOWN = {
    "s": (1e3, "ms"),
    "bit/s": (1e-6, "Mbit/s"),
    "1": (100.0, "%"),
    "packet/s": (1.0, "packet/s"),
    "query/s": (1.0, "query/s"),
}
"""Factors and units of shown values, by the unit of a metric."""


def comparison_reports(records: Iterable[Record], *, width: int = WIDTH) -> Iterator[list[str]]:
    """Yield the lines of a report with a title for each workload and metric.

    Values are those of the runs in order of measurement, without warm-ups. Ministat takes them for independent of each
    other; verdicts are of epochs, as their runs are not.
    """
    compared = sorted((record for record in records if record.compared), key=_group)
    for _, found in groupby(compared, key=_group):
        arms = [*found]
        for start in range(0, len(arms), MOST_SETS - 1):
            yield [*_report(arms[start : start + MOST_SETS - 1], width)]


def _group(record: Record) -> tuple[str, str, tuple[float, ...]]:
    return record.workload, record.metric, record.reference.values


def _report(records: Sequence[Record], width: int) -> Iterator[str]:
    first = records[0]
    metric = METRICS[first.metric].metric
    factor, unit = _SHOWN[metric.unit]
    yield f"{first.workload}: {metric.title} of each run, in {unit}"
    arms = (first.reference, *(record.test for record in records))
    if few := [str(arm.arm) for arm in arms if len(arm.values) < LEAST_VALUES]:
        yield f"ministat needs at least {LEAST_VALUES} runs of an arm, and there are fewer of {', '.join(few)}"
        return
    sets = [DataSet(str(arm.arm), [factor * value for value in arm.values]) for arm in arms]
    yield from ministat_lines(sets, width=width, separate=True)
