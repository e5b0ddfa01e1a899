"""Spread of a cell observed in one session, as plain values for the power forecasts of later sessions.

It is separate from the forecast because it is read before every run, and the forecast needs scipy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_ipperf.core.records.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedSpread:
    """Spread of a cell's changes over epochs and over the `blocks` of an epoch, in the `session` of that name.

    `reference_value` is the reference's mean in the metric's unit, `margin_fraction` the margin that applied; None if
    no test asked. `header_cost` is the share that headers alone cost the other arm.
    """

    session: str
    server: str
    sd_epoch: float
    sd_block: float
    blocks: int
    reference_value: float
    margin_fraction: float | None
    header_cost: float = 0.0

    @classmethod
    def of(cls, record: Record, session: str) -> ObservedSpread | None:
        """Return the spread in a record; None if its design has too few epochs or blocks for one."""
        if record.sd_epoch is None or record.sd_block is None:
            return None
        return cls(
            session=session,
            server=record.server,
            sd_epoch=record.sd_epoch,
            sd_block=record.sd_block,
            blocks=record.blocks,
            reference_value=record.reference.mean,
            margin_fraction=record.margin_fraction,
            header_cost=record.header_cost,
        )


def comparable(spreads: Sequence[ObservedSpread]) -> list[ObservedSpread]:
    """Return the spreads of the last measured server, as other programs differ; the oldest first."""
    return [each for each in spreads if each.server == spreads[-1].server]
