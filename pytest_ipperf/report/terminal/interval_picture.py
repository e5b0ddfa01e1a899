"""Draw a judgement as text, for a failed assertion: its interval on a line with zero and the margin."""

from __future__ import annotations

from pytest_ipperf.core.inference.effect import percent_text
from pytest_ipperf.core.inference.power import slowdown_size
from pytest_ipperf.core.inference.verdict import Judgement

_WIDTH = 56


def interval_picture(judgement: Judgement) -> list[str]:
    """Return lines that draw the interval that decides on the metric's scale; `o` is the estimate, `|` the margin.

    Where the two-sided interval of the effect is wider, dashes reach to its ends.
    """
    effect = judgement.effect
    if effect is None:
        return []
    change, metric, allowed = effect.change, effect.metric, judgement.margin_fraction
    bounds = effect.one_sided(judgement.alpha) if judgement.bounds else (change.low, change.high)
    size = slowdown_size(allowed, metric.direction, metric.scale)
    limit = size if metric.direction == "lower_is_better" else -size
    low, high = min(change.low, bounds[0], 0.0, limit), max(change.high, bounds[1], 0.0, limit)
    span = (high - low) or 1.0

    def column(value: float) -> int:
        return round((value - low) / span * (_WIDTH - 1))

    bar = [" "] * _WIDTH
    for at in range(column(change.low), column(change.high) + 1):
        bar[at] = "-"
    for at in range(column(bounds[0]), column(bounds[1]) + 1):
        bar[at] = "="
    bar[column(bounds[0])], bar[column(bounds[1])], bar[column(change.estimate)] = "[", "]", "o"
    scale = [" "] * _WIDTH
    scale[column(0.0)], scale[column(limit)] = "0", "|"
    ends = ", ".join(percent_text(effect.show(bound)) for bound in bounds)
    return [
        "".join(bar).rstrip() + f"   {percent_text(effect.shown.estimate)} {effect.unit} [{ends}]",
        "".join(scale).rstrip() + f"   0 = no change, | = margin {100 * allowed:.3g} {effect.unit}",
    ]
