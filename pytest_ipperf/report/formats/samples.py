"""Samples: tidy CSV with a row for each connection, packet or reply of each run (docs/data.md)."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.report.data.tidy_rows import sample_columns, sample_rows
from pytest_ipperf.report.formats.base import Report
from pytest_ipperf.report.tables.csv_text import csv_text


@dataclass(frozen=True, kw_only=True)
class Samples(Report):
    """All samples of the runs that count; format `parquet` has the same in a fraction of the size."""

    name: str = "samples"
    title: str = "samples as CSV"
    suffix: str = ".samples.csv"

    def render(self, summary: SessionSummary) -> bytes:
        return csv_text(list(sample_rows(summary)), head=sample_columns(summary)).encode("utf-8", "replace")


report = Samples()
