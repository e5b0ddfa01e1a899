"""The plot of ministat: a stack of symbols for each value, and bars with mean, median and standard deviation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_ipperf.report.studies.ministat.data_set import DataSet

SYMBOLS = " x+*%#@O"
"""Symbols by the number of a data set; a place that several share has that of their numbers, bit by bit."""


@dataclass(frozen=True, slots=True)
class _Scale:
    first: float
    step: float

    def column(self, value: float) -> int:
        return int((value - self.first) / self.step)


def plot_lines(sets: Sequence[DataSet], width: int, *, separate: bool) -> Iterator[str]:
    """Yield the lines of a plot `width` columns wide; with `separate`, each data set has a bar of its own.

    As in the original, a data set whose highest stack is lower than those before cuts them off.
    """
    ends = [end for each in sets for end in _ends(each)]
    span = max(ends) - min(ends)
    if not span:
        yield "[no plot, span is zero width]"
        return
    step = span / (width - 1.0)
    scale = _Scale(min(ends) - 0.5 * step, step)
    edge = f"+{'-' * width}+"
    yield edge
    for row in reversed(_rows(sets, width, scale)):
        yield f"|{''.join(SYMBOLS[numbers] for numbers in row)}|"
    bars: list[list[str]] = []
    for each in sets:
        if separate or not bars:
            bars.append([" "] * width)
        _draw_bar(bars[-1], each, scale)
    for bar in bars:
        yield f"|{''.join(bar)}|"
    yield edge


def _ends(data: DataSet) -> Iterator[float]:
    yield from (data.ordered[0], data.ordered[-1])
    if data.variance >= 0:
        yield from (data.mean - data.deviation, data.mean + data.deviation)


def _rows(sets: Sequence[DataSet], width: int, scale: _Scale) -> list[list[int]]:
    """Return the numbers of the data sets at each place, from the lowest row to the highest."""
    rows: list[list[int]] = []
    for number, data in enumerate(sets, 1):
        stacks = Counter(map(scale.column, data.ordered))
        height = max(stacks.values())
        rows = rows[:height] + [[0] * width for _ in range(height - len(rows))]
        for column, stack in stacks.items():
            for row in rows[:stack]:
                row[column] |= number
    return rows


def _draw_bar(bar: list[str], data: DataSet, scale: _Scale) -> None:
    if data.variance >= 0:
        low, high = (scale.column(data.mean + sign * data.deviation) for sign in (-1, 1))
        bar[low] = bar[high] = "|"
        for column in range(low + 1, high):
            bar[column] = "_" if bar[column] == " " else bar[column]
    bar[scale.column(data.median)] = "M"
    bar[scale.column(data.mean)] = "A"
