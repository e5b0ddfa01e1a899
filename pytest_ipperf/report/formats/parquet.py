"""Parquet: the samples in columns, compressed, for pandas, Polars, DuckDB, Spark; needs the package pyarrow."""

from __future__ import annotations

import io
from dataclasses import dataclass

from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.report.data.tidy_rows import SCHEMA, sample_columns, sample_rows
from pytest_ipperf.report.formats.base import Report


@dataclass(frozen=True, kw_only=True)
class Parquet(Report):
    """The columns of format `samples`; the file's metadata have the `schema` of the columns."""

    name: str = "parquet"
    title: str = "samples as Parquet"
    suffix: str = ".parquet"

    def render(self, summary: SessionSummary) -> bytes:
        try:
            import pyarrow as pa  # noqa: PLC0415 - optional
            import pyarrow.parquet as pq  # noqa: PLC0415
        except ImportError:
            raise UsageError(
                "--format: parquet needs the package pyarrow (pip install pyarrow); samples is the same as CSV"
            ) from None
        columns: dict[str, list[object]] = {name: [] for name in sample_columns(summary)}
        for row in sample_rows(summary):
            for name, values in columns.items():
                values.append(row[name])
        table = pa.table(columns).replace_schema_metadata({"pytest_ipperf_schema": f"{SCHEMA}"})
        written = io.BytesIO()
        pq.write_table(table, written, compression="zstd")
        return written.getvalue()


report = Parquet()
