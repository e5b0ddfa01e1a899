"""Table V as text and as figures: a group of rows for each experiment, with a row for each arm."""

from __future__ import annotations

import textwrap
from datetime import UTC, datetime
from typing import Any

from pytest_ipperf import __version__
from pytest_ipperf.core.portable.units import seconds_text
from pytest_ipperf.core.stats.interval import Interval
from pytest_ipperf.report.studies.figures.experiment import Experiment
from pytest_ipperf.report.studies.router.grades import GRADES
from pytest_ipperf.report.studies.router.summary import ArmRatio, Summary
from pytest_ipperf.report.tables.layout import Row, Table
from pytest_ipperf.report.tables.network_notes import bucket_notes, testbed_text

TITLE = "Table V of paper 001 again: figures of IPv6 and tunnels relative to IPv4"
_SPREAD = "The cells' standard errors are combined, degrees of freedom after Welch and Satterthwaite."
_GRADE = "Grade: those of the interval's ends by the study's own bounds, relative to IPv4:"
_PAPERS_GRADE = "The study's grades are by its own bounds, relative to IPv4:"
_NONE = "-"
_WIDTH = 120


def lines(summary: Summary, width: int | None = None, made: str = "") -> list[str]:
    """Return the table with its notes, as lines; `made` is the `stamp` of a file."""
    below = [line for note in notes(summary) for line in textwrap.wrap(note, _WIDTH, subsequent_indent="  ")]
    return [*table(summary, made).lines(width), "", *below, ""]


def table(summary: Summary, made: str = "") -> Table:
    """Return the table without notes."""
    rows: list[Row] = [("", ["", "95 % interval", "grade", "paper", "its grade"])]
    for experiment in summary.experiments:
        rows.append((f"{experiment.title}, {experiment.scale}", []))
        rows += [_row(summary.ratios[experiment.name, arm]) for arm in summary.arms]
    return Table(title=TITLE, about=(where(summary), f"{made}{how(summary)}"), rows=tuple(rows))


def stamp(made_at: datetime) -> str:
    """Return the time and program that made a file: `2026-11-22 00:30 UTC, pytest-ipperf 0.1.0; `."""
    return f"{made_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC, pytest-ipperf {__version__}; "


def where(summary: Summary) -> str:
    """Return the description of the testbed."""
    return testbed_text(summary.records)


def how(summary: Summary) -> str:
    """Return the design, with the number and length of the runs of each arm in each cell."""
    first, records = summary.records[0], summary.records
    seeds = ", ".join(map(str, sorted({record.seed for record in records})))
    lengths = " or ".join(seconds_text(run_s) for run_s in sorted({record.run_s for record in records}))
    counts = sorted({record.epochs * record.blocks for record in records})
    runs = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    never = "" if first.judges else " (never judges)"
    return f"design {first.design}{never}, {runs} runs of {lengths} for each arm of a cell, seed {seeds}"


def notes(summary: Summary) -> list[str]:
    """Return the notes on the figures, a sentence or two each."""
    first = summary.records[0]
    counts = "; ".join(f"{each.title} {_cells(summary, each)}" for each in summary.experiments)
    ratio = f"Of IPv4: the mean of the cells' log ratios ({counts}), as the study does not state its own method."
    unit = "blocks of one epoch, without the variation between epochs"
    bounds = f"rates {_bounds(percent=True)}; times and losses {_bounds(percent=False)}."
    spread = [
        f"{ratio} {_SPREAD}",
        f"The intervals are of {unit}." if first.epochs == 1 else "The intervals are of epochs.",
        f"{_GRADE} {bounds}",
    ]
    bare = [ratio, f"Design {first.design} never judges: no intervals, no grades.", f"{_PAPERS_GRADE} {bounds}"]
    return [
        *(bare if summary.bare else spread),
        *bucket_notes(summary.records),
        *summary.notes,
        *(f"{each.experiment.title} of {each.arm.title}: {each.why}." for each in summary.ratios.values() if each.why),
    ]


