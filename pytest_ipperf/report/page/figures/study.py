"""Figures of the studies, as figures of a page."""

from __future__ import annotations

from pytest_ipperf.report.page.figures.figure import Figure, imported
from pytest_ipperf.report.studies.figures.plot import DrawnFigure


def study_figure(drawn: DrawnFigure, prefix: str) -> Figure:
    """Return a study's figure; ids in it begin with `prefix`."""
    title, caption = drawn.plot.heading, f"{drawn.caption}."
    return Figure(
        title=title,
        plots=[imported(drawn.bare, prefix, f"{title}. {caption}")],
        caption=caption,
        head=drawn.head,
        rows=drawn.rows,
    )
