"""Confirm an excess in fresh epochs, which alone decide it.

Of many cells that are each judged alone, some seem beyond their margins by chance. The fresh epochs of such a cell are
judged at a level that the cells of the session share.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pytest_ipperf.core.inference.effect import Effect
from pytest_ipperf.core.inference.verdict import Judgement, Verdict, judge

SESSION_ALPHA = 0.04
"""Level of all confirmations of a session; with that of the failed connections, a fifth of it, it is below 5 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """Fresh evidence for one quantity of a cell.

    `effect` is the effect in the fresh epochs, None if there are none for the reason `refused`. `level` is the
    one-sided level at which they show an excess, `alpha` that at which they show agreement. `doubts` are the
    verdicts that are not believed, with the reasons; `epoch_s` is as in `Slowdown`.
    """

    effect: Effect | None
    level: float
    alpha: float
    refused: str = ""
    doubts: Mapping[Verdict, str] = field(default_factory=dict)
    epoch_s: float = 0.0

    def judged(self, first: Judgement) -> Judgement:
        """Return the judgement of the fresh epochs if the first ones showed an excess, else `first`."""
        if first.verdict is not Verdict.EXCEEDS:
            return first
        if self.effect is None:
            return replace(first, verdict=Verdict.INCONCLUSIVE, reasons=("unconfirmed",), unconfirmed=self.refused)
        fresh = judge(self.effect, first.margin, alpha=self.alpha, exceeds_alpha=self.level)
        fresh = replace(fresh, first=first, epoch_s=self.epoch_s)
        if fresh.verdict is Verdict.UNJUDGED:  # an excess was seen, so that the cell cannot go without an answer
            return replace(fresh, verdict=Verdict.INCONCLUSIVE)
        if doubt := self.doubts.get(fresh.verdict):
            return replace(fresh, verdict=Verdict.INCONCLUSIVE, reasons=("doubted",), doubt=doubt)
        return fresh


def confirmation_level(questions: int) -> float:
    """Return the one-sided level of one of a session's `questions`, by Bonferroni's correction."""
    return SESSION_ALPHA / max(1, questions)
