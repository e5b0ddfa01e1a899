"""An effect: how much one arm differs from another, measured in the same blocks.

Effects are log ratios, so that swapping the arms only changes the sign and units cancel; they are shown in percent.
Shares that may be zero, such as losses, are compared by their difference, shown in percentage points.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.metric import SPEED, UNITS_OF_CHANGE, Metric
from pytest_ipperf.core.measurement.run import Run
from pytest_ipperf.core.portable.errors import InvalidError, UsageError
from pytest_ipperf.core.stats.interval import Interval, t_interval, t_quantile
from pytest_ipperf.core.stats.share_error import Shares, variance_at
from pytest_ipperf.core.stats.variance import stdev, variance


def percent_of_log(log_ratio: float) -> float:
    """Return a log ratio as a change in percent: ln 1.1 -> 10; infinite beyond the range of a float."""
    return 100 * math.expm1(log_ratio) if log_ratio < 700 else math.inf


def percent_text(percent: float, *, sign: bool = True) -> str:
    """Format a change with about two digits: `+3.1`, `-0.42`, `+153`."""
    size = abs(percent)
    if size < 0.0005:
        return "0"
    digits = 0 if size >= 99.95 else 1 if size >= 0.95 else 2 if size >= 0.095 else 3
    form = f"{'+' if sign else ''}.{'3g' if size >= 1e5 else f'{digits}f'}"
    return format(percent, form)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """The change from arm `reference` to arm `test` of a metric: the mean over epochs of each epoch's change.

    `change` is on the metric's scale, with E - 1 degrees of freedom: the log ratio test / reference, whose mean is
    geometric, or the difference test - reference of shares (0..1). `n_blocks` is the number of blocks in all epochs.
    `sd_epoch` is the standard deviation of the epochs' changes, `sd_block` that of the blocks within an epoch (None for
    a single block). `test_value` and `reference_value` are each arm's mean of run values in the metric's unit; their
    ratio differs from the effect if runs are skewed. `header_cost` is the share of goodput that headers alone cost
    `test`. `attempted` holds the numbers of connections of both arms if the metric is a share with a design effect.
    `reference_typical` is the value of the reference to which a ratio applies: the geometric mean over the epochs of
    the median, or by the metric's location the mean, of its block values; None for a difference.
    """

    metric: Metric
    change: Interval
    n_epochs: int
    n_blocks: int
    sd_epoch: float
    sd_block: float | None
    test: Arm
    reference: Arm
    test_value: float
    reference_value: float
    header_cost: float = 0.0
    attempted: tuple[int, int] | None = None
    reference_typical: float | None = None

    @property
    def unit(self) -> str:
        """Unit of the displayed change: `%` of the reference, or `pp`, percentage points."""
        return UNITS_OF_CHANGE[self.metric.scale]

    @property
    def shown(self) -> Interval:
        """The change for display, in `unit`."""
        return self.change.mapped(self.show)

    def show(self, change: float) -> float:
        """Convert a change on the metric's scale to `unit`."""
        return percent_of_log(change) if self.metric.scale == "ratio" else 100 * change

    @property
    def standard_error(self) -> float:
        """Standard error of the change: sd_epoch / sqrt(E)."""
        return self.sd_epoch / math.sqrt(self.n_epochs)

    def floored(self, margin: float) -> Effect:
        """Return the effect with at least the standard error that its connections have if the truth is `margin`.

        Only a share with a design effect has such a floor (`variance_at`); other effects are returned unchanged.
        """
        if self.attempted is None or not self.metric.design_effect or not 0 < margin < 1:
            return self
        seen = Shares(self.test_value, self.reference_value, *self.attempted)
        least = math.sqrt(self.metric.design_effect * variance_at(seen, margin))
        if least <= self.standard_error:
            return self
        half = t_quantile((1 + self.change.confidence) / 2, self.change.df) * least
        estimate = self.change.estimate
        change = replace(self.change, low=estimate - half, high=estimate + half)
        return replace(self, change=change, sd_epoch=least * math.sqrt(self.n_epochs))

    def one_sided(self, alpha: float, exceeds_alpha: float | None = None) -> tuple[float, float]:
        """Return the two one-sided bounds of the change; the truth is beyond each with probability `alpha`.

        The bound that shows an excess has the metric's `exceeds_level` times that probability, or times
        `exceeds_alpha` if that is given.
        """
        excess = alpha if exceeds_alpha is None else exceeds_alpha
        for each in (alpha, excess):
            if not 0 < each < 0.5:
                raise UsageError(f"alpha {each!r} is not between 0 and 0.5, such as 0.05")
        within, exceeds = (
            t_quantile(1 - level, self.change.df) * self.standard_error
            for level in (alpha, excess * self.metric.exceeds_level)
        )
        below, above = (exceeds, within) if self.metric.direction == "lower_is_better" else (within, exceeds)
        return self.change.estimate - below, self.change.estimate + above

    def finding(self, alpha: float | None = None, exceeds_alpha: float | None = None) -> str:
        """Describe the effect without a margin; an arm is called worse or better only if the interval excludes 0.

        The interval is the one between the bounds of `one_sided` at these levels, or else that of `change`. If the
        first excludes 0 and the second does not, the sentence calls the arm neither.
        """
        confidence, (low, high) = self.change.confidence, (self.change.low, self.change.high)
        if alpha is not None:
            excess = alpha if exceeds_alpha is None else exceeds_alpha
            confidence = 1 - alpha - excess * self.metric.exceeds_level
            low, high = self.one_sided(alpha, exceeds_alpha)
        level, ends = f"{100 * confidence:.4g} % interval", (self.show(low), self.show(high))
        quantity = "" if self.metric.words == SPEED else self.metric.title
        arms, of = f"{self.test.title} against {self.reference.title}", f" of {quantity}" if quantity else ""
        if low <= 0 <= high:
            could = "..".join(map(percent_text, ends))
            return f"{arms}: no difference{of} shown (could be {could} {self.unit}, {level})"
        if not self.change.excludes_zero:
            estimate = f"{percent_text(self.shown.estimate)} {self.unit}"
            return f"{arms}: change{of} of {estimate} [{', '.join(map(percent_text, ends))}] ({level})"
        worse = (low > 0) == (self.metric.direction == "lower_is_better")
        word = self.metric.words[0 if worse else 1]
        differs = f"has {word} {quantity}" if quantity else f"is {word}"
        near, far = (percent_text(size, sign=False) for size in sorted(map(abs, ends)))
        size = f"{percent_text(abs(self.shown.estimate), sign=False)} {self.unit} [{near}, {far}] ({level})"
        return f"{self.test.title} {differs} than {self.reference.title} by {size}"


