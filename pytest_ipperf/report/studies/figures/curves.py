"""Build the curves of a study's figure: the means of each arm along one dimension, with their intervals."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_ipperf.core.portable.scaling import Unit
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.report.flow.curves import Curve, curves_of, no_interval, run_interval, values_of
from pytest_ipperf.report.flow.quantity import unit_of
from pytest_ipperf.report.flow.sweeps import Sweep, sweeps_along
from pytest_ipperf.report.studies.figures.experiment import Experiment, StudyFigure


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureCurve(Curve):
    """A curve with its `label`; `setting` counts the testbeds, or other conditions, that a figure shows side by side.

    `records` are the cells of its setting.
    """

    label: str
    setting: int
    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureCurves:
    """A figure: the `curves` along the values of `sweep`, in `unit`, with the number of `runs` behind each point.

    A `bare` figure has no intervals.
    """

    plot: StudyFigure
    experiment: Experiment
    sweep: Sweep
    unit: Unit
    curves: tuple[FigureCurve, ...]
    runs: str
    bare: bool


def is_bare(records: Sequence[Record]) -> bool:
    """Return whether records of one design have no meaningful interval: it has several epochs, and never judges."""
    return not records[0].judges and records[0].epochs > 1


def figure_curves(
    plot: StudyFigure, experiment: Experiment, records: Sequence[Record], *, most: int = 1
) -> FigureCurves | None:
    """Return the curves of a figure from records of one design, of up to `most` settings; None below two levels.

    Settings are testbeds, and combinations of the levels that a figure does not vary. Those with the most levels, and
    of these the first, are shown, in their order.
    """
    sweeps = [
        (testbed, sweep)
        for testbed in dict.fromkeys(record.testbed for record in records)
        for sweep in sweeps_along([each for each in records if each.testbed == testbed], plot.dimension)
        if len(sweep.values) > 1
    ]
    if not sweeps:
        return None
    chosen = sorted(sorted(range(len(sweeps)), key=lambda at: -len(sweeps[at][1].values))[:most])
    shown = [sweeps[at] for at in chosen]
    axis, bare = shown[0][1].dimension, is_bare(records)
    values = tuple(sorted({value for _, sweep in shown for value in sweep.values}, key=axis.rank))
    texts = _labels(shown)
    found = tuple(
        FigureCurve(
            arm=curve.arm,
            points=curve.points,
            label=f"{curve.arm.title}{texts[setting] and f', {texts[setting]}'}",
            setting=setting,
            records=sweep.records,
        )
        for setting, (_, sweep) in enumerate(shown)
        for curve in curves_of(dataclasses.replace(sweep, values=values), no_interval if bare else run_interval)
    )
    counts = sorted({len(point.side.values) for curve in found for point in curve.points})
    return FigureCurves(
        plot=plot,
        experiment=experiment,
        sweep=Sweep(
            dimension=axis,
            values=values,
            held=shown[0][1].held if len({sweep.held for _, sweep in shown}) == 1 else "",
            records=tuple(record for _, sweep in shown for record in sweep.records),
        ),
        unit=unit_of(experiment.measured, values_of(found)),
        curves=found,
        runs=f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}",
        bare=bare,
    )


def _labels(shown: Sequence[tuple[str, Sweep]]) -> list[str]:
    """Return what tells each setting from the others; empty for a single one."""
    testbeds, helds = {testbed for testbed, _ in shown}, {sweep.held for _, sweep in shown}
    return [
        ", ".join([*([testbed] if len(testbeds) > 1 else []), *([sweep.held] if len(helds) > 1 else [])])
        for testbed, sweep in shown
    ]
