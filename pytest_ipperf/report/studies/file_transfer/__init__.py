"""The file-transfer study (paper 003): Tables 2 and 3, the plot of Fig. 4, and the soak verdict."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pytest_ipperf.core.records.record import Record
from pytest_ipperf.report.studies.file_transfer.plots import CoursePlot, draw
from pytest_ipperf.report.studies.file_transfer.soak import NOTES as SOAK_NOTES
from pytest_ipperf.report.studies.file_transfer.soak import soak_tables
from pytest_ipperf.report.studies.file_transfer.tables import table_2, table_3, transfers
from pytest_ipperf.report.tables.layout import Table

__all__ = ["CoursePlot", "plots", "tables", "write"]

_NOTES = (
    "Table 2: octets that the client's interface counted, which are the same for both IP versions on a full link; the",
    "ceiling at 100 Mbit/s is 1514 of 1538 bytes, 98.44. Goodput is what a reader of the file sees. Sizes are in MiB,",
    "those of the study in MB.",
)


def tables(records: Sequence[Record]) -> tuple[list[Table], list[str]]:
    """Return the tables of a session with file transfers, and their notes; none without them."""
    groups = transfers(records)
    if not groups:
        return [], []
    soaks = [table for own in groups.values() for table in soak_tables(own)]
    found = [*(table_2(own) for _, own in sorted(groups.items())), *table_3(records), *soaks]
    return found, [*_NOTES, *(SOAK_NOTES if soaks else ())]


def plots(records: Sequence[Record]) -> list[CoursePlot]:
    """Return the plots of a session's file transfers."""
    return [plot for _, own in sorted(transfers(records).items()) for plot in draw(own)]


def write(records: Sequence[Record], folder: Path) -> None:
    """Write the plots as SVG and PNG; raise OSError if they cannot be written."""
    for plot in plots(records):
        (folder / f"{plot.name}.svg").write_text(plot.svg, encoding="utf-8")
        (folder / f"{plot.name}.png").write_bytes(plot.png)
