"""Write CSV (RFC 4180), in the same form for all files of the project.

Figures have all their digits; None is an empty field. A text that a spreadsheet would take for a formula begins with an
apostrophe, as OWASP recommends ("CSV Injection"); numbers, also negative ones, do not.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

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


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write one or more rows to a file; raise OSError if it cannot be written."""
    path.write_text(csv_text(rows), encoding="utf-8", newline="")


def _safe(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