def compare(
    runs: Sequence[Run],
    test: Arm,
    reference: Arm,
    metric: Metric,
    *,
    confidence: float = 0.95,
    header_cost: float = 0.0,
) -> Effect:
    """Return the effect of `test` against `reference`: change per block, location per epoch, t over the epochs.

    The change is the log ratio or the difference, by the metric's scale. Other arms and warm-up runs are ignored; the
    order of `runs` does not matter. Raises InvalidError if a block lacks an arm, epochs differ in blocks, there are
    fewer than 2 epochs, or a value is not finite or, for a ratio, not positive.
    Source: T. Kalibera and R. Jones, "Rigorous benchmarking in reasonable time", 2013: the epoch is the unit.
    """
    epochs = _paired(runs, test, reference, lambda run: _value(run, metric))
    changed = _log_ratio if metric.scale == "ratio" else _difference
    changes = [[changed(a, b) for a, b in blocks] for blocks in epochs]
    locate = statistics.median if metric.location == "median" else statistics.fmean
    located = [locate(blocks) for blocks in changes]
    pairs = [pair for blocks in epochs for pair in blocks]
    return Effect(
        metric=metric,
        change=t_interval(located, confidence),
        n_epochs=len(epochs),
        n_blocks=len(pairs),
        sd_epoch=stdev(located),
        sd_block=_pooled(changes),
        test=test,
        reference=reference,
        test_value=statistics.fmean(a for a, _ in pairs),
        reference_value=statistics.fmean(b for _, b in pairs),
        header_cost=header_cost,
        attempted=_attempted(runs, test, reference) if metric.design_effect else None,
        reference_typical=_geometric_mean(locate([b for _, b in blocks]) for blocks in epochs)
        if metric.scale == "ratio"
        else None,
    )


