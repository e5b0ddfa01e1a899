"""Parquet: the samples in columns, compressed, for pandas, Polars, DuckDB, Spark; needs the package pyarrow."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any, BinaryIO

from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.report.data.tidy_rows import SCHEMA, SampleBlock, sample_blocks, sample_columns, sampled_runs
from pytest_ipperf.report.formats.base import Report

_GROUP = 1 << 17
"""Number of rows of a row group, which is held in memory; runs are collected until they fill one."""


@dataclass(frozen=True, kw_only=True)
class Parquet(Report):
    """The columns of format `samples`; the file's metadata have the `schema` of the columns."""

    name: str = "parquet"
    title: str = "samples as Parquet"
    suffix: str = ".parquet"

    def render(self, summary: SessionSummary) -> bytes:
        written = io.BytesIO()
        self.write(summary, written)
        return written.getvalue()

    def write(self, summary: SessionSummary, file: BinaryIO) -> None:
        try:
            import pyarrow as pa  # noqa: PLC0415 - optional
            import pyarrow.parquet as pq  # noqa: PLC0415
        except ImportError:
            raise UsageError(
                "--format: parquet needs the package pyarrow (pip install pyarrow); samples is the same as CSV"
            ) from None
        names, shared = sample_columns(summary), sampled_runs(summary)
        types = {name: pa.array([each[name] for each in shared]).type for name in (shared[0] if shared else names)}
        kinds = {"sample": pa.int64(), **dict.fromkeys(names, pa.float64()), **types}
        schema = pa.schema([(name, kinds[name]) for name in names], {"pytest_ipperf_schema": f"{SCHEMA}"})

        def table(block: SampleBlock) -> Any:
            def column(name: str) -> Any:
                if name in block.first:
                    return pa.repeat(pa.scalar(block.first[name], kinds[name]), block.count)
                if name == "sample":
                    return pa.array(range(block.count), kinds[name])
                values = block.columns[name]
                return pa.nulls(block.count, kinds[name]) if values is None else pa.array(values, kinds[name])

            return pa.Table.from_arrays([column(name) for name in names], schema=schema)

        with pq.ParquetWriter(file, schema, compression="zstd") as writer:
            waiting: list[Any] = []
            for block in sample_blocks(summary):
                waiting.append(table(block))
                if sum(each.num_rows for each in waiting) >= _GROUP:
                    writer.write_table(pa.concat_tables(waiting), row_group_size=_GROUP)
                    waiting.clear()
            if waiting:
                writer.write_table(pa.concat_tables(waiting), row_group_size=_GROUP)


report = Parquet()