def ratio_text(ratio: float, experiment: Experiment, digits: int = 0) -> str:
    """Return a ratio as the study prints it, with further `digits`: 0.985 -> `98.5 %`, 1.04 -> `1.04`."""
    if ratio == 1.0:
        return "100 %" if experiment.percent else "1.00"
    if experiment.percent:
        return f"{100 * ratio:.{1 + digits}f} %"
    return f"{ratio:.{2 + digits}f}"


def paper_text(arm_ratio: ArmRatio) -> str:
    """Return the study's ratio with the digits that it printed."""
    if arm_ratio.paper is None:
        return _NONE
    exact = round(arm_ratio.paper, 2) == arm_ratio.paper
    return ratio_text(arm_ratio.paper, arm_ratio.experiment, 0 if exact or arm_ratio.experiment.percent else 1)


def own_text(arm_ratio: ArmRatio) -> str:
    """Return our own ratio, with as many digits as its interval justifies."""
    if arm_ratio.is_reference:
        return ratio_text(1.0, arm_ratio.experiment)
    if arm_ratio.ratio is None:
        return _NONE
    more = 0 if arm_ratio.bare else digits(arm_ratio.ratio, arm_ratio.experiment)
    return ratio_text(arm_ratio.ratio.estimate, arm_ratio.experiment, more)


def interval_text(ratio: Interval, experiment: Experiment) -> str:
    """Return the ends of an interval in the unit of the ratio: `[98.4, 98.6]`."""
    ends = (
        ratio_text(end, experiment, digits(ratio, experiment)).removesuffix(" %") for end in (ratio.low, ratio.high)
    )
    return f"[{', '.join(ends)}]"


def digits(ratio: Interval, experiment: Experiment) -> int:
    """Return the number of further digits that make the interval, and its side of a grade's bound, visible."""
    return 1 if ratio.high - ratio.low < (0.01 if experiment.percent else 0.1) else 0


def figures(summary: Summary) -> list[dict[str, Any]]:
    """Return a row for each experiment and arm, with all digits; all ratios are multiples."""
    first = summary.records[0]
    return [
        {
            "testbed": first.testbed, "design": first.design, "experiment": arm_ratio.experiment.name,
            "arm": str(arm_ratio.arm), "cells": arm_ratio.cells or None,
            **_of(arm_ratio),
            "best_grade": arm_ratio.graded.best.name if arm_ratio.graded else None,
            "worst_grade": arm_ratio.graded.worst.name if arm_ratio.graded else None,
            "paper": arm_ratio.paper,
            "paper_grade": arm_ratio.paper_grade.name if arm_ratio.paper_grade else None,
            "why_none": arm_ratio.why,
        }
        for arm_ratio in (summary.ratios[each.name, arm] for each in summary.experiments for arm in summary.arms)
    ]  # fmt: skip


def _row(arm_ratio: ArmRatio) -> Row:
    name = f"  {arm_ratio.arm.title}"
    paper = [paper_text(arm_ratio), arm_ratio.paper_grade.name if arm_ratio.paper_grade else _NONE]
    interval = _NONE if arm_ratio.bare else ""
    if arm_ratio.ratio is not None and not arm_ratio.bare:
        interval = interval_text(arm_ratio.ratio, arm_ratio.experiment)
    return name, [own_text(arm_ratio), interval, str(arm_ratio.graded or _NONE), *paper]


def _of(arm_ratio: ArmRatio) -> dict[str, float | None]:
    ratio = arm_ratio.ratio
    if ratio is not None and not arm_ratio.bare:
        ends = {"ratio": ratio.estimate, "low": ratio.low, "high": ratio.high}
        return {**ends, "confidence": ratio.confidence, "df": ratio.df}
    estimate = ratio.estimate if ratio is not None else None
    return {"ratio": 1.0 if arm_ratio.is_reference else estimate, **dict.fromkeys(("low", "high", "confidence", "df"))}


def _cells(summary: Summary, experiment: Experiment) -> str:
    counts = sorted({summary.ratios[experiment.name, arm].cells for arm in summary.arms[1:]})
    return " or ".join(map(str, counts))


def _bounds(*, percent: bool) -> str:
    if percent:
        return ", ".join(f"{each.name} from {100 * float(each.least):.0f} %" for each in GRADES[:-1])
    return ", ".join(f"{each.name} up to {1 / float(each.least):.4g}" for each in GRADES[:-1])
