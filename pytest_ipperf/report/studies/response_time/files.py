"""Write the study's tables into the folder of a session's tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_ipperf.core.records.record import Record
from pytest_ipperf.report.studies.response_time import study_notes, study_tables
from pytest_ipperf.report.tables.csv_text import write_csv


def write(records: Sequence[Record], folder: Path) -> None:
    """Write each table as text, and as CSV with all digits; raise OSError if a file cannot be written."""
    texts: dict[str, list[str]] = {}
    figures: dict[str, list[Mapping[str, Any]]] = {}
    for table in study_tables(records):  # tables of several servers or payloads follow each other
        texts.setdefault(table.name, []).extend(table.lines())
        figures.setdefault(table.name, []).extend(table.figures)
    for name, lines in texts.items():
        text = "\n".join([*lines, *study_notes(records)]) + "\n"
        (folder / f"table-{name}.txt").write_text(text, encoding="utf-8")
        write_csv(folder / f"table-{name}.csv", figures[name])
