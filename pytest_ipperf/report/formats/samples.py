"""Samples: tidy CSV with a row for each connection, packet or reply of each run (docs/data.md)."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import BinaryIO

from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.report.data.tidy_rows import sample_blocks, sample_columns
from pytest_ipperf.report.formats.base import Report
from pytest_ipperf.report.tables.csv_text import csv_lines


@dataclass(frozen=True, kw_only=True)
class Samples(Report):
    """All samples of the runs that count; format `parquet` has the same in a fraction of the size."""

    name: str = "samples"
    title: str = "samples as CSV"
    suffix: str = ".samples.csv"

    def render(self, summary: SessionSummary) -> bytes:
        written = io.BytesIO()
        self.write(summary, written)
        return written.getvalue()

    def write(self, summary: SessionSummary, file: BinaryIO) -> None:
        blocks = ((tuple(block.first.values()), block.lines()) for block in sample_blocks(summary))
        file.writelines(piece.encode("utf-8", "replace") for piece in csv_lines(sample_columns(summary), blocks))


report = Samples()
