"""Plot the distribution of single samples: the ECDF with its percentiles, and the upper tail on a logarithmic scale.

Failures never complete, so curves with failures end below 100 %.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.portable.scaling import Unit, number
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.report.flow.quantity import shown_time_unit
from pytest_ipperf.report.page.figures.arm_styles import ArmStyle, key, styles_of
from pytest_ipperf.report.page.figures.axis import Axis, linear, logarithmic
from pytest_ipperf.report.page.figures.figure import Figure
from pytest_ipperf.report.page.figures.plot import Plot, Point
from pytest_ipperf.report.tables.arm_rows import arm_rank

_POINTS = 100
"""Number of samples above which this many quantiles are drawn: closer ones would share a pixel."""
_WIDE = 12
"""Ratio of the axis' end to its beginning from which it is logarithmic."""
_SHARES = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999)
_MARKED = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_DRAWN = (0.005, 0.995)
"""Shares at which the axis begins and ends, so that single outliers do not compress the others."""
_FEWEST_BEYOND = 3
"""Minimum number of samples beyond the last point of a tail: fewer are no quantile."""
Samples = Mapping[tuple[str, Arm], Sequence[float]]


@dataclass(frozen=True, slots=True)
class Sorted:
    """Sorted times of completed samples, and the number `attempted`."""

    seconds: tuple[float, ...]
    attempted: int

    def quantile(self, share: float) -> float:
        """Return the smallest time within which a share was done; infinite if it never was."""
        at = max(0, math.ceil(share * self.attempted) - 1)
        return self.seconds[at] if at < len(self.seconds) else math.inf

    def within(self, share: float) -> float:
        """Return the quantile, or the slowest completed time if the share was never done."""
        return min(self.quantile(share), self.seconds[-1])

    def curve(self, unit: Unit) -> tuple[list[float], list[float]]:
        """Return times in `unit` and the percentages done by then: all of few samples, else quantiles."""
        count = len(self.seconds)
        steps = range(count) if count <= _POINTS else [round(at * (count - 1) / (_POINTS - 1)) for at in range(_POINTS)]
        x = [self.seconds[at] / unit.size for at in steps]
        y = [100 * (at + 1) / self.attempted for at in steps]
        return ([x[0], *x], [0.0, *y]) if x else ([], [])

    def tail(self, unit: Unit) -> list[Point]:
        """Return points of the upper tail: times in `unit`, and the percentage that was slower."""
        shares = [10 ** (-at / 12) for at in range(12 * 5)]
        kept = [share for share in shares if share * self.attempted >= _FEWEST_BEYOND]
        found = ((self.quantile(1 - share), 100 * share) for share in kept)
        return [(time / unit.size, slower) for time, slower in found if math.isfinite(time)]


def spread_figure(
    workload: str, record: Record, samples: Samples, title: str, *, only: Collection[Arm] = ()
) -> Figure | None:
    """Return the figure of a workload with all arms, or only some; None if no samples are kept.

    `workload` is the name under which `samples` have them: `SessionSummary.measured_as`.
    """
    arms = sorted((arm for name, arm in samples if name == workload and (not only or arm in only)), key=arm_rank)
    found = {arm: _sorted(samples[workload, arm]) for arm in arms}
    found = {arm: each for arm, each in found.items() if each.attempted}
    if not any(each.seconds for each in found.values()):
        return None
    what = PROTOCOLS[record.protocol].samples_title
    unit = shown_time_unit(max(each.within(_DRAWN[1]) for each in found.values() if each.seconds))
    failed = any(len(each.seconds) < each.attempted for each in found.values())
    ends = " A curve that ends below 100 % belongs to an arm with failures, which never completed." if failed else ""
    wide = ", which is logarithmic" if _is_wide(found) else ""
    styles = styles_of(found)
    label = f"{what.removesuffix('s')}, {unit.name}"
    of = workload if workload == record.workload else f"the fresh epochs of {record.workload}"
    quantiles = "; ".join(f"{arm.title}: {_quantiles(each, unit)}" for arm, each in found.items())
    return Figure(
        title=f"{title}: distribution of {what}",
        plots=[
            _ecdf(found, styles, unit, label).html(f"ECDF of the {what} of {of}. {quantiles}."),
            _upper_tail(found, styles, unit, label).html(f"Upper tail of the {what} of {of}. {quantiles}."),
        ],
        key=key(styles),
        caption=f"{quantiles}. All runs of {of} together, failed connections or probes as infinitely slow. First plot: "
        f"markers at p50, p95 and p99; the fastest and slowest {100 * _DRAWN[0]:g} % may lie beyond its axis{wide}. "
        f"Second plot: the same samples from above; markers where 10 %, 1 % and so on took longer.{ends}",
        pair=True,
        head=(
            "arm", "number", "done", *(f"{100 * share:g} % ({unit.name})" for share in _SHARES),
            f"slowest ({unit.name})",
        ),
        rows=[_row(arm, each, unit) for arm, each in found.items()],
    )  # fmt: skip


