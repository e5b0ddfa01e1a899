"""The traffic study (paper 004): Table 1, what its text says beside ours, and its figures, from our own records."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pytest_ipperf.core.records.record import Record
from pytest_ipperf.report.studies.figures.plot import DrawnFigure
from pytest_ipperf.report.studies.traffic import tables as study_tables
from pytest_ipperf.report.studies.traffic.overhead import overhead_figures
from pytest_ipperf.report.studies.traffic.plots import draw_all
from pytest_ipperf.report.studies.traffic.study import studies
from pytest_ipperf.report.tables.csv_text import write_csv
from pytest_ipperf.report.tables.layout import Table

__all__ = ["plots", "tables", "write"]


def tables(records: Sequence[Record]) -> tuple[list[Table], list[str]]:
    """Return the tables of a session with a payload sweep, and their notes; none without one."""
    made = studies(records)
    notes = dict.fromkeys(note for study in made for note in study_tables.notes(study))
    return [table for study in made for table in study_tables.tables(study)], list(notes)


def plots(records: Sequence[Record]) -> list[tuple[str, DrawnFigure]]:
    """Return the figures of a session with a payload sweep, with their names: `traffic-figure-4`."""
    made = studies(records)
    return [
        (f"traffic-figure-{each.plot.number}{'' if len(made) == 1 else f'-{study.design}'}", each)
        for study in made
        for each in draw_all(study)
    ]


def write(records: Sequence[Record], folder: Path) -> None:
    """Write the figures as SVG and PNG, and `overhead.csv`; nothing without a payload sweep.

    Raise OSError if they cannot be written.
    """
    for name, each in plots(records):
        (folder / f"{name}.svg").write_text(each.svg, encoding="utf-8")
        (folder / f"{name}.png").write_bytes(each.png)
    rows = [row for study in studies(records) for row in overhead_figures(study)]
    if rows:
        write_csv(folder / "overhead.csv", rows)
