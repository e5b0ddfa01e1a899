"""A comparison: by how much the change of a cell differs between two sessions.

All changes are on the metric's scale (log ratios, or differences of shares), so effects of a session on both arms
cancel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from pytest_ipperf.core.design.margin import Margin
from pytest_ipperf.core.design.metric import UNITS_OF_CHANGE, Metric
from pytest_ipperf.core.design.question import BESIDE
from pytest_ipperf.core.inference.effect import percent_of_log
from pytest_ipperf.core.inference.power import MIN_EPOCHS, slowdown_size
from pytest_ipperf.core.inference.verdict import Verdict
from pytest_ipperf.core.portable.errors import IpperfError
from pytest_ipperf.core.records.history_entry import HistoryEntry, HistoryKey
from pytest_ipperf.core.stats.interval import Interval, t_quantile

_CONFIDENCE = 0.95
_ALPHA = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Difference of a cell's change between the session of `then` and that of `now`.

    `change` is now.change - then.change on the metric's scale, with its two-sided interval; `low` and `high` are its
    one-sided bounds, each at level `alpha`. `margin_fraction` is the margin that applied. `verdict` is None if the two
    cannot be compared, and unjudged if one of them has too few epochs; `why` gives the reason, or says why there is too
    little evidence. `better` means better by more than the margin, shown like a verdict.
    """

    now: HistoryEntry
    then: HistoryEntry
    metric: Metric | None
    verdict: Verdict | None = None
    why: str = ""
    change: Interval | None = None
    low: float = math.nan
    high: float = math.nan
    alpha: float = 0.05
    margin: str = ""
    margin_fraction: float = math.nan
    better: bool = False

    @property
    def unit(self) -> str:
        """Unit of the displayed change: `%`, or `pp`."""
        return UNITS_OF_CHANGE[self.metric.scale] if self.metric else ""

    def show(self, change: float) -> float:
        """Convert a change on the metric's scale to `unit`."""
        return percent_of_log(change) if self.unit == UNITS_OF_CHANGE["ratio"] else 100 * change

    @property
    def other_version(self) -> bool:
        """Return whether the version of the workload has changed: see `core/records/workload_version.py`."""
        return self.now.key.version != self.then.key.version

    @property
    def other_hosts(self) -> bool:
        """Return whether hosts or server are known to have changed."""
        known = self.now.fingerprint and self.then.fingerprint
        return bool(known) and self.now.fingerprint != self.then.fingerprint


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All cells of two sessions: those that both have, and those that only one of them has.

    Twins of the reference are among the `differences`, but not among the `cells`, which give the answer.
    """

    differences: tuple[Difference, ...]
    only_now: tuple[HistoryKey, ...]
    only_then: tuple[HistoryKey, ...]

    @property
    def cells(self) -> tuple[Difference, ...]:
        """Return the differences of cells that are not twins."""
        return tuple(each for each in self.differences if not each.now.key.is_twin)

    def with_verdict(self, *verdicts: Verdict | None) -> tuple[Difference, ...]:
        """Return the cells with one of these verdicts; None selects those that cannot be compared."""
        return tuple(each for each in self.cells if each.verdict in verdicts)

    @property
    def decided(self) -> bool:
        """Return whether any cell has an answer."""
        return bool(self.with_verdict(Verdict.WITHIN, Verdict.EXCEEDS))


def compared(
    now: HistoryEntry,
    then: HistoryEntry,
    metric: Metric,
    *,
    margin: Margin | None = None,
) -> Difference:
    """Return the difference of two sessions' changes, judged against `margin`, or else the cell's margin in `now`.

    Standard error: sqrt(s1**2 / E1 + s2**2 / E2), from the spreads of the epochs; degrees of freedom by Welch and
    Satterthwaite. The rules of the verdict are those of `judge`. Only the share of a margin after headers counts, as
    both sessions have the same headers. Variation between sessions beyond that of epochs (a kernel's memory layout,
    neighbours, other load) is not in this interval, so more than 5 % of many unchanged cells may seem to have
    changed; `core/nightly/prediction.py` includes it by means of the last nights.
    Source: B. L. Welch, "The generalization of Student's problem when several different population variances are
    involved", 1947.
    """
    try:
        wanted_margin = margin or _margin(now.margin or metric.margin)
        wanted_margin.check(metric)
        fraction = wanted_margin.effective(now.reference_value, metric.scale)
        allowed = slowdown_size(fraction, metric.direction, metric.scale)
    except IpperfError as error:
        return Difference(now=now, then=then, metric=metric, why=str(error))
    if why := _too_few(now, then):
        return Difference(now=now, then=then, metric=metric, verdict=Verdict.UNJUDGED, why=why)
    change, why = _interval(now, then)
    if change is None:
        return Difference(now=now, then=then, metric=metric, why=why)
    half = t_quantile(1 - _ALPHA, change.df) * _standard_error(now, then)
    low, high = change.estimate - half, change.estimate + half
    slow, fast = (low, high) if metric.direction == "lower_is_better" else (-high, -low)
    why = _no_evidence(now, then)
    verdict = Verdict.INCONCLUSIVE if why else _rule(slow, fast, allowed)
    return Difference(
        now=now,
        then=then,
        metric=metric,
        verdict=verdict,
        why=why,
        change=change,
        low=low,
        high=high,
        alpha=_ALPHA,
        margin=wanted_margin.description,
        margin_fraction=fraction,
        better=verdict is Verdict.WITHIN and fast < -allowed,
    )


def comparison(
    now: Mapping[HistoryKey, HistoryEntry],
    then: Mapping[HistoryKey, HistoryEntry],
    metric_of: Callable[[str], Metric],
    *,
    margin: Margin | None = None,
) -> Comparison:
    """Compare all cells of two sessions; `margin` replaces each cell's own.

    What is asked beside a cell's metric, by its own margin, is listed only if it is worse.
    """
    pairs, only_now, only_then = matched(now, then)
    own = (_known(*pair, metric_of, margin) for pair in pairs if pair[0].key.metric not in BESIDE)
    beside = (_known(*pair, metric_of, None) for pair in pairs if pair[0].key.metric in BESIDE)
    return Comparison(
        differences=(*own, *(each for each in beside if each.verdict is Verdict.EXCEEDS)),
        only_now=only_now,
        only_then=only_then,
    )


def interval_of(entry: HistoryEntry) -> Interval | None:
    """Return the interval of a session's change on the metric's scale; None if it has none, or too few epochs."""
    if entry.epochs < MIN_EPOCHS or entry.change is None or entry.sd_epoch is None or not math.isfinite(entry.change):
        return None
    df = entry.epochs - 1
    half = t_quantile((1 + _CONFIDENCE) / 2, df) * entry.sd_epoch / math.sqrt(entry.epochs)
    return Interval(
        estimate=entry.change, low=entry.change - half, high=entry.change + half, confidence=_CONFIDENCE, df=df
    )


def matched(
    now: Mapping[HistoryKey, HistoryEntry], then: Mapping[HistoryKey, HistoryEntry]
) -> tuple[tuple[tuple[HistoryEntry, HistoryEntry], ...], tuple[HistoryKey, ...], tuple[HistoryKey, ...]]:
    """Return pairs (now, then) of the same key, else of the same cell and metric, and the keys of only one session.

    What is asked beside a cell's metric is never in only one session: the cell itself is, or it was asked less.
    """
    by_cell = {key[:2]: key for key in then if key not in now}
    partner = {key: key if key in then else by_cell.get(key[:2]) for key in now}
    pairs = tuple((now[key], then[other]) for key, other in partner.items() if other is not None)
    return pairs, _without(now, (pair[0].key for pair in pairs)), _without(then, (pair[1].key for pair in pairs))


def _without(keys: Iterable[HistoryKey], gone: Iterable[HistoryKey]) -> tuple[HistoryKey, ...]:
    paired = set(gone)
    return tuple(key for key in keys if key not in paired and key.metric not in BESIDE)


def _known(
    now: HistoryEntry, then: HistoryEntry, metric_of: Callable[[str], Metric], margin: Margin | None
) -> Difference:
    """Compare two entries, whose metric this version may not know."""
    try:
        metric = metric_of(now.key.metric)
    except IpperfError as error:
        return Difference(now=now, then=then, metric=None, why=str(error))
    return compared(now, then, metric, margin=margin)


@lru_cache(maxsize=256)
def _margin(text: str) -> Margin:
    return Margin.parse(text)


def _interval(now: HistoryEntry, then: HistoryEntry) -> tuple[Interval | None, str]:
    """Return the interval of the difference of changes, or the reason why there is none."""
    for entry in (now, then):
        if entry.verdict == Verdict.INVALID.name.lower():
            return None, f"{Verdict.INVALID.value} in {entry.session}"
        if entry.change is None or entry.sd_epoch is None:
            return None, f"{entry.session} tells no spread of it"
        if not math.isfinite(entry.change):
            return None, f"its change in {entry.session} is no finite number"
    assert now.change is not None and then.change is not None  # noqa: S101, PT018 - for mypy
    estimate = now.change - then.change
    error, df = _standard_error(now, then), _degrees(now, then)
    half = t_quantile((1 + _CONFIDENCE) / 2, df) * error
    return Interval(estimate=estimate, low=estimate - half, high=estimate + half, confidence=_CONFIDENCE, df=df), ""


def _variances(*entries: HistoryEntry) -> list[float]:
    """Return the variance of each mean over the epochs."""
    return [(entry.sd_epoch or 0.0) ** 2 / entry.epochs for entry in entries]


def _standard_error(now: HistoryEntry, then: HistoryEntry) -> float:
    return math.sqrt(sum(_variances(now, then)))


def _degrees(now: HistoryEntry, then: HistoryEntry) -> float:
    """Return the degrees of freedom by Welch and Satterthwaite; for two exact values, those of both."""
    one, other = _variances(now, then)
    if one + other == 0:
        return now.epochs + then.epochs - 2
    one, other = one / (one + other), other / (one + other)
    return 1 / (one**2 / (now.epochs - 1) + other**2 / (then.epochs - 1))


def _too_few(now: HistoryEntry, then: HistoryEntry) -> str:
    """Return why nothing is judged and no interval given, as for designs that never judge; empty if it can be."""
    fewest = min(now, then, key=lambda entry: entry.epochs)
    if fewest.epochs >= MIN_EPOCHS or Verdict.INVALID.name.lower() in (now.verdict, then.verdict):
        return ""
    epochs = f"{fewest.epochs} epoch{'s' * (fewest.epochs != 1)}"
    return f"{fewest.session} has {epochs} of it, too few to judge"


def _no_evidence(now: HistoryEntry, then: HistoryEntry) -> str:
    """Return why figures that can be shown decide nothing; empty if they can."""
    return next((f"its figures in {entry.session} are no evidence" for entry in (now, then) if not entry.usable), "")


def _rule(low: float, high: float, allowed: float) -> Verdict:
    """Judge the bounds of a slow-down by the rules of `judge`."""
    if high <= allowed:
        return Verdict.WITHIN
    return Verdict.EXCEEDS if low > allowed else Verdict.INCONCLUSIVE