def difference(
    runs: Sequence[Run], test: Arm, reference: Arm, value: Callable[[Run], float], *, confidence: float = 0.95
) -> Interval:
    """Return the difference test - reference of a share (0..1, such as loss), in percentage points.

    The interval is a t interval over the epochs. The unit is the run, not the packet, as losses come in bursts. No loss
    anywhere gives 0 with zero width. Raises InvalidError as `compare` does, but accepts a share of zero.
    """
    epochs = _paired(runs, test, reference, lambda run: _finite(run, value(run)))
    return t_interval([100 * statistics.fmean(a - b for a, b in blocks) for blocks in epochs], confidence)


def _geometric_mean(values: Iterable[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values)))


def _attempted(runs: Sequence[Run], test: Arm, reference: Arm) -> tuple[int, int]:
    counted = [run for run in runs if not run.warmup]
    of_test, of_reference = (sum(run.attempted for run in counted if run.arm == arm) for arm in (test, reference))
    return of_test, of_reference


def _place(run: Run) -> str:
    return f"{run.arm} in epoch {run.epoch}, block {run.block}"


def _finite(run: Run, value: float) -> float:
    if not math.isfinite(value):
        raise InvalidError(f"value {value!r} of {_place(run)} is not a finite number")
    return value


def _value(run: Run, metric: Metric) -> float:
    value = run.values[metric.name]
    if value is None:
        raise InvalidError(f"{_place(run)} has no {metric.title}")
    if not math.isfinite(value) or (metric.scale == "ratio" and value <= 0):
        needed = "positive finite number, as a ratio needs" if metric.scale == "ratio" else "finite number"
        raise InvalidError(f"{metric.title} {value!r} of {_place(run)} is not a {needed}")
    return value


def _log_ratio(test: float, reference: float) -> float:
    return math.log(test) - math.log(reference)


def _difference(test: float, reference: float) -> float:
    return test - reference


def _paired(
    runs: Sequence[Run], test: Arm, reference: Arm, value: Callable[[Run], float]
) -> list[list[tuple[float, float]]]:
    """Return (test, reference) of each block, shape (epochs, blocks); InvalidError if one is missing or repeated."""
    if test == reference:
        raise InvalidError(f"{test} cannot be compared with itself")
    values: dict[Arm, dict[tuple[int, int], float]] = {test: {}, reference: {}}
    for run in runs:
        if run.warmup or run.arm not in values:
            continue
        if (run.epoch, run.block) in values[run.arm]:
            raise InvalidError(f"{_place(run)} was measured twice; a block measures each arm once")
        values[run.arm][run.epoch, run.block] = value(run)
    for place in sorted(values[test].keys() ^ values[reference].keys()):
        missing, other = (reference, test) if place in values[test] else (test, reference)
        raise InvalidError(f"{missing} was not measured in epoch {place[0]}, block {place[1]}, but {other} was")
    epochs: dict[int, dict[int, tuple[float, float]]] = defaultdict(dict)
    for epoch, block in sorted(values[test]):
        epochs[epoch][block] = (values[test][epoch, block], values[reference][epoch, block])
    _check_balance(test, reference, epochs)
    return [list(blocks.values()) for blocks in epochs.values()]


def _check_balance(test: Arm, reference: Arm, epochs: dict[int, dict[int, tuple[float, float]]]) -> None:
    arms = f"{test} against {reference}"
    if len(epochs) < 2:
        raise InvalidError(f"{arms} was measured in {len(epochs)} epoch(s); an interval needs at least 2")
    most = max(len(blocks) for blocks in epochs.values())
    for epoch, blocks in epochs.items():
        if len(blocks) < most:
            raise InvalidError(
                f"{arms} has {len(blocks)} of {most} blocks in epoch {epoch}, up to block {max(blocks)}; "
                "every epoch needs as many"
            )


def _pooled(changes: Sequence[Sequence[float]]) -> float | None:
    """Return the standard deviation within an epoch; epochs have equal numbers of blocks, so variances are averaged."""
    if len(changes[0]) < 2:
        return None
    return math.sqrt(statistics.fmean(variance(blocks) for blocks in changes))
