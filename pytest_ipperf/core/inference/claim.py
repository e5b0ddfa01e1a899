"""A claim: `slowdown <= margin` as a question with three answers.

It is true if shown and false if refuted, and raises otherwise, so that `assert` never takes missing evidence for
agreement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from pytest_ipperf.core.design.margin import Margin
from pytest_ipperf.core.design.question import FAILED_SHARE
from pytest_ipperf.core.inference.effect import Effect
from pytest_ipperf.core.inference.verdict import Judgement, Verdict, judge_looks
from pytest_ipperf.core.portable.errors import InvalidError, UndecidedError, UnjudgedError, UsageError

_RIGHT = "use `measured.slowdown <= margin`, or a text such as '10%' instead of margin"


class InconclusiveError(UndecidedError):
    """Raised if there is too little evidence to answer; carries the `judgement`."""

    def __init__(self, judgement: Judgement, sentence: str = "") -> None:
        super().__init__(judgement, sentence)
        self.judgement = judgement
        self._sentence = sentence or judgement.sentence()

    def __str__(self) -> str:
        return self._sentence


_WORST_FIRST = (Verdict.INVALID, Verdict.EXCEEDS, Verdict.UNJUDGED, Verdict.INCONCLUSIVE, Verdict.WITHIN)


def _stands_aside(judgement: Judgement) -> bool:
    """Return whether a judgement beside a claim counts for nothing: failed connections too few to be judged.

    These are judged in every test, whereas a tail is asked about by its author.
    """
    asked = judgement.effect is not None and judgement.effect.metric.name != FAILED_SHARE
    return judgement.verdict is Verdict.UNJUDGED and not asked


@dataclass(frozen=True, slots=True)
class Claim:
    """A question put to the data, and its judgement.

    `beside` are the judgements of what is asked beside it, such as the failed connections: the claim is true only if
    these are within their margins too. One that could not be judged at all does not count.
    """

    judgement: Judgement
    beside: tuple[Judgement, ...] = ()

    @property
    def deciding(self) -> Judgement:
        """Judgement that determines the answer: the worst one, of equal ones that of the question itself."""
        counting = (self.judgement, *(each for each in self.beside if not _stands_aside(each)))
        return min(counting, key=lambda each: _WORST_FIRST.index(each.verdict))

    def __bool__(self) -> bool:
        """Return True within the margin, False beyond; else raise InconclusiveError, InvalidError or UnjudgedError."""
        verdict = self.deciding.verdict
        if verdict is Verdict.UNJUDGED:
            raise UnjudgedError(self.sentence())
        if verdict is Verdict.INCONCLUSIVE:
            raise InconclusiveError(self.deciding, self.sentence())
        if verdict is Verdict.INVALID:
            raise InvalidError(self.sentence())
        return verdict is Verdict.WITHIN

    def __str__(self) -> str:
        return self.sentence()

    def sentence(self) -> str:
        """Return the sentence of the deciding judgement, and the verdicts of the others."""
        decides = self.deciding
        others = [each for each in (self.judgement, *self.beside) if each is not decides and each.says_more]
        return "; ".join([decides.sentence(), *(each.short() for each in others)])


def no_doubts(margin: Margin) -> Mapping[Verdict, str]:  # noqa: ARG001 - as others need
    """Return no verdict: each is believed."""
    return {}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Slowdown:
    """The slow-down of an arm, ready to be compared with a margin.

    `effects` holds the effect at each look, empty if nothing could be compared; the first look that decides a claim
    answers it. `alpha` is the one-sided level of each of the design's `looks`, and `stopped` says why some were not
    taken. A design with `judges=False` answers no claim. `doubts` returns for a margin the verdicts that would not be
    believed here, with the reasons; such a claim has no answer. `epoch_s` is the duration of an epoch in seconds, for
    the advice. `beside` are the judgements of what must be within its margin as well. `confirm` returns the judgement
    that an excess has in fresh epochs, if it counts only when they confirm it. `effects_for` returns the effects for a
    margin, if the values by which runs are judged depend on it.
    """

    effects: tuple[Effect, ...]
    judges: bool
    design: str
    alpha: float = 0.05
    looks: int = 1
    stopped: str = ""
    doubts: Callable[[Margin], Mapping[Verdict, str]] = field(default=no_doubts, repr=False)
    epoch_s: float = 0.0
    beside: tuple[Judgement, ...] = ()
    confirm: Callable[[Judgement], Judgement] | None = field(default=None, repr=False)
    effects_for: Callable[[Margin], tuple[Effect, ...]] | None = field(default=None, repr=False)

    def __le__(self, margin: Margin | str) -> Claim:
        """Return the claim that the slow-down is at most `margin`, a Margin or its text such as `10%`."""
        allowed = Margin.parse(margin) if isinstance(margin, str) else margin
        if not isinstance(allowed, Margin):
            raise UsageError(f"a slow-down is compared with a margin such as '10%', not with {margin!r}")
        return Claim(self.judged(allowed), self.beside)

    def judged(self, allowed: Margin) -> Judgement:
        """Return the judgement of the slow-down alone; raise UsageError if the margin does not suit the metric."""
        if not self.effects:
            return self._unmeasured(allowed)
        allowed.check(self.effects[0].metric)
        effects = self.effects if self.effects_for is None else self.effects_for(allowed)
        judgement = judge_looks(effects, allowed, alpha=self.alpha, looks=self.looks)
        if not self.judges:
            return replace(
                judgement, verdict=Verdict.UNJUDGED, reasons=("never_judges",), design=self.design, p_exceeds=None
            )
        if doubt := self.doubts(allowed).get(judgement.verdict):
            return replace(judgement, verdict=Verdict.INCONCLUSIVE, reasons=("doubted",), doubt=doubt)
        if self.confirm is not None and judgement.verdict is Verdict.EXCEEDS:
            return self.confirm(judgement)
        return judgement if judgement.decided else replace(judgement, stopped=self.stopped, epoch_s=self.epoch_s)

    def __lt__(self, other: object) -> bool:
        raise _no_question("<", other)

    def __gt__(self, other: object) -> bool:
        raise _no_question(">", other)

    def __ge__(self, other: object) -> bool:
        raise _no_question(">=", other)

    def __eq__(self, other: object) -> bool:
        raise _no_question("==", other)

    def __ne__(self, other: object) -> bool:
        raise _no_question("!=", other)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        """Raise UsageError: a slow-down alone is no question, and would be true for any measurement."""
        raise UsageError(f"a slow-down alone compares nothing; {_RIGHT}")

    def _unmeasured(self, margin: Margin) -> Judgement:
        return Judgement(
            verdict=Verdict.INCONCLUSIVE if self.judges else Verdict.UNJUDGED,
            reasons=("no_effect",) if self.judges else ("never_judges",),
            effect=None,
            margin=margin,
            margin_fraction=margin.relative or margin.at_least * (margin.unit == "1"),
            alpha=self.alpha,
            p_exceeds=None,
            mde_fraction=None,
            design=self.design,
        )


def _no_question(sign: str, other: object) -> UsageError:
    return UsageError(f"a slow-down cannot be compared by `{sign} {other!r}`; {_RIGHT}")
