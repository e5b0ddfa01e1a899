"""Merge the engines' notes on limits of the figures: each kind of sentence once for all cells."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pytest_ipperf.core.records.record import Record
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.report.flow.dimensions import Dimension, dimensions, point
from pytest_ipperf.report.tables.paragraphs import capital

_FIGURE = re.compile(r"\d+(\.\d+)?(e[-+]?\d+)?( ?([kMGT]?bit/s|(ms|us|ns|s|[kmg])\b))?")
"""Matches a number with its unit: sentences that differ only in these are of one kind."""
_MOST = 4


@dataclass(frozen=True, slots=True)
class _Kind:
    """The `first` sentence of a kind, and the arms and levels that have it; levels by protocol, each once."""

    first: str
    arms: dict[str, None] = field(default_factory=dict)
    levels: dict[str, dict[str, None]] = field(default_factory=dict)


def engine_notes(records: Sequence[Record]) -> list[str]:
    """Return a sentence for each kind, with the first's numbers and its arms: `... (IPv4, IPv6; UDP 1gbit, 10gbit)`."""
    varying = {protocol: _varying(records, protocol) for protocol in {record.protocol for record in records}}
    kinds: dict[str, _Kind] = {}
    for record in records:
        level = _level(record, varying[record.protocol])
        for side in (record.reference, record.test):
            for note in side.notes:
                kind = kinds.setdefault(_FIGURE.sub("#", note), _Kind(note))
                kind.arms[side.arm.title] = None
                kind.levels.setdefault(PROTOCOLS[record.protocol].title, {})[level] = None
    return [f"{capital(each.first)} ({_places(each)})." for each in kinds.values()]


def _places(kind: _Kind) -> str:
    at = (f"{title} {_some(levels)}".rstrip() for title, levels in kind.levels.items())
    return f"{', '.join(kind.arms)}; {'; '.join(at)}"


def _some(levels: Iterable[str]) -> str:
    named = list(levels)
    more = f" and {len(named) - _MOST} more" if len(named) > _MOST else ""
    return ", ".join(named[:_MOST]) + more


def _varying(records: Iterable[Record], protocol: str) -> list[Dimension]:
    """Return the dimensions in which the protocol's cells differ."""
    places = [point(record) for record in records if record.protocol == protocol]
    return [each for each in dimensions(PROTOCOLS[protocol]) if len({where.get(each.name) for where in places}) > 1]


def _level(record: Record, varying: Sequence[Dimension]) -> str:
    """Return the level of a record: its value alone if only one dimension varies."""
    where = point(record)
    known = [each for each in varying if each.name in where]
    if len(known) == 1:
        return known[0].text(where[known[0].name])
    return " ".join(each.held(where[each.name]) for each in known)