def _sorted(samples: Sequence[float]) -> Sorted:
    return Sorted(tuple(sorted(filter(math.isfinite, map(float, samples)))), len(samples))


def _text(seconds: float, unit: Unit) -> str:
    return unit.text(seconds) if math.isfinite(seconds) else "never"


def _quantiles(found: Sorted, unit: Unit) -> str:
    texts = (f"{name} {_text(found.quantile(share), unit)}" for name, share in _MARKED.items())
    return f"{', '.join(texts)} {unit.name}"


def _row(arm: Arm, found: Sorted, unit: Unit) -> tuple[str, ...]:
    done = f"{number(100 * len(found.seconds) / found.attempted, 4)} %"
    times = (_text(found.quantile(share), unit) for share in (*_SHARES, 1.0))
    return arm.title, f"{found.attempted}", done, *times


def _ends(found: Mapping[Arm, Sorted]) -> tuple[float, float]:
    """Return the ends of the axis, in seconds."""
    completed = [each for each in found.values() if each.seconds]
    return min(each.within(_DRAWN[0]) for each in completed), max(each.within(_DRAWN[1]) for each in completed)


def _is_wide(found: Mapping[Arm, Sorted]) -> bool:
    """Return whether the axis is logarithmic."""
    low, high = _ends(found)
    return low > 0 and _WIDE * low < high


def _ecdf(found: Mapping[Arm, Sorted], styles: Mapping[Arm, ArmStyle], unit: Unit, label: str) -> Plot:
    ends = [each / unit.size for each in _ends(found)]
    x = logarithmic(ends, room=1.05) if _is_wide(found) else linear(ends, room=0.03)
    y = Axis(low=0, high=102, ticks=tuple((at, f"{at} %") for at in (0, 25, 50, 75, 100)))
    plot = Plot(x, y, x_title=label, y_title="done within that time, % of all")
    for arm, each in found.items():
        times, shares = each.curve(unit)
        points = [(time, share) for time, share in zip(times, shares, strict=True) if x.holds(time)]
        plot.line(points, styles[arm].name, steps=True)
        marked = [(each.quantile(share) / unit.size, 100 * share) for share in _MARKED.values()]
        plot.dots([point for point in marked if x.holds(point[0])], styles[arm])
    return plot


def _upper_tail(found: Mapping[Arm, Sorted], styles: Mapping[Arm, ArmStyle], unit: Unit, label: str) -> Plot:
    tails = {arm: each.tail(unit) for arm, each in found.items()}
    points = [point for tail in tails.values() for point in tail if point[0] > 0] or [(1.0, 100.0)]
    wide = max(x for x, _ in points) > _WIDE * min(x for x, _ in points)
    x = logarithmic([x for x, _ in points], room=1.05) if wide else linear([x for x, _ in points], room=0.03)
    y = logarithmic([100.0, *(share for _, share in points)])
    decades = tuple((10.0**at, f"{10.0**at:g} %") for at in range(-2, 3) if y.low <= 10.0**at <= y.high)
    y = Axis(low=y.low, high=y.high, ticks=decades, log=True)
    plot = Plot(x, y, x_title=label, y_title="took longer, % of all", height="low")
    for arm, tail in tails.items():
        inside = [(time, share) for time, share in tail if time > 0]
        plot.line(inside, styles[arm].name)
        plot.dots(inside[12::12], styles[arm])
    return plot
