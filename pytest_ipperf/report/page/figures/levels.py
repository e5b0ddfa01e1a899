"""Describe the figure of a sweep: the change by level with its interval, and below it the means."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_ipperf.core.inference.effect import percent_text
from pytest_ipperf.core.portable.scaling import Unit
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.report.answer.words import short_title
from pytest_ipperf.report.flow.curves import Curve, CurvePoint, Scale, curves_of, scale_of, values_of
from pytest_ipperf.report.flow.quantity import unit_of
from pytest_ipperf.report.flow.sweeps import Sweep
from pytest_ipperf.report.page.figures.arm_styles import key, styles_of
from pytest_ipperf.report.page.figures.figure import Figure
from pytest_ipperf.report.page.figures.level_plot import by_size, change_plot, margins_differ, mean_plot
from pytest_ipperf.report.plot_style import is_spread
from pytest_ipperf.report.tables.intervals import deciding_interval, levels_text, wider_interval
from pytest_ipperf.report.tables.network_notes import testbed_text
from pytest_ipperf.report.tables.paragraphs import capital
from pytest_ipperf.report.workload_kinds import by_kind

_SCALES = {
    Scale.CUT: " The axis of the means does not begin at 0.",
    Scale.LOGARITHMIC: " The axis of the means is logarithmic.",
}


def level_sweeps(records: Sequence[Record]) -> list[Sweep]:
    """Return all sweeps with at least two levels."""
    found = [sweep for reports, own in by_kind(records) for sweep in reports.sweeps(own)]
    return [sweep for sweep in found if len(sweep.values) > 1]


def level_figure(sweep: Sweep, place: str = "") -> Figure:
    """Return the figure of a sweep; `place` says where it was measured, if the session has several places."""
    first, curves = sweep.records[0], curves_of(sweep)
    metric = METRICS[first.metric].metric
    unit = unit_of(metric, values_of(curves))
    title, protocol = short_title(metric), PROTOCOLS[first.protocol].title
    own = first.metric == first.protocol or title.startswith(protocol)
    shown = f"{capital(title) if own else f'{protocol} {title}'} by {sweep.dimension.title}{place}"
    styles = styles_of(curve.arm for curve in curves)
    judged = any(curve.judged for curve in curves)
    changes = [change_plot(sweep, curves, styles).html(f"{shown}: changes")] if judged else []
    means = mean_plot(sweep, curves, unit, styles, alone=not judged).html(f"{shown}: means")
    return Figure(
        title=shown,
        plots=[*changes, means],
        key=key(styles),
        caption=_caption(sweep, curves),
        head=(capital(sweep.dimension.title), *(_head(curve, unit, first) for curve in curves)),
        rows=[(text, *(_numbers(curve, at, unit) for curve in curves)) for at, text in enumerate(sweep.texts)],
    )


def _caption(sweep: Sweep, curves: Sequence[Curve]) -> str:
    first = sweep.records[0]
    counts = sorted({len(point.side.values) for curve in curves for point in curve.points})
    runs = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    over = "the epochs' means" if first.epochs > 1 else "the runs of one epoch"
    bars = "without intervals" if not first.judges else f"with 95 % t intervals over {over}"
    reference = first.reference.arm.title
    judged = any(curve.judged for curve in curves)
    own = margins_differ([curve for curve in curves if curve.judged])
    limits = "dashed, in its colour: the margin of each arm" if own else "dashed: the margin"
    records = [record for curve in curves for _, record in curve.judged]
    thin = ", thin where the 95 % interval is wider" if any(map(wider_interval, records)) else ""
    bar = f"the {levels_text(records)} interval that decides{thin}"
    above = f"Above: change against {reference} with {bar}; {limits}. Below: mean" if judged else "Mean"
    held = f"; {sweep.held}" if sweep.held else ""
    axes = _SCALES.get(scale_of(curves), "")
    axes += " Levels are placed by their logarithm." if is_spread(sweep.values, sizes=by_size(sweep)) else ""
    return f"{above} of {runs} runs for each arm, {bars}.{axes} {capital(testbed_text(sweep.records))}{held}."


def _head(curve: Curve, unit: Unit, first: Record) -> str:
    scale = f" ({unit.name})" if unit.name else ""
    changes = any(point.record and point.record.estimate is not None for point in curve.points)
    return f"{curve.arm.title}{scale}" + (f"; change ({first.change_unit})" if changes else "")


def _numbers(curve: Curve, at: int, unit: Unit) -> str:
    """Return the mean and the change at a level, each with its interval."""
    point = next((point for point in curve.points if point.at == at), None)
    return _point_text(point, unit) if point else ""


def _point_text(point: CurvePoint, unit: Unit) -> str:
    found, record = point.interval, point.record
    text = unit.text(point.side.mean) + (f" [{unit.text(found.low)}, {unit.text(found.high)}]" if found else "")
    if record is None or record.estimate is None:
        return text
    decides = deciding_interval(record)
    return f"{text}; {percent_text(record.estimate)}{f' {decides.text}' if decides else ''}"
