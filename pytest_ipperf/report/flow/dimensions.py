"""Define the dimensions in which cells of a flow may differ: streams, payload, and the protocol's own factors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pytest_ipperf.core.portable.factor import Factor, Value
from pytest_ipperf.core.portable.units import bytes_text
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.protocols.base import Protocol


@dataclass(frozen=True, slots=True)
class Dimension:
    """A dimension: `title` for headings, `text` of a value for columns, `held` of a value that does not vary.

    `unit` is the unit of the values, empty for words and counts; `words` are the values of a factor without numbers.
    """

    name: str
    title: str
    text: Callable[[Value], str]
    held: Callable[[Value], str]
    unit: str = ""
    words: tuple[str, ...] = ()
    implicit: Value = ""

    def of(self, record: Record) -> Value:
        """Return the value of a record's cell."""
        return point(record).get(self.name, self.implicit)

    def rank(self, value: Value) -> tuple[int, float]:
        """Return the sort key of a value: numbers by size, then words in the protocol's order."""
        if not isinstance(value, str):
            return 0, value
        return 1, self.words.index(value) if value in self.words else -1


def dimensions(protocol: Protocol) -> tuple[Dimension, ...]:
    """Return the dimensions of a protocol; the first ones are preferred as columns of a table."""
    payload = Dimension(
        name="payload",
        title=protocol.payload_title,
        text=_bytes,
        held=lambda value: f"payload {_bytes(value)}",
        unit="bytes",
    )
    streams = Dimension(
        name="connections",
        title=f"parallel {protocol.kind.unit}s",
        text=str,
        held=lambda value: protocol.kind.counted(int(value)),
    )
    numbers = [_factor(factor) for factor in protocol.factors if factor.unit != "word"]
    words = [_factor(factor) for factor in protocol.factors if factor.unit == "word"]
    return (*([] if protocol.datagram else [streams]), *numbers, payload, *words)


def point(record: Record) -> dict[str, Value]:
    """Return the position of a record's cell: its value in each dimension, by name."""
    return {"connections": record.connections, "payload": record.payload_bytes, **record.levels}


def held_levels(record: Record) -> str:
    """Return the levels of a record's cell in words, for tables in which none of them varies."""
    known = {each.name: each for each in dimensions(PROTOCOLS[record.protocol])}
    return ", ".join(known[name].held(value) for name, value in record.levels.items() if name in known)


def order(record: Record) -> tuple[tuple[int, float], ...]:
    """Return the sort key of a record's cell among those of its protocol."""
    where = point(record)
    return tuple(each.rank(where.get(each.name, "")) for each in dimensions(PROTOCOLS[record.protocol]))


def place(record: Record) -> tuple[Value, ...]:
    """Return the position of a record's cell as a tuple, in the order of the protocol's dimensions."""
    where = point(record)
    return tuple(where.get(each.name, "") for each in dimensions(PROTOCOLS[record.protocol]))


def _bytes(value: Value) -> str:
    return value if isinstance(value, str) else bytes_text(int(value))


def _factor(factor: Factor) -> Dimension:
    return Dimension(
        name=factor.name,
        title=factor.title,
        text=factor.text,
        held=lambda value: f"{factor.title} {factor.text(value)}",
        unit="" if factor.unit == "word" else factor.unit,
        words=factor.words,
        implicit="" if factor.implicit is None else factor.implicit,
    )
