"""The evidence about a cell of a night, before a decision: two measurements, its history, what was accepted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pytest_ipperf.core.design.metric import Metric
from pytest_ipperf.core.inference.power import slowdown_size
from pytest_ipperf.core.nightly.acceptance import Acceptance
from pytest_ipperf.core.nightly.prediction import NightlyChange, Prediction
from pytest_ipperf.core.records.history_entry import HistoryKey
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.core.stats.interval import t_probability


class ErrorRates(NamedTuple):
    """The error rates over all cells of a night: of the fresh data, and against history."""

    family: float
    history: float


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What fresh data say of a flagged cell, as one of `of` such cells.

    `p` is the one-sided p-value of the slow-down being at most what it may be, `adjusted` the same by Holm over all of
    them. `beyond_margin` is the adjusted one against the margin alone, where more than that is accepted. `within` says
    that they show the cell inside its margin, at the level of the screening.
    """

    p: float
    adjusted: float
    beyond_margin: float
    within: bool
    of: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that a night knows of a cell that it has measured.

    `fresh` is the second measurement of a flagged one, and `confirmation` what it says; without the latter
    `why_unconfirmed` is why there is none. `acceptance` holds, `lapsed` held until it expired. `nights` is how many of
    the last ones count; from enough of them there is a `prediction`, whose p-value by Holm over all such cells is
    `p_history`.
    """

    screen: Record
    metric: Metric
    flagged: bool = False
    fresh: Record | None = None
    confirmation: Confirmation | None = None
    why_unconfirmed: str = ""
    acceptance: Acceptance | None = None
    lapsed: Acceptance | None = None
    nights: int = 0
    prediction: Prediction | None = None
    p_history: float | None = None
    compared: int = 0

    @property
    def key(self) -> HistoryKey:
        """The key of its history."""
        return self.screen.key

    @property
    def record(self) -> Record:
        """The data that the decision is about."""
        return self.fresh or self.screen


def nightly_change(record: Record) -> NightlyChange:
    """Return the change of a usable record on the metric's scale, with its standard error."""
    if record.change is None or record.sd_epoch is None:
        raise ValueError(f"{record.key} has no change")
    return NightlyChange.of(record.change, record.sd_epoch, record.epochs)


def p_beyond(record: Record, metric: Metric, fraction: float) -> float:
    """The one-sided p-value of the slow-down being at most `fraction`, as of a margin; at its own, the judgement's.

    A rate can lose no more than all of itself, so that a fraction of 1 or more is beyond doubt.
    """
    if metric.scale == "ratio" and metric.direction == "higher_is_better" and fraction >= 1:
        return 1.0
    allowed = slowdown_size(fraction, metric.direction, metric.scale)
    now = nightly_change(record)
    slowdown = now.change if metric.direction == "lower_is_better" else -now.change
    if now.standard_error == 0:
        return 0.0 if slowdown > allowed else 1.0
    return t_probability((allowed - slowdown) / now.standard_error, now.df)
