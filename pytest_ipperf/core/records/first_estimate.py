"""The first estimate of a quantity that was measured again because it seemed beyond its margin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # scipy comes with it, as in `record`
    from pytest_ipperf.core.inference.verdict import Judgement


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstEstimate:
    """Change in the first epochs, in the record's `change_unit`, with the one-sided bounds that decided there.

    The fresh epochs show an excess at the one-sided `level`, which the cells of their session share.
    """

    estimate: float
    lower_bound: float
    upper_bound: float
    alpha: float
    epochs: int
    level: float
    sentence: str

    @classmethod
    def of(cls, judgement: Judgement) -> FirstEstimate | None:
        """Return what `judgement` was to confirm; None if it is not of fresh epochs."""
        first = judgement.first
        if first is None or first.effect is None or first.bounds is None:
            return None
        lower, upper = first.bounds
        return cls(
            estimate=first.effect.shown.estimate,
            lower_bound=lower,
            upper_bound=upper,
            alpha=first.alpha,
            epochs=first.effect.n_epochs,
            level=judgement.alpha if judgement.exceeds_alpha is None else judgement.exceeds_alpha,
            sentence=first.sentence(),
        )

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any] | None) -> FirstEstimate | None:
        """Read the fields of an estimate; None if there is none."""
        return None if plain is None else cls(**plain)
