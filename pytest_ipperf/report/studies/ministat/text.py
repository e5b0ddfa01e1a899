"""The text of ministat: names, plot, statistics of each data set, and its difference from the first one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.report.studies.ministat.data_set import DataSet
from pytest_ipperf.report.studies.ministat.plot import SYMBOLS, plot_lines
from pytest_ipperf.report.studies.ministat.student_t import CONFIDENCES, table_value

WIDTH = 74
"""Columns of a plot where standard output is not a terminal."""
MOST_SETS = len(SYMBOLS) - 1
LEAST_WIDTH = 2
_HEAD = "    N           Min           Max        Median           Avg        Stddev"


def ministat_lines(
    sets: Sequence[DataSet],
    *,
    confidence: float = 95.0,
    width: int = WIDTH,
    separate: bool = False,
    plots: bool = True,
    compares: bool = True,
) -> Iterator[str]:
    """Yield the lines of a report of one to seven data sets, of which the first is the reference.

    `separate`, `plots` and `compares` are the options -s, not -A, and not -n. Raise UsageError if there are too many
    sets, the plot is too narrow, or the table of t does not have the confidence.
    """
    if not 1 <= len(sets) <= MOST_SETS:
        raise UsageError(f"ministat compares 1 to {MOST_SETS} data sets, not {len(sets)}")
    if confidence not in CONFIDENCES:
        levels = ", ".join(f"{each:g}" for each in CONFIDENCES)
        raise UsageError(f"ministat has no table for a confidence of {confidence:g} %; there are {levels}")
    if width < LEAST_WIDTH:
        raise UsageError(f"a plot of ministat has at least {LEAST_WIDTH} columns, not {width}")
    yield from (f"{SYMBOLS[number]} {each.name}" for number, each in enumerate(sets, 1))
    if plots and compares:
        yield from plot_lines(sets, width, separate=separate)
    yield _HEAD
    for number, each in enumerate(sets, 1):
        figures = (each.ordered[0], each.ordered[-1], each.median, each.mean, each.deviation)
        yield f"{SYMBOLS[number]} {each.count:3d} {' '.join(_figure(figure, '13.8g') for figure in figures)}"
        if compares and number > 1:
            yield from _difference(each, sets[0], confidence)


class Difference(NamedTuple):
    """Difference of two means with half of its interval, by the `pooled` standard deviation."""

    change: float
    half: float
    pooled: float


def difference_of(data: DataSet, reference: DataSet, confidence: float) -> Difference:
    """Return the difference of the means of two data sets whose values are taken for independent.

    Raise KeyError for a confidence that ministat's table of t does not have.
    """
    degrees = data.count + reference.count - 2
    squares = (data.count - 1) * data.variance + (reference.count - 1) * reference.variance
    pooled = math.sqrt(squares / degrees) if squares >= 0 else math.nan
    change = data.mean - reference.mean
    half = table_value(confidence, degrees) * (pooled * math.sqrt(1.0 / data.count + 1.0 / reference.count))
    return Difference(change, half, pooled)


def _difference(data: DataSet, reference: DataSet, confidence: float) -> Iterator[str]:
    change, half, pooled = difference_of(data, reference, confidence)
    if not abs(change) > half:
        yield f"No difference proven at {confidence:.1f}% confidence"
        return
    relative, half_of_it = (_figure(_divided(100 * part, reference.mean)) for part in (change, half))
    yield f"Difference at {confidence:.1f}% confidence"
    yield f"\t{_figure(change)} +/- {_figure(half)}"
    yield f"\t{relative}% +/- {half_of_it}%"
    yield f"\t(Student's t, pooled s = {_figure(pooled)})"


def _divided(part: float, whole: float) -> float:
    """Divide as C does, by zero too."""
    if whole:
        return part / whole
    return math.copysign(math.inf, part) * math.copysign(1.0, whole) if part else math.nan


def _figure(value: float, form: str = "g") -> str:
    """Format as C does; what is not a number is one of an x86 processor, with its sign."""
    width = int(form.partition(".")[0]) if "." in form else 0
    return "-nan".rjust(width) if math.isnan(value) else f"{value:{form}}"
