"""Forecast what a design can detect here, from the spread observed in earlier sessions.

In 9 of 10 sessions a difference of that size is found, and no difference is shown to be within a margin of that size.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_ipperf.core.design.design import Design
from pytest_ipperf.core.design.metric import UNITS_OF_CHANGE, Metric
from pytest_ipperf.core.inference.power import block_share, epoch_spread, epochs_needed, minimum_detectable
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.records.observed_spread import ObservedSpread


@dataclass(frozen=True, slots=True, kw_only=True)
class VarianceComponents:
    """Variance components of a cell: of its change from block to block, and additionally from epoch to epoch."""

    sd_block: float
    sd_interaction: float

    @classmethod
    def pooled(cls, spreads: Sequence[ObservedSpread], metric: Metric) -> VarianceComponents:
        """Return the root mean squares over the sessions, which may differ in their number of blocks.

        The interaction is the part of an epoch's variance beyond that of its blocks; it cannot be negative.
        Source: the variance components of Kalibera and Jones, 2013.
        """
        block = statistics.fmean(each.sd_block**2 for each in spreads)
        beyond = statistics.fmean(
            each.sd_epoch**2 - block_share(each.blocks, metric.location) * each.sd_block**2 for each in spreads
        )
        return cls(sd_block=math.sqrt(block), sd_interaction=math.sqrt(max(0.0, beyond)))

    def of_epochs(self, design: Design, metric: Metric) -> float:
        """Return the standard deviation of the epochs' changes under a design."""
        return epoch_spread(self.sd_block, self.sd_interaction, design.blocks, metric.location)

    def detectable(self, design: Design, metric: Metric) -> float:
        """Return the minimum detectable difference of the design, by its last look, as a fraction."""
        return minimum_detectable(
            self.of_epochs(design, metric),
            design.most_epochs,
            alpha=design.alpha,
            direction=metric.direction,
            scale=metric.scale,
        )

    def epochs_for(self, margin_fraction: float, design: Design, metric: Metric) -> int | None:
        """Return the number of epochs of this design that detects a difference of the margin; None if none does."""
        sd_epoch = self.of_epochs(design, metric)
        try:
            return epochs_needed(
                sd_epoch, margin_fraction, alpha=design.alpha, direction=metric.direction, scale=metric.scale
            )
        except UsageError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerForecast:
    """Forecast for a cell: the minimum `detectable` difference as a fraction, at the spread of `sessions` sessions.

    `unit` is the unit for display, `%` or `pp`; for `pp` the fractions are differences of shares. `margin_fraction` is
    the narrowest margin asked, None if unknown. If it is less than the detectable difference, `epochs` is the number of
    epochs that would suffice (None: no number), and `better` the design that suffices, or else comes closest, with what
    it detects.
    """

    sessions: int
    detectable: float
    margin_fraction: float | None
    unit: str = "%"
    epochs: int | None = None
    better: tuple[str, float] | None = None

    @property
    def falls_short(self) -> bool:
        """Return whether the cell will probably stay undecided even if there is no difference."""
        return self.margin_fraction is not None and self.margin_fraction < self.detectable


def forecast(
    spreads: Sequence[ObservedSpread],
    margin_fraction: float | None,
    design: Design,
    others: Iterable[Design],
    metric: Metric,
) -> PowerForecast:
    """Forecast what `design` detects and, if that is not enough, which of the `others` detects more.

    All designs are taken to have runs of equal length.
    """
    spread = VarianceComponents.pooled(spreads, metric)
    found = PowerForecast(
        sessions=len(spreads),
        detectable=spread.detectable(design, metric),
        margin_fraction=margin_fraction,
        unit=UNITS_OF_CHANGE[metric.scale],
    )
    if margin_fraction is None or not found.falls_short:
        return found
    by_design = {each.name: spread.detectable(each, metric) for each in others if each.judges}
    # The first that suffices is chosen, as smaller designs come first and take less time.
    order = sorted(by_design, key=lambda name: max(by_design[name], margin_fraction))
    return dataclasses.replace(
        found,
        epochs=spread.epochs_for(margin_fraction, design, metric),
        better=next(((name, by_design[name]) for name in order if by_design[name] < found.detectable), None),
    )
