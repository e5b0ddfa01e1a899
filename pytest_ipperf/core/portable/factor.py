"""Factor: a protocol's own parameter that is held equal within a workload, such as a window or an offered rate.

Parameters of every protocol (testbed, connections, payload) are no factors. Travels to hosts: Python 3.10 alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.units import (
    bytes_text,
    count_text,
    parse_bytes,
    parse_count,
    parse_rate,
    short_rate_text,
)

Value = int | float | str
Unit = Literal["bytes", "bit/s", "query/s", "query", "connection", "word"]


def _whole(text: str) -> int:
    number = parse_count(text)
    if number != int(number):
        raise UsageError(f"number {text!r} is not a whole one such as 100 or 20k")
    return int(number)


_PARSERS: Mapping[str, Callable[[str], Value]] = {
    "bytes": parse_bytes,
    "bit/s": parse_rate,
    "query/s": parse_count,
    "query": _whole,
    "connection": _whole,
}
_TEXTS: Mapping[str, Callable[[int | float], str]] = {
    "bytes": lambda value: bytes_text(int(value)),
    "bit/s": lambda value: short_rate_text(float(value)),
    "query/s": count_text,
    "query": count_text,
    "connection": count_text,
}


@dataclass(frozen=True)
class StudySize:
    """Size of the measurement of one workload in a study, where it is another than that of design `paper`.

    `run_s` is the duration of a run, unless `--duration` gives one; None: the design's. With `in_order`, all runs of an
    arm are made before those of the next one, IPv4 first.
    """

    epochs: int
    blocks: int
    run_s: float | None = None
    in_order: bool = False


@dataclass(frozen=True)
class Factor:
    """Factor of a protocol.

    `levels` are measured where a test names none. A workload's text and a test's id name a level after the `mark`, as
    in `window64k`; a word stands alone, and the `implicit` level is left out. `words` are all possible values if the
    unit is "word", and values beside the numbers of any other unit; texts that match the regular expression `further`
    are too, such as names of a user's files. The implicit level of a `silent` factor changes nothing, so workloads and
    records do not have it.
    `study` is the size of the study that compares its levels.
    """

    name: str
    title: str
    unit: Unit
    levels: tuple[Value, ...]
    help: str
    mark: str = ""
    words: tuple[str, ...] = ()
    implicit: Value | None = None
    silent: bool = False
    further: str = ""
    study: StudySize | None = None

    def parse(self, given: object) -> Value:
        """Return the level of a text as people write it (`64k`, `10mbit`, `down`); raise UsageError if it is none."""
        text = str(given).strip()
        if self.implicit is not None and text == str(self.implicit):
            return self.implicit
        if text in self.words or (self.further and re.fullmatch(self.further, text)):
            return text
        if self.unit == "word":
            raise UsageError(f"{self.name} {text!r} does not exist; there are {', '.join(self.words)}")
        return _PARSERS[self.unit](text)

    def text(self, value: Value) -> str:
        """Return the shortest text that `parse` reads as this value: `64k`, `10mbit`, `down`."""
        if isinstance(value, str):
            return value
        return _TEXTS[self.unit](value)

    def level(self, value: Value) -> Level:
        """Return the level with this value."""
        return Level(self.name, value, "" if value == self.implicit else f"{self.mark}{self.text(value)}")

    def held(self, value: Value) -> tuple[Level, ...]:
        """Return the level with this value as a workload holds it; nothing if it is silent."""
        return () if self.silent and value == self.implicit else (self.level(value),)

    def level_from_text(self, text: str) -> Level | None:
        """Return the level that ids name by this text; None if the text names no level of this factor."""
        try:
            value = self.parse(text.removeprefix(self.mark))
        except UsageError:
            return None
        level = self.level(value)
        return level if level.text == text else None


@dataclass(frozen=True, order=True)
class Level:
    """Value of a factor; `text` stands for it in ids and names of workloads, empty if it is implicit."""

    name: str
    value: Value
    text: str


def levels_from_text(factors: Sequence[Factor], text: str) -> tuple[Level, ...]:
    """Return the levels of all factors from a workload's text, which leaves the implicit ones out."""
    parts, found = text.split("-") if text else [], []
    for factor in factors:
        level = factor.level_from_text(parts[0]) if parts else None
        if level is not None:
            parts.pop(0)
            found.append(level)
        elif factor.implicit is not None:
            found += factor.held(factor.implicit)
    return tuple(found)


def values_of(levels: Sequence[Level]) -> Mapping[str, Value]:
    """Return the levels' values by the names of their factors."""
    return {level.name: level.value for level in levels}
