"""Forecast what a design can detect here, from the spread that earlier sessions observed.

The minimum detectable difference is found, or none is shown to be within such a margin, in 9 of 10 sessions.
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
    """The variance components of a cell: of its change from block to block, and from epoch to epoch beside that."""

    sd_block: float
    sd_interaction: float

    @classmethod
    def pooled(cls, spreads: Sequence[ObservedSpread], metric: Metric) -> VarianceComponents:
        """The root mean squares over the sessions, whatever number of blocks each of them had.

        What an epoch's spread has beyond that of its blocks is the interaction; it cannot be negative.
        Source: the variance components of Kalibera and Jones, 2013.
        """
        block = statistics.fmean(each.sd_block**2 for each in spreads)
        beyond = statistics.fmean(
            each.sd_epoch**2 - block_share(each.blocks, metric.location) * each.sd_block**2 for each in spreads
        )
        return cls(sd_block=math.sqrt(block), sd_interaction=math.sqrt(max(0.0, beyond)))

    def of_epochs(self, design: Design, metric: Metric) -> float:
        """The spread of the epochs' changes under a design."""
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
        """The epochs of the design's kind that would detect a difference of the margin; None where no number would."""
        sd_epoch = self.of_epochs(design, metric)
        try:
            return epochs_needed(
                sd_epoch, margin_fraction, alpha=design.alpha, direction=metric.direction, scale=metric.scale
            )
        except UsageError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerForecast:
    """The forecast for a cell: the minimum `detectable` difference as a fraction, at the spread of so many `sessions`.

    `unit` is what people read of it, `%` or `pp`; of those, the fractions are differences of shares.
    `margin_fraction` is the narrowest margin that is asked, None where that is not known. Where it is less than the
    detectable difference, `epochs` tells how many would do (None: no number), and `better` the design that is enough,
    or else comes nearest, with what it detects.
    """

    sessions: int
    detectable: float
    margin_fraction: float | None
    unit: str = "%"
    epochs: int | None = None
    better: tuple[str, float] | None = None

    @property
    def falls_short(self) -> bool:
        """Whether the cell will probably stay undecided even where there is no difference."""
        return self.margin_fraction is not None and self.margin_fraction < self.detectable


def forecast(
    spreads: Sequence[ObservedSpread],
    margin_fraction: float | None,
    design: Design,
    others: Iterable[Design],
    metric: Metric,
) -> PowerForecast:
    """Forecast what `design` detects, and where that is too little, which of the `others`, with runs as long, does."""
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
    # The first that is enough: a smaller design is done sooner.
    order = sorted(by_design, key=lambda name: max(by_design[name], margin_fraction))
    return dataclasses.replace(
        found,
        epochs=spread.epochs_for(margin_fraction, design, metric),
        better=next(((name, by_design[name]) for name in order if by_design[name] < found.detectable), None),
    )
