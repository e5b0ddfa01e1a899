"""A component of a record: the answer to a question asked beside the record's own, such as the failed connections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_ipperf.core.design.limit import Limit
from pytest_ipperf.core.records.first_estimate import FirstEstimate

if TYPE_CHECKING:  # scipy comes with it, as in `record`
    from pytest_ipperf.core.inference.verdict import Judgement


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """Answer to one question about a cell by `metric`, with fields as in a record.

    `test_value` and `reference_value` are the arms' means in the metric's unit. The bounds are one-sided, in
    `change_unit`; those of the level that decides. `title` is the metric's, and `arm` the arm that was judged. For a
    `limit`, such as `p95<=20ms`, the estimate is the share of connections beyond it, or the mean's distance from it,
    and `reference_value` the share that it allows, or its value.
    `confirms` is set if the figures are of fresh epochs.
    """

    metric: str
    test_value: float
    reference_value: float
    estimate: float | None
    low: float | None
    high: float | None
    lower_bound: float | None
    upper_bound: float | None
    change_unit: str
    sd_epoch: float | None
    margin: str
    margin_fraction: float
    alpha: float
    verdict: str
    reasons: tuple[str, ...]
    sentence: str
    p_exceeds: float | None
    look: int
    epochs: int
    title: str = ""
    arm: str = ""
    limit: str = ""
    confirms: FirstEstimate | None = None

    @classmethod
    def of(cls, judgement: Judgement) -> Component:
        """Return the component of a judgement that has an effect; raise ValueError if it has none."""
        effect = judgement.effect
        if effect is None:
            raise ValueError("a judgement without an effect is no component")
        judged = "never_judges" not in judgement.reasons
        lower, upper = judgement.bounds if judged and judgement.bounds else (None, None)
        return cls(
            metric=effect.metric.name,
            test_value=effect.test_value,
            reference_value=effect.reference_value,
            estimate=effect.shown.estimate,
            low=effect.shown.low if judged else None,
            high=effect.shown.high if judged else None,
            lower_bound=lower,
            upper_bound=upper,
            change_unit=effect.unit,
            sd_epoch=effect.sd_epoch,
            margin=str(judgement.margin),
            margin_fraction=judgement.margin_fraction,
            alpha=judgement.alpha,
            verdict=judgement.verdict.name.lower(),
            reasons=judgement.reasons,
            sentence=judgement.sentence(),
            p_exceeds=judgement.p_exceeds,
            look=judgement.look,
            epochs=effect.n_epochs,
            title=effect.metric.title,
            arm=str(effect.test),
            limit=effect.metric.name if Limit.named(effect.metric.name) else "",
            confirms=FirstEstimate.of(judgement),
        )

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Component:
        """Read the fields of a component, also after a round trip through JSON."""
        confirms = FirstEstimate.from_plain(plain.get("confirms"))
        return cls(**{**plain, "reasons": tuple(plain["reasons"]), "confirms": confirms})
