"""The evidence about a cell of a night, before a decision: two measurements, its history and its acceptances."""

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
    """The result of the fresh data of a cell, one of the `of` whose error rate is held together.

    These are the flagged cells or, for a question that was not flagged, all such questions of the second session. `p`
    is the one-sided p-value of the hypothesis that the slow-down is at most what is allowed, `adjusted` the same by
    Holm over these. `beyond_margin` is the adjusted p-value against the margin alone, if more than the margin is
    accepted. `within` says that the fresh data show the cell within its margin, at the level of the screening.
    """

    p: float
    adjusted: float
    beyond_margin: float
    within: bool
    of: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All evidence of a night about a cell that it has measured.

    `fresh` is the second measurement of a flagged cell, and `confirmation` its result; if that is None,
    `why_unconfirmed` says why. `late` is set for a question that was not flagged in the screening and whose margin the
    fresh data exceed; if it was not even asked, as its test had ended before, `screened` is not set and `screen` is the
    fresh record. `acceptance` is in force, `lapsed` has expired. `nights` is the number of earlier nights that count;
    with enough of them there is a `prediction`, whose p-value by Holm over the `compared` cells is `p_history`.
    """

    screen: Record
    metric: Metric
    flagged: bool = False
    late: bool = False
    screened: bool = True
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
        """Key of the cell's history."""
        return self.screen.key

    @property
    def record(self) -> Record:
        """The data that the decision is about."""
        return self.fresh or self.screen


def nightly_change(record: Record) -> NightlyChange:
    """Return the change of a usable record on the metric's scale, with its standard error; ValueError without one."""
    if record.change is None or record.sd_epoch is None:
        raise ValueError(f"{record.key} has no change")
    return NightlyChange.of(record.change, record.sd_epoch, record.epochs)


def p_beyond(record: Record, metric: Metric, fraction: float) -> float:
    """Return the one-sided p-value of the hypothesis that the slow-down is at most `fraction`.

    At the record's own margin it equals the judgement's p-value. A rate cannot lose more than all of itself, so a
    fraction of 1 or more gives 1.
    """
    return min(1.0, _tail(record, metric, fraction) / metric.exceeds_level)


def is_within(record: Record, metric: Metric, alpha: float) -> bool:
    """Return whether the one-sided bound of the record's slow-down at level `alpha` is inside its margin."""
    return record.margin_fraction is not None and 1 - _tail(record, metric, record.margin_fraction) <= alpha


def _tail(record: Record, metric: Metric, fraction: float) -> float:
    if metric.scale == "ratio" and metric.direction == "higher_is_better" and fraction >= 1:
        return 1.0
    allowed = slowdown_size(fraction, metric.direction, metric.scale)
    now = nightly_change(record)
    slowdown = now.change if metric.direction == "lower_is_better" else -now.change
    if now.standard_error == 0:
        return 0.0 if slowdown > allowed else 1.0
    return t_probability((allowed - slowdown) / now.standard_error, now.df)
