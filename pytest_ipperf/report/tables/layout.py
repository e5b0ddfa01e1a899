"""Lay out rows of text as aligned columns, in as many parts as the width requires."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from pytest_ipperf.core.records.record import Record

Row = tuple[str, list[str]]
"""What a row is called, and its cells; a row without cells is a heading."""

_GAP = "  "
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table before it is written as text or as a page: `about` are the lines below its title.

    The first of the `rows` heads the columns; the others are an arm's title or, after two spaces, a row of the arm
    above. `answers` has by arm's title and number of the column the record that stands there.
    """

    title: str
    about: tuple[str, ...]
    rows: tuple[Row, ...]
    answers: Mapping[str, Mapping[int, Record]] = field(default_factory=dict)

    def lines(self, width: int | None = None) -> list[str]:
        """The table as text of `width` characters at most."""
        return [self.title, *self.about, "", *aligned(self.rows, width)]


def row(name: str, found: Mapping[int, T], columns: Sequence[int], text: Callable[[T], str], nothing: str = "") -> Row:
    """A row of what was found by connections at once; `nothing` stands where there is none."""
    return name, [text(found[count]) if count in found else nothing for count in columns]


def aligned(rows: Sequence[Row], width: int | None = None) -> list[str]:
    """The rows as lines; the first row heads the columns.

    Columns that do not fit into `width` characters follow below, under their own heads, in parts of about the same
    size. A part has one column at least, however narrow the page.
    """
    count = max(len(cells) for _, cells in rows)
    filled = [(name, [*cells, *[""] * (count - len(cells))]) for name, cells in rows]
    wide = max(len(name) for name, _ in rows)
    widths = [max(len(cells[at]) for _, cells in filled) for at in range(count)]
    lines: list[str] = []
    for start, end in _parts(widths, None if width is None else width - wide):
        if lines:
            lines.append("")
        for name, cells in filled:
            shown = "".join(f"{_GAP}{cells[at]:>{widths[at]}}" for at in range(start, end))
            lines.append((name.ljust(wide) + shown).rstrip())
    return lines


def _parts(widths: Sequence[int], room: int | None) -> Iterator[tuple[int, int]]:
    """Where the parts begin and end: the least number of them, and of these the evenest that fits."""
    if room is None or not widths:
        yield 0, len(widths)
        return
    fewest = len(list(_greedy(widths, room, len(widths))))
    for most in range(-(-len(widths) // fewest), len(widths) + 1):
        found = list(_greedy(widths, room, most))
        if len(found) == fewest:
            yield from found
            return


def _greedy(widths: Sequence[int], room: int, most: int) -> Iterator[tuple[int, int]]:
    """Parts of `most` columns, or as many as fit."""
    start = 0
    while start < len(widths):
        end, used = start + 1, len(_GAP) + widths[start]
        while end < len(widths) and end - start < most and used + len(_GAP) + widths[end] <= room:
            used += len(_GAP) + widths[end]
            end += 1
        yield start, end
        start = end
