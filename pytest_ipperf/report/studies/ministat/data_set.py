"""A data set of ministat, and the file it is read from."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from pytest_ipperf.core.portable.errors import UsageError

LEAST_VALUES = 3
# Squares of larger values, of which the variance is computed, are infinite.
_LARGEST = 1e150
# What strtod(3) of the C library takes, but for infinities and numbers that are none.
_NUMBER = re.compile(r"\s*([-+]?(?:0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)(?:[pP][-+]?\d+)?"
                     r"|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?))")  # fmt: skip


@dataclass(frozen=True, slots=True)
class DataSet:
    """Values under a name, in the order of the file; `ordered` has them by size.

    Raise UsageError if there are fewer than three, or one is too large for its square.
    """

    name: str
    values: Sequence[float]
    ordered: Sequence[float] = field(init=False)
    mean: float = field(init=False)
    variance: float = field(init=False)
    """Variance by sums in one pass, which rounding can make negative."""

    def __post_init__(self) -> None:
        if len(self.values) < LEAST_VALUES:
            raise UsageError(
                f"data set {self.name} has {len(self.values)} values; ministat needs at least {LEAST_VALUES}"
            )
        for value in self.values:
            if not abs(value) < _LARGEST:
                raise UsageError(f"data set {self.name}: ministat cannot square {value:g}; scale the values")
        count, total, squares = len(self.values), 0.0, 0.0
        for value in self.values:  # not by `sum`, which rounds otherwise since Python 3.12
            total += value
            squares += value * value
        object.__setattr__(self, "ordered", sorted(self.values))
        object.__setattr__(self, "mean", total / count)
        object.__setattr__(self, "variance", (squares - total * total / count) / (count - 1.0))

    @property
    def count(self) -> int:
        """Number of values."""
        return len(self.values)

    @property
    def median(self) -> float:
        """Value in the middle; of an even number the upper of the two."""
        return self.ordered[self.count // 2]

    @property
    def deviation(self) -> float:
        """Standard deviation; nan if rounding has made the variance negative."""
        return math.sqrt(self.variance) if self.variance >= 0 else math.nan


def read_data_set(name: str, lines: Iterable[str], *, column: int = 1, delimiters: str = " \t") -> DataSet:
    """Return the data set of a file: the numbers in a column of its lines, counted from 1.

    Lines that are empty, or have fewer columns, are left out; a column that begins with `#` ends its line. Raise
    UsageError with the line if a column is not a number, and as `DataSet`.
    """
    return DataSet(name, [*_values(name, lines, column, delimiters)])


def _values(name: str, lines: Iterable[str], column: int, delimiters: str) -> Iterator[float]:
    words = re.compile(f"[^{re.escape(delimiters)}]+" if delimiters else "(?s:.+)")
    for number, line in enumerate(lines, 1):
        found = words.findall(line.rstrip())
        if len(found) < column or any(word.startswith("#") for word in found[:column]):
            continue
        yield _value(found[column - 1], f"line {number} of {name}")


def _value(text: str, place: str) -> float:
    found = _NUMBER.fullmatch(text)
    if not found:
        raise UsageError(f"{place}: {text!r} is not a number")
    plain = found[1]
    return float.fromhex(plain) if "x" in plain.lower() else float(plain)
