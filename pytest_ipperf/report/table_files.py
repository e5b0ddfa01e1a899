"""Write the files of a session's tables. All is in base units, times in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from pytest_ipperf.core.records.record import Record
from pytest_ipperf.report.workload_kinds import by_kind


def write_tables(records: Sequence[Record], folder: Path, made_at: datetime) -> None:
    """Writes `response-times.csv` and `flows.csv` into `folder`, and the studies' tables, as text and as figures.

    Each only where there are such records; the tables of paper 000 under design `paper`, those of paper 001 under any,
    with the time `made_at`, which knows its zone. Raises OSError where that cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for reports, own in by_kind(records):
        if own:
            reports.write(own, folder, made_at)
