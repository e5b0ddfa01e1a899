"""Judge an effect against a margin, with the reason in one sentence.

Verdicts are three-valued: a difference that was not shown is reported as not shown, never as agreement.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_ipperf.core.design.design import never_judges
from pytest_ipperf.core.design.margin import Margin
from pytest_ipperf.core.inference.advice import advise
from pytest_ipperf.core.inference.effect import Effect, percent_text
from pytest_ipperf.core.inference.power import MIN_EPOCHS, minimum_detectable, slowdown_size
from pytest_ipperf.core.stats.interval import t_probability, t_quantile


class Verdict(enum.Enum):
    """The outcomes; each value is the wording in every report. A design that never judges gives UNJUDGED."""

    WITHIN = "within"
    EXCEEDS = "exceeds"
    INCONCLUSIVE = "inconclusive"
    INVALID = "invalid"
    UNJUDGED = "unjudged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A verdict with the question that was asked.

    `reasons` are for machines: `too_few_epochs`, `too_wide`, `straddles`, `zero_spread`, `never_judges`, `no_effect`,
    `too_few_connections`, `doubted`, `unconfirmed`; for `doubted`, `doubt` says why the finding is not believed, for
    `unconfirmed`, `unconfirmed` says why no fresh epochs could confirm it.
    `margin_fraction` is the margin that applied at this reference, a difference of shares on the scale of differences.
    `p_exceeds` is the one-sided p-value of the hypothesis that the slow-down is at most that margin. `mde_fraction` is
    the slow-down that this design detects in 9 of 10 cases at the observed spread.
    `design` is set if the design is the reason. Without an effect there is neither p-value nor `mde_fraction`.
    `epoch_s` is the duration of an epoch in seconds, 0 if unknown; the advice for an undecided cell uses it.
    `look` is the number of the look that gave the judgement, of the design's `looks`; `stopped` says why no later look
    was taken. `exceeds_alpha` is the level of the bound that shows an excess, if it differs from `alpha`. `first` is
    the judgement of the first epochs if this one is of fresh epochs, which were to confirm it.
    """

    verdict: Verdict
    reasons: tuple[str, ...]
    effect: Effect | None
    margin: Margin
    margin_fraction: float
    alpha: float
    p_exceeds: float | None
    mde_fraction: float | None
    design: str | None = None
    look: int = 1
    looks: int = 1
    stopped: str = ""
    doubt: str = ""
    epoch_s: float = 0.0
    exceeds_alpha: float | None = None
    first: Judgement | None = None
    unconfirmed: str = ""

    @property
    def bounds(self) -> tuple[float, float] | None:
        """One-sided bounds of the change that decide, in the unit of the effect; None without an effect."""
        if self.effect is None or self.effect.n_epochs < MIN_EPOCHS:
            return None
        low, high = map(self.effect.show, self._one_sided(self.effect))
        return low, high

    @property
    def decided(self) -> bool:
        """Return whether the verdict is an answer."""
        return self.verdict in (Verdict.WITHIN, Verdict.EXCEEDS)

    @property
    def says_more(self) -> bool:
        """Return whether it adds something to the sentence of another judgement of the same cell."""
        return "never_judges" not in self.reasons

    def short(self) -> str:
        """Return the judgement in a few words: `failed connections +0.2 pp, within the margin of 1 pp`."""
        if self.effect is None:
            return self.verdict.value
        change = f"{percent_text(self.effect.shown.estimate)} {self.effect.unit}"
        if self.verdict is Verdict.UNJUDGED:
            return self.sentence()
        if self.verdict in (Verdict.WITHIN, Verdict.EXCEEDS):
            margin = self._margin_text(self.effect)
            return f"{self.effect.metric.title} {change}, {self.verdict.value} the margin of {margin}"
        return f"{self.effect.metric.title} {change}, {self.verdict.value}"

    def sentence(self) -> str:
        """Return the judgement in one plain sentence."""
        if self.verdict is Verdict.UNJUDGED:
            return self._unjudged()
        if self.effect is None or self.mde_fraction is None:
            return f"{self.verdict.value}: there is nothing to compare with"
        if self.verdict is Verdict.INVALID:
            return _zero_spread_text(self.effect)
        text = self._text(self.effect, self.mde_fraction)
        first = self.first.effect if self.first else None
        return text if first is None else self._of_fresh_epochs(first, self.effect, text)

    def _text(self, effect: Effect, mde_fraction: float) -> str:
        if self.unconfirmed:
            return f"{self._seemed(effect)}; {self.verdict.value}: not confirmed in fresh epochs: {self.unconfirmed}"
        if self.verdict is Verdict.INCONCLUSIVE:
            why = self.doubt or self._why_undecided(effect, mde_fraction)
            return f"{effect.finding(self.alpha, self.exceeds_alpha)}; {self.verdict.value}: {why}"
        at = f", at {self._look_text(effect)}" if self.looks > 1 else ""
        return f"{effect.finding(self.alpha, self.exceeds_alpha)}; {self._why(effect)}{at}"

    def _of_fresh_epochs(self, first: Effect, effect: Effect, text: str) -> str:
        """Return `text`, which is about the fresh epochs, with what the first ones showed."""
        fresh, seemed = f"{effect.n_epochs} fresh epochs", self._seemed(first)
        if self.verdict is Verdict.INCONCLUSIVE:
            return f"{seemed}, and {fresh} neither confirm nor refute it: {text}"
        return f"{text}; {'confirmed' if self.verdict is Verdict.EXCEEDS else 'refuted'} in {fresh}: {seemed}"

    def _one_sided(self, effect: Effect) -> tuple[float, float]:
        return effect.one_sided(self.alpha, self.exceeds_alpha)

    def _seemed(self, first: Effect) -> str:
        """Return what the first epochs showed, if their excess was to be confirmed."""
        change = f"{percent_text(first.shown.estimate)} {first.unit}"
        return (
            f"{first.test.title} seemed beyond the margin of {self.margin.description}, with {first.metric.title} "
            f"{change} in the first {first.n_epochs} epochs"
        )

    def _unjudged(self) -> str:
        """Return the sentence without an interval, which would mean nothing for so few epochs."""
        if "never_judges" in self.reasons and self.design:
            return never_judges(self.design)
        if "too_few_connections" in self.reasons and self.effect is not None:
            return f"{self.verdict.value}: no connection failed, but {self._too_few_connections(self.effect)}"
        epochs = self.effect.n_epochs if self.effect else 0
        return f"{self.verdict.value}: {epochs} epochs are too few to judge"

    def _too_few_connections(self, effect: Effect) -> str:
        attempted = sum(effect.attempted or (0, 0))
        least = 100 * unseen_share(effect, self.alpha)
        return (
            f"the {attempted} connections that this design makes cannot show failures of less than "
            f"{percent_text(least, sign=False)} %, for a margin of {self._margin_text(effect)}"
        )

    def _why(self, effect: Effect) -> str:
        within = self.verdict is Verdict.WITHIN
        upper = within == (effect.metric.direction == "lower_is_better")
        bound = f"{percent_text(effect.show(self._one_sided(effect)[upper]))} {effect.unit}"
        side, lies = ("upper" if upper else "lower"), ("within" if within else "beyond")
        margin = self._margin_text(effect)
        return f"the one-sided {self._level(within=within)} {side} bound {bound} lies {lies} the margin of {margin}"

    def _why_undecided(self, effect: Effect, mde_fraction: float) -> str:
        if "too_few_connections" in self.reasons:
            return self._too_few_connections(effect)
        return f"{self._why_not(effect, mde_fraction)}; {self._advice(effect)}"

    def _why_not(self, effect: Effect, mde_fraction: float) -> str:
        if "too_wide" in self.reasons:
            size = f"{percent_text(100 * mde_fraction, sign=False)} {effect.unit}"
            return (
                f"the interval is too wide, at this spread {effect.n_epochs} epochs detect differences of {size} "
                f"and more, for a margin of {self._margin_text(effect)}"
            )
        low, high = (f"{percent_text(effect.show(bound))} {effect.unit}" for bound in self._one_sided(effect))
        return (
            f"the one-sided {self._levels()} bounds {low} and {high} lie on both sides of "
            f"the margin of {self._margin_text(effect)}"
        )

    def _advice(self, effect: Effect) -> str:
        if self.stopped:
            return f"stopped after {self._look_text(effect)}: {self.stopped}; {self._more(effect)}"
        if self.looks > 1:
            return f"{self._look_text(effect)} was the last; {self._more(effect)}"
        return self._more(effect)

    def _more(self, effect: Effect) -> str:
        """Return what would decide the question, from the observed change and spread."""
        allowed = slowdown_size(self.margin_fraction, effect.metric.direction, effect.metric.scale)
        return advise(effect, allowed, self.alpha, epoch_s=self.epoch_s).text()

    def _look_text(self, effect: Effect) -> str:
        return f"look {self.look} of {self.looks} ({effect.n_epochs} epochs)"

    def _levels(self) -> str:
        exceeds, within = self._level(within=False), self._level(within=True)
        return within if within == exceeds else f"{exceeds} and {within}"

    def _level(self, *, within: bool) -> str:
        if within or self.effect is None:
            return f"{100 * (1 - self.alpha):.4g} %"
        alpha = self.alpha if self.exceeds_alpha is None else self.exceeds_alpha
        return f"{100 * (1 - self.effect.metric.exceeds_level * alpha):.4g} %"

    def _margin_text(self, effect: Effect) -> str:
        """Return the margin, with its value at this reference if that differs from its text."""
        plain = self.margin.relative if effect.metric.scale == "ratio" else self.margin.at_least
        moved = self.margin_fraction > plain or (effect.metric.scale == "difference" and self.margin.relative > 0)
        here = f", here {percent_text(100 * self.margin_fraction, sign=False)} {effect.unit}" if moved else ""
        return f"{self.margin.description}{here}"


