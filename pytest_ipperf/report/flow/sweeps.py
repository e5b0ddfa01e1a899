"""Group cells into sweeps, in which one dimension varies and all others are held, for tables and figures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_ipperf.core.portable.factor import Value
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.report.flow.dimensions import Dimension, dimensions, place, point


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A one-factor sweep: `values` of one `dimension` in order; `held` describes all others."""

    dimension: Dimension
    values: tuple[Value, ...]
    held: str
    records: tuple[Record, ...]

    def column(self, record: Record) -> int:
        """Return the index of the record's value."""
        return self.values.index(self.dimension.of(record))

    @property
    def texts(self) -> list[str]:
        """Values as headings of columns."""
        return [self.dimension.text(value) for value in self.values]


def covering_sweeps(records: Sequence[Record]) -> list[Sweep]:
    """Return few sweeps that cover all records of one protocol: each time the one that adds the most cells.

    A cell where two sweeps cross is in both, as the one stream of a sweep of windows is in a sweep of streams.
    """
    if not records:
        return []
    there = {name for record in records for name in point(record)}
    order = [each.name for each in dimensions(PROTOCOLS[records[0].protocol]) if each.name in there]
    candidates = [sweep for name in order for sweep in sweeps_along(records, name)]
    uncovered, found = {place(record) for record in records}, list[Sweep]()
    while uncovered:
        best = max(candidates, key=lambda sweep: (len(uncovered & _places(sweep)), len(sweep.values)))
        found.append(best)
        uncovered -= _places(best)
    return sorted(found, key=lambda sweep: (order.index(sweep.dimension.name), sweep.held))


def sweeps_along(records: Iterable[Record], name: str) -> list[Sweep]:
    """Return all sweeps along a dimension, the one with the most values first."""
    groups: dict[tuple[Value, ...], list[Record]] = defaultdict(list)
    axis: Dimension | None = None
    for record in records:
        found = dimensions(PROTOCOLS[record.protocol])
        axis = next((each for each in found if each.name == name), axis)
        where = (each for each, of in zip(place(record), found, strict=True) if of.name != name)
        groups[*where, record.own_reference].append(record)
    made = [_sweep(axis, group) for group in groups.values()] if axis else []
    return sorted(made, key=lambda sweep: (-len(sweep.values), sweep.held))


def _sweep(axis: Dimension, records: Sequence[Record]) -> Sweep:
    where = point(records[0])
    held = [
        each for each in dimensions(PROTOCOLS[records[0].protocol]) if each.name != axis.name and each.name in where
    ]
    values = {axis.of(record) for record in records}
    return Sweep(
        dimension=axis,
        values=tuple(sorted(values, key=axis.rank)),
        held=", ".join(each.held(where[each.name]) for each in held),
        records=tuple(records),
    )


def _places(sweep: Sweep) -> set[tuple[Value, ...]]:
    return {place(record) for record in sweep.records}
