"""Write CSV (RFC 4180), in the same form for all files of the project.

Figures have all their digits; None is an empty field. A text that a spreadsheet would take for a formula begins with an
apostrophe, as OWASP recommends ("CSV Injection"); numbers, also negative ones, do not.
"""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

_BATCH = 10_000
"""Maximum number of lines of a piece."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def csv_text(rows: Sequence[Mapping[str, Any]], *, head: Iterable[str] = (), end: str = "\r\n") -> str:
    """Return a header and a line for each row; the columns are those of the first row.

    `head` names the columns if there are no rows; `end` ends each line.
    """
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0] if rows else head), lineterminator=end)
    writer.writeheader()
    writer.writerows({name: _safe(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def csv_lines(head: Sequence[str], blocks: Iterable[tuple[Sequence[Any], Iterable[Sequence[Any]]]]) -> Iterator[str]:
    """Yield a header, and the lines of each block: values that all of its lines begin with, and the others of each.

    The others are numbers or None. Lines are those of `csv_text`, in pieces of limited size.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(head)
    for shared, rows in blocks:
        first = tuple(map(_safe, shared))
        lines = iter(rows)
        while batch := [*itertools.islice(lines, _BATCH)]:
            writer.writerows((*first, *line) for line in batch)
            yield text.getvalue()
            text.seek(0)
            text.truncate()
    yield text.getvalue()


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write one or more rows to a file; raise OSError if it cannot be written."""
    path.write_text(csv_text(rows), encoding="utf-8", newline="")


def _safe(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
