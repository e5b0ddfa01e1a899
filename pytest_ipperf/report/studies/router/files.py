"""Write the study's summary into the folder of a session's tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from pytest_ipperf.core.records.record import Record
from pytest_ipperf.report.studies.router.page import page
from pytest_ipperf.report.studies.router.plots import DrawnFigure, draw
from pytest_ipperf.report.studies.router.summary import Summary, summaries
from pytest_ipperf.report.studies.router.text import figures, lines, stamp
from pytest_ipperf.report.tables.csv_text import write_csv

TABLE = "table-V"


def write(records: Sequence[Record], folder: Path, made_at: datetime) -> None:
    """Writes Table V as text, figures and page, and the plots; nothing where there is nothing to make it of.

    The time `made_at`, which knows its zone, stands in text and page.

    Raises OSError where that cannot be written.
    """
    made, stamped = summaries(records), stamp(made_at)
    if not made:
        return
    text = "\n".join(line for summary in made for line in lines(summary, made=stamped))
    (folder / f"{TABLE}.txt").write_text(text, encoding="utf-8")
    write_csv(folder / f"{TABLE}.csv", [row for summary in made for row in figures(summary)])
    drawn = [(summary, draw(summary)) for summary in made]
    for name, plot in _named(drawn):
        (folder / f"{name}.svg").write_text(plot.svg, encoding="utf-8")
        (folder / f"{name}.png").write_bytes(plot.png)
    (folder / "router.html").write_text(page(drawn, stamped), encoding="utf-8")


def _named(drawn: Sequence[tuple[Summary, Sequence[DrawnFigure]]]) -> Iterator[tuple[str, DrawnFigure]]:
    """`figure-4`, and with testbed and design where there are several."""
    for summary, plots in drawn:
        first = summary.records[0]
        for plot in plots:
            name = f"figure-{plot.plot.number}"
            yield (name if len(drawn) == 1 else f"{name}-{first.testbed}-{first.design}"), plot
