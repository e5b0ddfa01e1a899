"""Write the files of a session's tables, in base units."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from pytest_ipperf.core.records.record import Record
from pytest_ipperf.report.page.tables.table_v import study_page
from pytest_ipperf.report.studies.figures.plot import DrawnFigure
from pytest_ipperf.report.studies.router.plots import draw
from pytest_ipperf.report.studies.router.summary import Summary, summaries
from pytest_ipperf.report.studies.router.text import figures, lines, stamp
from pytest_ipperf.report.tables.csv_text import write_csv
from pytest_ipperf.report.workload_kinds import by_kind

_TABLE = "table-V"


def write_tables(records: Sequence[Record], folder: Path, made_at: datetime) -> None:
    """Write `response-times.csv` and `flows.csv` into `folder`, and the studies' tables, as text and as figures.

    Each is written only if there are such records: the tables of paper 000 under design `paper`, those of paper 001
    under any, with the time `made_at`, which knows its zone. Raise OSError if that cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for reports, own in by_kind(records):
        if own:
            reports.write(own, folder)
    write_router_study(records, folder, made_at)


def write_router_study(records: Sequence[Record], folder: Path, made_at: datetime) -> None:
    """Write Table V of paper 001 as text, figures and page, and the plots; nothing if the records have none of it.

    Text and page state `made_at`. Raise OSError if that cannot be written.
    """
    made, stamped = summaries(records), stamp(made_at)
    if not made:
        return
    text = "\n".join(line for summary in made for line in lines(summary, made=stamped))
    (folder / f"{_TABLE}.txt").write_text(text, encoding="utf-8")
    write_csv(folder / f"{_TABLE}.csv", [row for summary in made for row in figures(summary)])
    drawn = [(summary, draw(summary)) for summary in made]
    for name, plot in _named(drawn):
        (folder / f"{name}.svg").write_text(plot.svg, encoding="utf-8")
        (folder / f"{name}.png").write_bytes(plot.png)
    (folder / "router.html").write_text(study_page(drawn, stamped), encoding="utf-8")


def _named(drawn: Sequence[tuple[Summary, Sequence[DrawnFigure]]]) -> Iterator[tuple[str, DrawnFigure]]:
    """Yield the names of plots: `figure-4`, with testbed and design if there are several tables."""
    for summary, plots in drawn:
        first = summary.records[0]
        for plot in plots:
            name = f"figure-{plot.plot.number}"
            yield (name if len(drawn) == 1 else f"{name}-{first.testbed}-{first.design}"), plot
