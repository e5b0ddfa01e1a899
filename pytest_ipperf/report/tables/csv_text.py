"""Write CSV (RFC 4180), the same for all files of the project.

All figures have all their digits; what is None stays empty. A text that a spreadsheet would take for a formula has an
apostrophe before it, as OWASP has it ("CSV Injection"); numbers, also negative ones, have none.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def csv_text(rows: Sequence[Mapping[str, Any]], *, head: Iterable[str] = (), end: str = "\r\n") -> str:
    """Return a line for each row below the names of their columns, which are all those of the first.

    `head` names the columns where there may be no row; `end` ends each line.
    """
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0] if rows else head), lineterminator=end)
    writer.writeheader()
    writer.writerows({name: _safe(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows, of which there is one at least, as a file; raise OSError if it cannot be written."""
    path.write_text(csv_text(rows), encoding="utf-8", newline="")


def _safe(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
