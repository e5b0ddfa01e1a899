"""Plot the traffic study's figures: the curves of Figs 4, 5, 7 and 8, and the overhead of Fig. 6."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_ipperf.core.design.payload_preset import PRESETS
from pytest_ipperf.core.portable.traffic.carrier import TCP, UDP
from pytest_ipperf.core.portable.units import bytes_text
from pytest_ipperf.report.flow.curves import scale_of
from pytest_ipperf.report.plot_style import style_of
from pytest_ipperf.report.studies.figures.plot import DrawnFigure, draw, drawn, level_axis, level_places, where
from pytest_ipperf.report.studies.traffic.experiments import OVERHEAD
from pytest_ipperf.report.studies.traffic.overhead import CARRIERS, WireOverhead, headers, measured
from pytest_ipperf.report.studies.traffic.study import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SIZES = PRESETS["kharche"]
_LINES = {TCP: "-", UDP: ":"}
_SAID = "Lines: computed for messages sent alone, TCP with timestamps, MTU 1500"
_AT = level_places(_SIZES, sizes=True)


def draw_all(study: Study) -> list[DrawnFigure]:
    """Return all figures in the order of their numbers."""
    found = [draw(each, lambda of: scale_of(of.curves)) for each in study.curves]
    return sorted([*found, *([_overhead(study)] if study.has_sizes else [])], key=lambda each: each.plot.number)


def _overhead(study: Study) -> DrawnFigure:
    wire = measured(study)
    dots = f"; dots: on the wire; {where(study.records)}, design {study.design}" if wire else ""
    columns = [(carrier, arm) for carrier in CARRIERS for arm in study.arms]

    def fill(axes: Axes) -> None:
        for carrier, arm in columns:
            colour, marker, _ = style_of(arm)
            shares = [100 * headers(carrier, arm).overhead_share(size) for size in _SIZES]
            axes.plot(
                _AT, shares, color=colour, linestyle=_LINES[carrier], linewidth=1.4,
                label=f"{carrier.upper()}, {arm.title}",
            )  # fmt: skip
            own = [each for each in wire if (each.carrier, each.arm) == (carrier, arm) and each.payload_bytes in _SIZES]
            hollow: Any = "none" if carrier == UDP else "full"
            axes.plot(
                [_AT[_SIZES.index(each.payload_bytes)] for each in own], [100 * each.share for each in own],
                color=colour, marker=marker, linestyle="none", markersize=5, fillstyle=hollow,
            )  # fmt: skip
        level_axis(axes, list(map(bytes_text, _SIZES)), _AT, "payload in bytes (1k = 1024)")
        axes.set_ylabel("overhead in % of the bytes of IP packets")
        axes.set_ylim(bottom=0)

    svg, bare, png = drawn(
        OVERHEAD, f"{_SAID}{dots}", fill, [f"{carrier.upper()}, {arm.title}" for carrier, arm in columns]
    )
    return DrawnFigure(
        plot=OVERHEAD,
        caption=f"{_SAID}{dots}",
        head=("Payload", *(f"{carrier.upper()}, {arm.title} (%)" for carrier, arm in columns)),
        rows=tuple(
            (
                bytes_text(size),
                *(_text(headers(*each).overhead_share(size), _of(wire, *each, size)) for each in columns),
            )
            for size in _SIZES
        ),
        svg=svg,
        bare=bare,
        png=png,
    )


def _of(wire: list[WireOverhead], carrier: str, arm: object, size: int) -> list[WireOverhead]:
    return [each for each in wire if (each.carrier, each.arm, each.payload_bytes) == (carrier, arm, size)]


def _text(share: float, wire: list[WireOverhead]) -> str:
    """Return the computed overhead in percent, then those on the wire with the packets of a message."""
    seen = "; ".join(f"wire {100 * each.share:.2f} in {each.packets:.4g} packets" for each in wire)
    return f"{100 * share:.2f}{f' ({seen})' if seen else ''}"
