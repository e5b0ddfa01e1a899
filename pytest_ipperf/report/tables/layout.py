"""Lay out rows of text in aligned columns, split into as many parts as the width requires."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from pytest_ipperf.core.records.record import Record

Row = tuple[str, list[str]]
"""Title and cells of a row; a row without cells is a heading."""

_GAP = "  "
_UNBROKEN = "\N{NO-BREAK SPACE}"
_QUANTITY = re.compile(r"(?<=\d) (?=%|(?:pp|ms|us|s)\b)")
"""Space between a number and its unit."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table, to be written as text or HTML; `about` are the lines below its title.

    The first of the `rows` is the header. The titles of the others are an arm's or, indented by two spaces, that of a
    row of the arm above. `answers` are the records by arm's title and number of the column.
    """

    title: str
    about: tuple[str, ...]
    rows: tuple[Row, ...]
    answers: Mapping[str, Mapping[int, Record]] = field(default_factory=dict)

    def lines(self, width: int | None = None) -> list[str]:
        """Return the table as lines of at most `width` characters."""
        head = [part for line in (self.title, *self.about) for part in fitted(line, width)]
        return [*head, "", *aligned(self.rows, width)]


def fitted(line: str, width: int | None) -> list[str]:
    """Return a line as it is if it fits, else in lines of whole words, options and quantities, all but one indented."""
    if width is None or len(line) <= width:
        return [line]
    whole = _QUANTITY.sub(_UNBROKEN, line)
    parts = textwrap.wrap(whole, width, subsequent_indent=_GAP, break_on_hyphens=False)
    return [part.replace(_UNBROKEN, " ") for part in parts]


def refitted(lines: Iterable[str], width: int | None) -> Iterator[str]:
    """Yield lines with those of text that are too long wrapped anew, with the indented ones that continue them.

    Rows of a table, which have gaps of several spaces, stay as they are.
    """
    waiting = ""
    for line in lines:
        if waiting and line.startswith(_GAP):
            waiting = f"{waiting} {line.strip()}"
            continue
        if waiting:
            yield from fitted(waiting, width)
        waiting = line if width is not None and len(line) > width and _GAP not in line.strip() else ""
        if not waiting:
            yield line
    if waiting:
        yield from fitted(waiting, width)


def row(name: str, found: Mapping[int, T], columns: Sequence[int], text: Callable[[T], str], nothing: str = "") -> Row:
    """Return a row of the texts of `found`, by number of connections; `nothing` fills empty columns."""
    return name, [text(found[count]) if count in found else nothing for count in columns]


def aligned(rows: Sequence[Row], width: int | None = None) -> list[str]:
    """Return the rows as lines; the first row is the header.

    Columns that do not fit into `width` characters follow below, with their own headers, in parts of about the same
    size. A part has at least one column, however small the width.
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
    """Yield the start and end of each part: as few parts as possible, of sizes as even as possible."""
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
    """Yield parts of at most `most` columns, with as many as fit."""
    start = 0
    while start < len(widths):
        end, used = start + 1, len(_GAP) + widths[start]
        while end < len(widths) and end - start < most and used + len(_GAP) + widths[end] <= room:
            used += len(_GAP) + widths[end]
            end += 1
        yield start, end
        start = end
