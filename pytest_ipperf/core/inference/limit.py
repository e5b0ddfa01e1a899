"""Judge whether a figure of one arm keeps its limit: a share of connections, or a mean of epochs.

A quantile keeps its limit if the share of connections that are slower is at most that beyond the quantile. Epochs are
the units; a share has at least the variance that its connections have if it equals the allowed share, so that few
connections without a slow one prove nothing.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.design import never_judges
from pytest_ipperf.core.design.limit import FAILED, QUANTILES, THROUGHPUT, Limit, share_text
from pytest_ipperf.core.inference.advice import advise
from pytest_ipperf.core.inference.effect import Effect
from pytest_ipperf.core.inference.power import MIN_EPOCHS
from pytest_ipperf.core.inference.verdict import Judgement, Verdict
from pytest_ipperf.core.measurement.run import Run
from pytest_ipperf.core.portable.errors import InvalidError
from pytest_ipperf.core.stats.interval import Interval, t_probability, t_quantile
from pytest_ipperf.core.stats.percentile import percentile
from pytest_ipperf.core.stats.variance import stdev, variance

_WORDS = {Verdict.WITHIN: "within limit", Verdict.EXCEEDS: "exceeds limit"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitJudgement(Judgement):
    """A verdict about a limit, with the figure that was `seen`: a quantile or mean, or the share of failures.

    `events` of the `connections` were slower than the limit, or failed; both are 0 for means. `needed` is the number
    of connections that could show the limit kept if none of them is slow; 0 if those of the design can.
    """

    limit: Limit
    seen: float
    events: int = 0
    connections: int = 0
    needed: int = 0

    def short(self) -> str:
        """Return the judgement in a few words: `p95 18.2 ms, within limit of 20 ms`."""
        if self.verdict is Verdict.UNJUDGED:
            return self.sentence()
        words = f"{self.limit.figure} {self._seen_text}, {self._verdict_text}"
        return f"{words} of {self.limit.shown}" if self.decided else words

    def sentence(self) -> str:
        """Return the judgement in one plain sentence."""
        effect = self.effect
        if self.verdict is Verdict.UNJUDGED or effect is None:
            if "never_judges" in self.reasons and self.design:
                return never_judges(self.design)
            return f"{self.verdict.value}: {effect.n_epochs if effect else 0} epochs are too few to judge a limit"
        if self.verdict is Verdict.INVALID:
            return (
                f"{self.verdict.value}: all {effect.n_epochs} epochs of {effect.test.title} gave exactly the same "
                f"{self.limit.figure} of {self._seen_text}, as a broken clock does"
            )
        text = f"{self._finding(effect)}; {self._verdict_text}: {self._why(effect)}"
        return text if self.first is None else self._after(self.first, effect, text)

    def _after(self, first: Judgement, effect: Effect, text: str) -> str:
        """Return `text`, which is about fresh epochs, with what the first ones showed."""
        fresh = f"{effect.n_epochs} fresh epochs"
        if self.verdict is Verdict.INCONCLUSIVE:
            return f"{first.short()}, and {fresh} neither confirm nor refute it: {text}"
        return f"{text}; {'confirmed' if self.verdict is Verdict.EXCEEDS else 'refuted'} in {fresh}: {first.short()}"

    @property
    def _verdict_text(self) -> str:
        return _WORDS.get(self.verdict, self.verdict.value)

    @property
    def _seen_text(self) -> str:
        if not math.isfinite(self.seen):
            return "beyond all completed connections"
        return self.limit.text_of(self.seen)

    def _finding(self, effect: Effect) -> str:
        """Return the figure that was seen: `IPv4: p95 18.2 ms, 43 of 3600 connections slower than 20 ms or failed`."""
        arm = effect.test.title
        if self.limit.figure == FAILED:
            return f"{arm}: {self.events} of {self.connections} connections failed ({self._seen_text})"
        if self.limit.is_share:
            slower = f"{self.events} of {self.connections} connections slower than {self.limit.shown} or failed"
            return f"{arm}: {self.limit.figure} {self._seen_text}, {slower}"
        return f"{arm}: {self.limit.title} {self._seen_text}"

    def _why(self, effect: Effect) -> str:
        if self.doubt:
            return self.doubt
        if "too_few_connections" in self.reasons:
            return (
                f"the connections that this design makes cannot show {self._asked} even if none is beyond it; "
                f"about {self.needed} connections would"
            )
        low, high = (self._shown(bound) for bound in self._one_sided(effect))
        if self.verdict is Verdict.INCONCLUSIVE:
            where = f"the one-sided {self._levels()} bounds {low} and {high} lie on both sides of {self._allowed}"
            stopped = f"; stopped at look {self.look} of {self.looks}: {self.stopped}" if self.stopped else ""
            advice = advise(effect, self.margin_fraction, self.alpha, epoch_s=self.epoch_s).text()
            return f"{where}{stopped}; {advice}"
        within = self.verdict is Verdict.WITHIN
        upper = within == (effect.metric.direction == "lower_is_better")
        bound, side, lies = high if upper else low, "upper" if upper else "lower", "within" if within else "beyond"
        at = f", at look {self.look} of {self.looks} ({effect.n_epochs} epochs)" if self.looks > 1 else ""
        level = self._level(within=within)
        return f"the one-sided {level} {side} bound {bound} lies {lies} {self._allowed}{at}"

    @property
    def _asked(self) -> str:
        return f"{self.limit.figure} {self.limit.sign} {self.limit.shown}"

    @property
    def _allowed(self) -> str:
        if self.limit.figure in QUANTILES:
            return f"the {share_text(self.limit.allowed)} that {self._asked} allows"
        return f"the limit of {self.limit.shown}"

    def _shown(self, bound: float) -> str:
        """Format a bound of the change as a value of the figure; no share or mean is below 0."""
        if self.limit.is_share:
            return share_text(max(0.0, bound))
        return self.limit.text_of(max(0.0, (1 + bound) * self.limit.value))


def judge_limit(
    runs: Iterable[Run],
    arm: Arm,
    limit: Limit,
    *,
    quantity: str = "response_time",
    alpha: float = 0.05,
    planned: float = 1,
) -> LimitJudgement:
    """Judge from the runs of `arm`, warm-ups left out, whether a figure keeps its limit; epochs are the units.

    Shares: D = mean over epochs of the epochs' mean shares x / n of connections that are slower than the limit, or
    failed, SE = max(s / sqrt(E), sqrt(d p (1 - p) / n)), with the allowed share p, the design effect d of the metric
    and n connections in all. Means: D and s of the epochs' means of the runs' values of `quantity`; failures of
    connections count as the deadline. Within if D + t(1 - alpha; E - 1) SE is at most the limit, exceeds if
    D - t(1 - alpha'; E - 1) SE is above it, with the metric's share alpha' of alpha, else inconclusive; for throughput
    the other way round. With fewer than MIN_EPOCHS it is unjudged. `planned` times as many epochs are made at most.
    Raises InvalidError if the arm has no runs, or runs without the value.
    Source: W. S. Gosset, "The probable error of a mean", 1908; the variance under the hypothesis as in
    Farrington and Manning, 1990.
    """
    counted = [run for run in runs if run.arm == arm and not run.warmup]
    if not counted:
        raise InvalidError(f"{arm} has no runs of which {limit.figure} could be judged")
    effect = _effect(counted, arm, limit, quantity)
    allowed = limit.margin.effective(limit.value, effect.metric.scale)
    needed = _needed(effect, limit, alpha, planned)
    verdict, reasons = _rule(effect, allowed, alpha)
    if verdict is Verdict.INVALID and not any(run.completed for run in counted):
        verdict, reasons = Verdict.EXCEEDS, ()  # all failed, and count as the deadline
    if verdict is Verdict.INCONCLUSIVE and needed and effect.change.estimate <= allowed:
        reasons = ("too_few_connections",)
    return LimitJudgement(
        verdict=verdict,
        reasons=reasons,
        effect=effect,
        margin=limit.margin,
        margin_fraction=allowed,
        alpha=alpha,
        p_exceeds=_p_exceeds(effect, allowed),
        mde_fraction=None,
        limit=limit,
        seen=_seen(counted, limit, effect),
        events=sum(_events(run, limit) for run in counted) if limit.is_share else 0,
        connections=sum(run.attempted for run in counted) if limit.is_share else 0,
        needed=needed if verdict is Verdict.INCONCLUSIVE else 0,
    )


def judge_limit_looks(
    runs: Sequence[Run],
    arm: Arm,
    limit: Limit,
    ends: Sequence[int],
    *,
    quantity: str,
    alpha: float,
    looks: int,
) -> LimitJudgement:
    """Return the judgement of the first look that decides, else of the last; `ends` holds the epochs of each look."""
    for look, end in enumerate(ends, start=1):
        own = [run for run in runs if run.epoch < end]
        found = judge_limit(own, arm, limit, quantity=quantity, alpha=alpha, planned=looks / look)
        if found.decided or look == len(ends):
            return replace(found, look=look, looks=looks)
    raise ValueError("no look was taken")


def needed_connections(limit: Limit, alpha: float, epochs: int) -> int:
    """Return the number of connections that show a share limit if none of them is beyond it.

    Formula: n = d t^2 (1 - p) / p, the smallest n at which t(1 - alpha; epochs - 1) sqrt(d p (1 - p) / n) is at most p.
    """
    t, p = t_quantile(1 - alpha, epochs - 1), limit.allowed
    return math.ceil(limit.metric.design_effect * t * t * (1 - p) / p * (1 - 1e-12))


def _effect(runs: Sequence[Run], arm: Arm, limit: Limit, quantity: str) -> Effect:
    """Return the arm's share of slow or failed connections, or the distance of its mean from the limit."""
    metric = limit.metric
    epochs: dict[int, list[float]] = {}
    for run in runs:
        epochs.setdefault(run.epoch, []).append(_value(run, limit, quantity))
    means = [statistics.fmean(values) for _, values in sorted(epochs.items())]
    spread = stdev(means) if len(means) > 1 else 0.0
    within = [variance(values) for values in epochs.values() if len(values) > 1]
    attempted = sum(run.attempted for run in runs)
    if limit.is_share:
        floor = metric.design_effect * limit.allowed * (1 - limit.allowed) / attempted
        spread = max(spread, math.sqrt(floor * len(means)))
    return Effect(
        metric=metric,
        change=_interval(statistics.fmean(means), spread, len(means)),
        n_epochs=len(means),
        n_blocks=len(runs),
        sd_epoch=spread,
        sd_block=math.sqrt(statistics.fmean(within)) if within and not limit.is_share else None,
        test=arm,
        reference=arm,
        test_value=statistics.fmean(means) if limit.is_share else (1 + statistics.fmean(means)) * limit.value,
        reference_value=limit.allowed if limit.is_share else limit.value,
        attempted=(attempted, attempted) if limit.is_share else None,
    )


def _interval(mean: float, spread: float, epochs: int) -> Interval:
    """Return the two-sided 95 % interval of a mean whose epochs have that spread; infinite for one epoch."""
    if epochs < 2:
        return Interval(estimate=mean, low=-math.inf, high=math.inf, confidence=0.95, df=0)
    half = t_quantile(0.975, epochs - 1) * spread / math.sqrt(epochs)
    return Interval(estimate=mean, low=mean - half, high=mean + half, confidence=0.95, df=epochs - 1)


def _value(run: Run, limit: Limit, quantity: str) -> float:
    if limit.is_share:
        return _events(run, limit) / run.checked_attempts
    value = run.values[THROUGHPUT if limit.figure == THROUGHPUT else quantity]
    if value is None and limit.figure == THROUGHPUT:
        value = 0.0  # nothing arrived
    if value is None or not math.isfinite(value):
        raise InvalidError(f"{run.arm} has no {quantity} in epoch {run.epoch}, block {run.block}: nothing arrived")
    return value / limit.value - 1


def _events(run: Run, limit: Limit) -> int:
    slow = 0 if limit.figure == FAILED else sum(time > limit.value for time in run.times)
    return slow + run.failures


def _seen(runs: Sequence[Run], limit: Limit, effect: Effect) -> float:
    if limit.figure in QUANTILES:
        times = [time for run in runs for time in run.times]
        return percentile([*times, *[math.inf] * sum(run.failures for run in runs)], QUANTILES[limit.figure])
    return effect.test_value


def _needed(effect: Effect, limit: Limit, alpha: float, planned: float) -> int:
    """Return how many connections would be needed if `planned` times those of the effect are not enough, else 0."""
    epochs = round(planned * effect.n_epochs)
    if effect.attempted is None or epochs < MIN_EPOCHS:
        return 0
    needed = needed_connections(limit, alpha, epochs)
    return needed if needed > planned * effect.attempted[0] else 0


def _rule(effect: Effect, allowed: float, alpha: float) -> tuple[Verdict, tuple[str, ...]]:
    if effect.n_epochs < MIN_EPOCHS:
        return Verdict.UNJUDGED, ("too_few_epochs",)
    if effect.sd_epoch == 0 and effect.metric.resolution > 0:
        return Verdict.INVALID, ("zero_spread",)
    low, high = effect.one_sided(alpha)
    if effect.metric.direction == "higher_is_better":
        low, high = -high, -low
    if high <= allowed:
        return Verdict.WITHIN, ()
    return (Verdict.EXCEEDS, ()) if low > allowed else (Verdict.INCONCLUSIVE, ("straddles",))


def _p_exceeds(effect: Effect, allowed: float) -> float | None:
    if effect.n_epochs < 2:
        return None
    beyond = effect.change.estimate if effect.metric.direction == "lower_is_better" else -effect.change.estimate
    if effect.standard_error == 0:
        return 0.0 if beyond > allowed else 1.0
    p = t_probability((allowed - beyond) / effect.standard_error, effect.change.df)
    return min(1.0, p / effect.metric.exceeds_level)
