"""Plot the study's six figures (Figs 4 to 9) from our own runs."""

from __future__ import annotations

from pytest_ipperf.report.studies.figures.curves import FigureCurves, figure_curves
from pytest_ipperf.report.studies.figures.plot import DrawnFigure
from pytest_ipperf.report.studies.figures.plot import draw as draw_curves
from pytest_ipperf.report.studies.router.experiments import EXPERIMENTS, PLOTS
from pytest_ipperf.report.studies.router.summary import Summary


def draw(summary: Summary) -> list[DrawnFigure]:
    """Return all figures with at least two measured levels."""
    return [draw_curves(each) for each in curves(summary)]


def curves(summary: Summary) -> list[FigureCurves]:
    """Return the curves of the study's figures with at least two measured levels."""
    by_name = {each.name: each for each in EXPERIMENTS}
    found = []
    for plot in PLOTS:
        experiment = by_name[plot.experiment]
        cells = summary.cells(experiment)
        if cells and (each := figure_curves(plot, experiment, cells)) is not None:
            found.append(each)
    return found
