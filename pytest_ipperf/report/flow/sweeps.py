"""Lines: cells in which one dimension varies and all others are held, so that a table or a figure can show them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_ipperf.core.portable.factor import Value
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.report.flow.dimensions import Dimension, dimensions, place, point


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """`values` of one `dimension` in order; `held` says all others in words, and `records` are of those cells."""

    dimension: Dimension
    values: tuple[Value, ...]
    held: str
    records: tuple[Record, ...]

    def column(self, record: Record) -> int:
        """Which of the values is the record's."""
        return self.values.index(point(record)[self.dimension.name])

    @property
    def texts(self) -> list[str]:
        """The values as heads of columns."""
        return [self.dimension.text(value) for value in self.values]


def lines(records: Sequence[Record]) -> list[Line]:
    """Few lines that hold all records, which are of one protocol: each time the one that adds the most cells.

    A cell where two lines cross is in both, as the one stream of a row of windows is in a row of streams.
    """
    if not records:
        return []
    order = [each.name for each in dimensions(PROTOCOLS[records[0].protocol])]
    candidates = [line for name in order for line in along(records, name)]
    open_places, found = {place(record) for record in records}, list[Line]()
    while open_places:
        best = max(candidates, key=lambda line: (len(open_places & _places(line)), len(line.values)))
        found.append(best)
        open_places -= _places(best)
    return sorted(found, key=lambda line: (order.index(line.dimension.name), line.held))


def along(records: Iterable[Record], name: str) -> list[Line]:
    """All lines of that dimension, the one with the most values first."""
    groups: dict[tuple[Value, ...], list[Record]] = defaultdict(list)
    axis: Dimension | None = None
    for record in records:
        found = dimensions(PROTOCOLS[record.protocol])
        axis = next((each for each in found if each.name == name), axis)
        groups[tuple(each for each, of in zip(place(record), found, strict=True) if of.name != name)].append(record)
    made = [_line(axis, group) for group in groups.values()] if axis else []
    return sorted(made, key=lambda line: (-len(line.values), line.held))


def _line(axis: Dimension, records: Sequence[Record]) -> Line:
    where = point(records[0])
    held = [
        each for each in dimensions(PROTOCOLS[records[0].protocol]) if each.name != axis.name and each.name in where
    ]
    values = {point(record)[axis.name] for record in records}
    return Line(
        dimension=axis,
        values=tuple(sorted(values, key=axis.rank)),
        held=", ".join(each.held(where[each.name]) for each in held),
        records=tuple(records),
    )


def _places(line: Line) -> set[tuple[Value, ...]]:
    return {place(record) for record in line.records}
