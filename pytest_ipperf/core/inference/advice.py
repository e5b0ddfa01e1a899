"""Advice: how much more measurement would decide an undecided cell, computed from its data."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pytest_ipperf.core.design.design import DESIGNS, RFC8219, Design
from pytest_ipperf.core.inference.effect import Effect
from pytest_ipperf.core.inference.power import block_share, decided_by, epoch_spread, epochs_needed
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.units import seconds_text

POWER = 0.8
"""Share of sessions that the advised number of epochs decides if the true change and spread equal those observed.

The sentences call it 8 of 10.
"""

_CALMER = "a calmer machine or a wider margin would help"
_TOO_MANY = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Total number of epochs that would decide a cell; `epochs` is None if not even a thousand would.

    `design` is the design that has as many epochs; if None, they are epochs like those measured. `seconds` is their
    duration, 0 if unknown.
    """

    epochs: int | None
    design: Design | None = None
    seconds: float = 0.0

    def text(self) -> str:
        """Return the advice as the end of a sentence."""
        if self.epochs is None:
            return f"no design would decide it, as the change seen is too near the margin for its spread; {_CALMER}"
        time = f"about {seconds_text(self.seconds)}" if self.seconds else ""
        if self.design is not None:
            how = ", ".join(filter(None, (f"--design={self.design.name}", time)))
            return (
                f"about {self.epochs} epochs ({how}) would decide it in 8 of 10 sessions at the change and spread "
                "that were seen"
            )
        took = f" ({time})" if time else ""
        return (
            f"about {self.epochs} epochs like these{took} would decide it in 8 of 10 sessions, but no design "
            f"does; {_CALMER}"
        )


def advise(effect: Effect, allowed: float, alpha: float, *, epoch_s: float = 0.0) -> Advice:
    """Return the total number of epochs that would decide whether a slow-down exceeds `allowed`, and a design for them.

    `allowed` is on the scale of the change (see `slowdown_size`), `alpha` is the one-sided level of a look, and
    `epoch_s` is the duration of an epoch in seconds. Formula: the fewest epochs E whose one-sided t bound clears the
    margin with probability POWER if the truth is the observed change: the non-centrality is |change - allowed| *
    sqrt(E) / sd. Source: J. Cohen, 1988, chapter 2, as for `minimum_detectable`. For a design with several looks, E are
    the epochs of the look by which it has decided with that probability (`decided_by`).
    """
    slowdown = effect.change.estimate if effect.metric.direction == "lower_is_better" else -effect.change.estimate
    distance = abs(slowdown - allowed)
    blocks = effect.n_blocks // effect.n_epochs
    for design in DESIGNS.values():
        if not design.judges or design.name == RFC8219:  # RFC 8219 has its own rules and takes hours
            continue
        epochs, end = _enough(design, _spread(effect, blocks, design.blocks), distance, effect.n_epochs)
        if epochs is not None:
            scale = (design.blocks + 1) / (blocks + 1)  # each epoch begins with a warm-up
            return Advice(epochs=epochs, design=design, seconds=end * scale * epoch_s)
    epochs = _fewest(effect.sd_epoch, distance, alpha)
    if epochs is None or epochs > _TOO_MANY:
        return Advice(epochs=None)
    return Advice(epochs=epochs, seconds=epochs * epoch_s)


def _enough(design: Design, sd_epoch: float, distance: float, measured: int) -> tuple[int | None, int]:
    """Return the fewest epochs, more than were measured, that decide, and those of the look that has them.

    The first is None if the design has too few.
    """
    if design.looks == 1:
        epochs = _fewest(sd_epoch, distance, design.alpha)
        if epochs is None or max(epochs, measured + 1) > design.epochs:
            return None, 0
        return max(epochs, measured + 1), design.epochs
    ends = range(design.epochs, design.most_epochs + 1, design.epochs)
    shares = decided_by(distance, sd_epoch, ends, alpha=design.alpha)
    end = next((end for end, share in zip(ends, shares, strict=True) if share >= POWER and end > measured), None)
    return end, end or 0


def _spread(effect: Effect, blocks: int, others: int) -> float:
    """Return the spread of epochs with another number of blocks; unchanged if the share of the blocks is unknown."""
    if effect.sd_block is None or others == blocks:
        return effect.sd_epoch
    location = effect.metric.location
    share = block_share(blocks, location)
    # Blocks that differ by more than their epochs do balance each other: their share is then all of the epochs' spread.
    sd_block = min(effect.sd_block, effect.sd_epoch / math.sqrt(share))
    interaction = math.sqrt(max(0.0, effect.sd_epoch**2 - share * sd_block**2))
    return epoch_spread(sd_block, interaction, others, location)


def _fewest(sd_epoch: float, distance: float, alpha: float) -> int | None:
    if distance == 0:
        return None
    try:
        # `distance` is already on the scale of changes, so it must not be converted to logs again.
        return epochs_needed(sd_epoch, distance, alpha=alpha, power=POWER, scale="difference")
    except UsageError:
        return None
