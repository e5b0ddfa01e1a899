"""A factor: something of a protocol's own that is held equal within a workload, such as a window or an offered rate.

What every protocol has (testbed, connections, payload) is no factor of its own. It travels: Python 3.10, nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.units import bytes_text, parse_bytes, parse_rate, short_rate_text

Value = int | float | str
Unit = Literal["bytes", "bit/s", "word"]


@dataclass(frozen=True)
class Factor:
    """A factor of a protocol, one file of `protocols/` each.

    `levels` are measured where a test names none. A workload's text and a test's id name a level after the `mark`, as
    in `window64k`; of words the word alone, and nothing of the `implicit` level, which goes without saying.
    `words` are all that there are, where the unit is that.
    """

    name: str
    title: str
    unit: Unit
    levels: tuple[Value, ...]
    help: str
    mark: str = ""
    words: tuple[str, ...] = ()
    implicit: Value | None = None

    def parse(self, given: object) -> Value:
        """A level as people write it: `64k`, `10mbit`, `down`; UsageError where it makes no sense."""
        text = str(given).strip()
        if self.implicit is not None and text == str(self.implicit):
            return self.implicit
        if self.unit == "word":
            if text not in self.words:
                raise UsageError(f"{self.name} {text!r} does not exist; there are {', '.join(self.words)}")
            return text
        return parse_bytes(text) if self.unit == "bytes" else parse_rate(text)

    def text(self, value: Value) -> str:
        """The shortest form that `parse` reads: `64k`, `10mbit`, `down`."""
        if isinstance(value, str):
            return value
        return bytes_text(int(value)) if self.unit == "bytes" else short_rate_text(float(value))

    def level(self, value: Value) -> Level:
        """That value of this factor."""
        return Level(self.name, value, "" if value == self.implicit else f"{self.mark}{self.text(value)}")

    def level_from_text(self, text: str) -> Level | None:
        """The level that ids call so; None where they call none of this factor so."""
        try:
            value = self.parse(text.removeprefix(self.mark))
        except UsageError:
            return None
        level = self.level(value)
        return level if level.text == text else None


@dataclass(frozen=True, order=True)
class Level:
    """A value of a factor; `text` is what ids and the names of workloads say of it, empty where it is implicit."""

    name: str
    value: Value
    text: str


def levels_from_text(factors: Sequence[Factor], text: str) -> tuple[Level, ...]:
    """The levels of all factors, from what a workload's text says of those that are not implicit."""
    parts, found = text.split("-"), []
    for factor in factors:
        level = factor.level_from_text(parts[0]) if parts else None
        if level is not None:
            parts.pop(0)
        elif factor.implicit is not None:
            level = factor.level(factor.implicit)
        if level is not None:
            found.append(level)
    return tuple(found)


def values_of(levels: Sequence[Level]) -> Mapping[str, Value]:
    """The levels' values by the names of their factors."""
    return {level.name: level.value for level in levels}