def judge(
    effect: Effect, margin: Margin, *, alpha: float = 0.05, exceeds_alpha: float | None = None, planned: float = 1
) -> Judgement:
    """Judge an effect against a margin by the one-sided bounds of the slow-down.

    The verdict is within if the upper bound is inside the margin, exceeds if the lower bound is beyond it, else
    inconclusive; with fewer than `MIN_EPOCHS` it is unjudged. `exceeds_alpha` is the level of the lower bound, if it
    differs from `alpha`. Epochs that agree to the last bit are invalid, unless the
    metric is exact (resolution 0), such as a share of counted datagrams. A share of connections has at least the
    standard error of `Effect.floored`; if not even `planned` times as many connections without a failure could show it
    within the margin, it is unjudged without failures and inconclusive with some. Raises UsageError for a margin that a
    rate cannot have.
    Source: D. J. Schuirmann, "A comparison of the two one-sided tests procedure", 1987.
    """
    direction, scale = effect.metric.direction, effect.metric.scale
    fraction = margin.effective(effect.reference_value, scale, header_cost=effect.header_cost)
    allowed = slowdown_size(fraction, direction, scale)
    effect = effect.floored(allowed)
    verdict, reasons = _rule(effect, allowed, effect.one_sided(alpha, exceeds_alpha))
    if verdict is Verdict.INCONCLUSIVE and unseen_share(effect, alpha, planned) > allowed > 0:
        failed = effect.test_value > 0 or effect.reference_value > 0
        verdict = Verdict.INCONCLUSIVE if failed else Verdict.UNJUDGED
        reasons = ("too_few_connections",)
    return Judgement(
        verdict=verdict,
        reasons=reasons,
        effect=effect,
        margin=margin,
        margin_fraction=fraction,
        alpha=alpha,
        exceeds_alpha=exceeds_alpha,
        p_exceeds=_p_exceeds(effect, allowed),
        mde_fraction=minimum_detectable(
            effect.sd_epoch, effect.n_epochs, alpha=alpha, direction=direction, scale=scale
        ),
    )


