"""Build the curves of the study's figures: the means of each arm along one dimension, with their intervals."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_ipperf.core.portable.scaling import Unit
from pytest_ipperf.report.flow.curves import Curve, curves_of, no_interval, run_interval, values_of
from pytest_ipperf.report.flow.quantity import unit_of
from pytest_ipperf.report.flow.sweeps import Sweep, sweeps_along
from pytest_ipperf.report.studies.router.experiments import EXPERIMENTS, PLOTS, Experiment, StudyFigure
from pytest_ipperf.report.studies.router.summary import Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureCurves:
    """A figure: the `curves` along the values of `sweep`, in `unit`, with the number of `runs` behind each point.

    A `bare` figure has no intervals, like its table.
    """

    plot: StudyFigure
    experiment: Experiment
    sweep: Sweep
    unit: Unit
    curves: tuple[Curve, ...]
    runs: str
    bare: bool


def curves(summary: Summary) -> list[FigureCurves]:
    """Return the study's figures with at least two measured levels."""
    by_name = {each.name: each for each in EXPERIMENTS}
    found = [_curves(summary, plot, by_name[plot.experiment]) for plot in PLOTS]
    return [each for each in found if each is not None]


def _curves(summary: Summary, plot: StudyFigure, experiment: Experiment) -> FigureCurves | None:
    sweep = next(iter(sweeps_along(summary.cells(experiment), plot.dimension)), None)
    if sweep is None or len(sweep.values) < 2:
        return None
    found = curves_of(sweep, no_interval if summary.bare else run_interval)
    counts = sorted({len(point.side.values) for curve in found for point in curve.points})
    return FigureCurves(
        plot=plot,
        experiment=experiment,
        sweep=sweep,
        unit=unit_of(experiment.measured, values_of(found)),
        curves=tuple(sorted(found, key=lambda curve: summary.arms.index(curve.arm))),
        runs=f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}",
        bare=summary.bare,
    )
