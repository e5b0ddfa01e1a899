"""Predict a cell's change tonight from its last nights, and test how far tonight is beyond the prediction.

All changes are on the metric's scale (log ratios, or differences of shares), so effects of a night on both arms cancel;
the remainder is part of the spread of the nights. A night is one value, however many runs it had.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from scipy.special import polygamma, psi

from pytest_ipperf.core.design.metric import Metric
from pytest_ipperf.core.records.history_entry import HistoryEntry, HistoryKey
from pytest_ipperf.core.stats.interval import t_probability
from pytest_ipperf.core.stats.variance import variance as sample_variance

MOST_NIGHTS = 60
"""Number of nights that are used; older ones are ignored, as the hosts of a cell change slowly."""

# Changes and spreads below this are rounding errors: a billionth of the reference, or of all packets.
_NOTHING = 1e-9


@dataclass(frozen=True, slots=True)
class NightlyChange:
    """A cell's change in one night, with its standard error and the `df` degrees of freedom of that."""

    change: float
    standard_error: float
    df: int

    @classmethod
    def of(cls, change: float, sd_epoch: float, epochs: int) -> NightlyChange:
        """Make a change from the standard deviation of its epochs."""
        return cls(change, sd_epoch / math.sqrt(epochs), epochs - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The prediction from `nights` nights: `mean`, with the standard deviation `sd` of one night and its `df`.

    Tonight is worse than the mean by `worse_by` (negative if it is better); `p` is the one-sided p-value of that.
    """

    nights: int
    mean: float
    sd: float
    df: float
    worse_by: float
    p: float


def nights_that_count(history: Iterable[HistoryEntry], after: float = -math.inf) -> tuple[NightlyChange, ...]:
    """Return the last sound and usable nights that began later than `after` (seconds since 1970), oldest first."""
    usable = [
        NightlyChange.of(each.change, each.sd_epoch, each.epochs)
        for each in history
        if each.sound
        and each.usable
        and each.began_at > after
        and _is_finite(each.change)
        and _is_finite(each.sd_epoch)
    ]
    return tuple(usable[-MOST_NIGHTS:])


def _is_finite(figure: float | None) -> TypeGuard[float]:
    return figure is not None and math.isfinite(figure)


# A variance and its degrees of freedom.
_Spread = tuple[float, float]


def predicted(
    tonight: Mapping[HistoryKey, NightlyChange],
    nights: Mapping[HistoryKey, Sequence[NightlyChange]],
    metric_of: Callable[[str], Metric],
    *,
    prior_df: float = 20,
) -> dict[HistoryKey, Prediction]:
    """Return the prediction for each cell, which must have at least 2 `nights`: t = (y - mean) / (s sqrt(1 + 1/K)).

    y is tonight's change in the bad direction, K the number of nights. s is their standard deviation, enlarged if
    tonight's epochs spread more than theirs, because a disturbance of tonight alone is no regression (`_of_one_more`).
    Both spreads are moderated over the cells of the metric (`common_variance`), but tonight's is never taken for less
    than the cell's own epochs show, as a disturbance may be in few cells. A change of zero has a p-value of 1.
    Source: the prediction interval of a normal mean, with the moderated t of G. K. Smyth, "Linear models and empirical
    Bayes methods for assessing differential expression in microarray experiments", 2004.
    """
    changes = {key: [night.change for night in nights[key]] for key in tonight}
    usual = _moderated({key: (sample_variance(each), len(each) - 1) for key, each in changes.items()}, prior_df)
    moderated = _moderated({key: (now.standard_error**2, now.df) for key, now in tonight.items()}, prior_df)
    errors = {key: (max(variance, tonight[key].standard_error ** 2), df) for key, (variance, df) in moderated.items()}
    return {
        key: _prediction(now, nights[key], metric_of(key.metric), _of_one_more(usual[key], errors[key], nights[key]))
        for key, now in tonight.items()
    }


def _moderated(spreads: Mapping[HistoryKey, tuple[float, int]], most_df: float) -> dict[HistoryKey, _Spread]:
    """Average each cell's variance with the common variance of its metric, weighted by their degrees of freedom."""
    common = {
        metric: common_variance([spreads[key] for key in spreads if key.metric == metric], most_df=most_df)
        for metric in {key.metric for key in spreads}
    }
    result = {}
    for key, (variance, df) in spreads.items():
        prior, prior_df = common[key.metric]
        result[key] = (df * variance + prior_df * prior) / (df + prior_df), df + prior_df
    return result


def _of_one_more(usual: _Spread, error: _Spread, nights: Sequence[NightlyChange]) -> _Spread:
    """Return the variance of one more night: between nights plus tonight's epochs; never less than the usual variance.

    The variance between nights is the usual variance minus the mean of the squared standard errors, whose own error is
    negligible over so many nights. The degrees of freedom of the sum are by Welch and Satterthwaite.
    """
    between = max(0.0, usual[0] - statistics.fmean(night.standard_error**2 for night in nights))
    total = between + error[0]
    if total <= usual[0]:
        return usual
    part = usual[0] / total if between else 0.0
    return total, 1 / (part**2 / usual[1] + (error[0] / total) ** 2 / error[1])


def _prediction(now: NightlyChange, nights: Sequence[NightlyChange], metric: Metric, spread: _Spread) -> Prediction:
    mean, (variance, df) = statistics.fmean(night.change for night in nights), spread
    sd = math.sqrt(variance)
    worse_by = now.change - mean if metric.direction == "lower_is_better" else mean - now.change
    return Prediction(
        nights=len(nights), mean=mean, sd=sd, df=df, worse_by=worse_by, p=_p_worse(worse_by, sd, df, len(nights))
    )


def _p_worse(worse_by: float, sd: float, df: float, nights: int) -> float:
    if abs(worse_by) < _NOTHING:
        return 1.0
    if sd < _NOTHING:
        return 0.0 if worse_by > 0 else 1.0
    return t_probability(-worse_by / (sd * math.sqrt(1 + 1 / nights)), df)


def common_variance(spreads: Sequence[tuple[float, int]], *, most_df: float) -> tuple[float, float]:
    """Return the variance that cells have in common, and the degrees of freedom that it adds to a cell's own.

    `spreads` holds each cell's variance and degrees of freedom. The more the cells differ beyond chance, the fewer
    degrees of freedom are added, and never more than `most_df`: borrowing too many would make a restless cell look
    calm. Cells without any spread are ignored; with fewer than 2 others the result is (0, 0).
    Source: Smyth, 2004, section 6.2: log variances have the mean and the variance of a scaled Fisher z.
    """
    usable = [(variance, df) for variance, df in spreads if variance > _NOTHING**2]
    if len(usable) < 2:
        return 0.0, 0.0
    logs = [math.log(variance) - float(psi(df / 2)) + math.log(df / 2) for variance, df in usable]
    beyond = sample_variance(logs) - statistics.fmean(float(polygamma(1, df / 2)) for _, df in usable)
    if beyond <= 0:
        return math.exp(statistics.fmean(logs)), most_df
    half = _inverse_trigamma(beyond)
    return math.exp(statistics.fmean(logs) + float(psi(half)) - math.log(half)), min(2 * half, most_df)


def _inverse_trigamma(value: float) -> float:
    """Return the y whose trigamma is `value`, by Newton's method on its convex reciprocal (Smyth, 2004, appendix)."""
    y = 0.5 + 1 / value
    for _ in range(50):
        trigamma = float(polygamma(1, y))
        step = trigamma * (1 - trigamma / value) / float(polygamma(2, y))
        y += step
        if -step / y < 1e-8:
            break
    return y