def judge_looks(effects: Sequence[Effect], margin: Margin, *, alpha: float, looks: int) -> Judgement:
    """Return the judgement of the first look that decides, else of the last; `effects` holds one effect for each look.

    A question that was answered keeps its answer, even if more is measured for another question. `alpha` is the level
    of one look; the design has `looks` of them. Raises ValueError if no look was taken. Source: S. J. Pocock, "Group
    sequential methods in the design and analysis of clinical trials", 1977.
    """
    for look, effect in enumerate(effects, start=1):
        judgement = replace(judge(effect, margin, alpha=alpha, planned=looks / look), look=look, looks=looks)
        if judgement.decided or look == len(effects):
            return judgement
    raise ValueError("no look was taken")


def unseen_share(effect: Effect, alpha: float, times: float = 1.0) -> float:
    """Return the largest share of failures that so many connections, none of which failed, cannot rule out.

    `times` as many connections and epochs are assumed. The result is 0 for a metric without a design effect. Formula:
    the share s at which t(1 - alpha) sqrt(design effect s (1 - s) / n) = s, the bound of `judge` without any failure.
    """
    if effect.attempted is None or not effect.metric.design_effect:
        return 0.0
    t = t_quantile(1 - alpha, round(times * effect.n_epochs) - 1)
    size = t * t * effect.metric.design_effect
    return size / (times * min(effect.attempted) + size)


def _rule(effect: Effect, allowed: float, bounds: tuple[float, float]) -> tuple[Verdict, tuple[str, ...]]:
    low, high = bounds
    if effect.metric.direction == "higher_is_better":
        low, high = -high, -low
    if effect.sd_epoch == 0 and effect.metric.resolution > 0:
        return Verdict.INVALID, ("zero_spread",)
    if effect.n_epochs < MIN_EPOCHS:
        return Verdict.UNJUDGED, ("too_few_epochs",)
    if high <= allowed:
        return Verdict.WITHIN, ()
    if low > allowed:
        return Verdict.EXCEEDS, ()
    return Verdict.INCONCLUSIVE, ("too_wide" if (high - low) / 2 > allowed else "straddles",)


def _p_exceeds(effect: Effect, allowed: float) -> float:
    slowdown = effect.change.estimate if effect.metric.direction == "lower_is_better" else -effect.change.estimate
    if effect.standard_error == 0:
        return 0.0 if slowdown > allowed else 1.0
    p = t_probability((allowed - slowdown) / effect.standard_error, effect.change.df)
    return min(1.0, p / effect.metric.exceeds_level)


def _zero_spread_text(effect: Effect) -> str:
    change = f"{percent_text(effect.shown.estimate)} {effect.unit}"
    return (
        f"{Verdict.INVALID.value}: all {effect.n_epochs} epochs gave exactly the same change of {change} from "
        f"{effect.reference.title} to {effect.test.title}, as a broken clock does"
    )
