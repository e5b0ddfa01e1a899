"""Runs: tidy CSV with a row for each run and metric, for plots and for statistics of one's own (docs/data.md)."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.report.data.tidy_rows import run_columns, run_rows
from pytest_ipperf.report.formats.base import Report
from pytest_ipperf.report.tables.csv_text import csv_text


@dataclass(frozen=True, kw_only=True)
class Runs(Report):
    """All runs that count, of all arms."""

    name: str = "runs"
    title: str = "runs as CSV"
    suffix: str = ".runs.csv"

    def render(self, summary: SessionSummary) -> bytes:
        return csv_text(list(run_rows(summary)), head=run_columns(summary)).encode("utf-8", "replace")


report = Runs()
