"""Build the curves of a figure of the study: for each arm its means along one dimension, with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.portable.errors import InvalidError
from pytest_ipperf.core.portable.scaling import Unit
from pytest_ipperf.core.records.record import ArmSummary
from pytest_ipperf.core.stats.interval import Interval, t_interval
from pytest_ipperf.report.flow.quantity import unit_of
from pytest_ipperf.report.flow.sweeps import Sweep, sweeps_along
from pytest_ipperf.report.flow.tables import references
from pytest_ipperf.report.studies.router.experiments import EXPERIMENTS, PLOTS, Experiment, StudyFigure
from pytest_ipperf.report.studies.router.summary import Summary

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanPoint:
    """An arm's mean at the level of that number, in the metric's base unit; without an interval of a single run."""

    at: int
    mean: float
    interval: Interval | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureCurves:
    """One figure: `points` by arm along the values of `sweep`, in `unit`; and from how many runs each is.

    Without intervals where those of the table are `bare`.
    """

    plot: StudyFigure
    experiment: Experiment
    sweep: Sweep
    unit: Unit
    points: dict[Arm, tuple[MeanPoint, ...]]
    runs: str
    bare: bool


def curves(summary: Summary) -> list[FigureCurves]:
    """The study's figures of which two levels at least were measured."""
    by_name = {each.name: each for each in EXPERIMENTS}
    found = [_curves(summary, plot, by_name[plot.experiment]) for plot in PLOTS]
    return [each for each in found if each is not None]


def _curves(summary: Summary, plot: StudyFigure, experiment: Experiment) -> FigureCurves | None:
    sweep = next(iter(sweeps_along(summary.cells(experiment), plot.dimension)), None)
    if sweep is None or len(sweep.values) < 2:
        return None
    sides: dict[Arm, dict[int, ArmSummary]] = {
        summary.arms[0]: {at: record.reference for at, record in references(sweep.records, sweep).items()}
    }
    for record in sweep.records:
        sides.setdefault(record.test.arm, {})[sweep.column(record)] = record.test
    all_sides = [side for of_arm in sides.values() for side in of_arm.values()]
    counts = sorted({len(side.values) for side in all_sides})
    return FigureCurves(
        plot=plot,
        experiment=experiment,
        sweep=sweep,
        unit=unit_of(experiment.measured, [side.mean for side in all_sides]),
        points={arm: _points(sides[arm], bare=summary.bare) for arm in summary.arms if arm in sides},
        runs=f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}",
        bare=summary.bare,
    )


def _points(sides: dict[int, ArmSummary], *, bare: bool) -> tuple[MeanPoint, ...]:
    return tuple(
        MeanPoint(at=at, mean=sides[at].mean, interval=None if bare else _interval(sides[at].values))
        for at in sorted(sides)
    )


def _interval(values: Sequence[float]) -> Interval | None:
    try:
        return t_interval(values, CONFIDENCE)
    except InvalidError:
        return None
