"""The router study (paper 001): its Table V and its six figures, from our own records."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_ipperf.core.records.record import Record
from pytest_ipperf.report.studies.router.summary import summaries
from pytest_ipperf.report.studies.router.text import lines

__all__ = ["tables"]


def tables(records: Sequence[Record], width: int | None = None) -> list[str]:
    """Return Table V for each testbed and design, as lines; empty if less than two columns were measured."""
    return [line for each in summaries(records) for line in lines(each, width)]
