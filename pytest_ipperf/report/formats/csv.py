"""CSV: tidy rows of cells, each with its question and its answer, and one of the reference of each workload.

All figures are in base units with all digits; missing values are empty. Changes and margins have one unit.
"""

from __future__ import annotations

from dataclasses import dataclass

from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.report.data.cell_rows import cell_head, cell_rows
from pytest_ipperf.report.formats.base import Report
from pytest_ipperf.report.tables.csv_text import csv_text


@dataclass(frozen=True, kw_only=True)
class Csv(Report):
    """One table for all protocols, with columns of their own for properties of one kind."""

    name: str = "csv"
    title: str = "CSV"
    suffix: str = ".csv"

    def render(self, summary: SessionSummary) -> bytes:
        return csv_text(list(cell_rows(summary)), head=cell_head(summary)).encode("utf-8", "replace")


report = Csv()
