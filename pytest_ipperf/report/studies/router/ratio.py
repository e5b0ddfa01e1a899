"""Compute an arm's ratio to IPv4, in one cell and over several cells, as logarithms."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_ipperf.core.portable.errors import InvalidError
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.core.stats.interval import Interval, t_quantile
from pytest_ipperf.core.stats.variance import stdev
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.report.tables.arm_rows import independent_values


@dataclass(frozen=True, slots=True)
class LogRatio:
    """ln(arm / IPv4) with its standard error, which has `df` degrees of freedom."""

    estimate: float
    error: float
    df: float


def ratio_of(record: Record) -> LogRatio:
    """Return the ratio of a cell: from its effect, else from pairs of independent values; for a share, from the means.

    Raise InvalidError if there is none: for fewer than two epochs and blocks, a value of 0 or infinity, a share whose
    mean is 0, or a change that is not finite.
    """
    if METRICS[record.metric].metric.scale == "difference":
        return _of_means(
            independent_values(record.test.values, record), independent_values(record.reference.values, record)
        )
    if record.epochs > 1 and record.estimate is not None and record.sd_epoch is not None:
        if not -100 < record.estimate < math.inf:
            raise InvalidError(f"{record.cell}: a change of {record.estimate!r} % has no ratio")
        estimate = math.log1p(record.estimate / 100)
        return LogRatio(estimate, record.sd_epoch / math.sqrt(record.epochs), record.epochs - 1)
    sides = _sides(record)
    if not all(0 < value < math.inf for values in sides for value in values):
        raise InvalidError(f"{record.cell}: a value that is 0 or infinite has no ratio")
    return _mean([math.log(test / reference) for test, reference in zip(*sides, strict=True)])


def combined(cells: Sequence[LogRatio], confidence: float) -> Interval:
    """Return the mean of independent cells' log ratios as a ratio, with its two-sided interval.

    Errors are combined as variances, degrees of freedom after Welch and Satterthwaite. Raise InvalidError for no cells.
    Source: F. E. Satterthwaite, "An approximate distribution of estimates of variance components", 1946.
    """
    if not cells:
        raise InvalidError("no cell has a ratio to IPv4")
    variances = [cell.error**2 for cell in cells]
    mean = statistics.fmean(cell.estimate for cell in cells)
    weights = sum(variance**2 / cell.df for variance, cell in zip(variances, cells, strict=True))
    df = sum(variances) ** 2 / weights if weights else sum(cell.df for cell in cells)
    half = t_quantile((1 + confidence) / 2, df) * math.sqrt(sum(variances)) / len(cells)
    log = Interval(estimate=mean, low=mean - half, high=mean + half, confidence=confidence, df=df)
    return log.mapped(lambda value: math.exp(value) if value < 700 else math.inf)


def _sides(record: Record) -> tuple[list[float], list[float]]:
    return independent_values(record.test.values, record), independent_values(record.reference.values, record)


def _mean(logs: Sequence[float]) -> LogRatio:
    return LogRatio(statistics.fmean(logs), stdev(logs) / math.sqrt(len(logs)), len(logs) - 1)


def _of_means(test: Sequence[float], reference: Sequence[float]) -> LogRatio:
    """Return the ratio of the two means, whose single values may be 0, with the error of the linearised pairs.

    Source: W. G. Cochran, "Sampling Techniques", 3rd edition, 1977, section 2.11 (ratio estimates), on the log scale.
    """
    above, below = statistics.fmean(test), statistics.fmean(reference)
    if not above or not below:
        raise InvalidError("a share that is 0 has no multiple")
    pairs = [a / above - b / below for a, b in zip(test, reference, strict=True)]
    return LogRatio(math.log(above / below), stdev(pairs) / math.sqrt(len(pairs)), len(pairs) - 1)
