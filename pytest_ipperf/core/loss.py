"""Loss, duplication and reordering of a stream, counted over the numbers of its datagrams as they arrived.

Numbers count the datagrams in the order in which they were sent, from 0 on.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from pytest_ipperf.core.errors import InvalidError


@dataclass(frozen=True, slots=True)
class Tally:
    """How many arrived, how many of them for the first time, and how many of these late.

    `reordered` are RFC 4737's type-P-reordered (section 3.3): a number below the largest that had arrived. Of several
    copies only the first is looked at.
    """

    arrived: int
    unique: int
    reordered: int

    @property
    def duplicates(self) -> int:
        """Copies beyond the first ones."""
        return self.arrived - self.unique


def tally(sequence: Iterable[float]) -> Tally:
    """Counts numbers in the order in which they arrived."""
    seen: set[float] = set()
    arrived = reordered = 0
    following = 0.0  # RFC 4737's NextExp
    for number in sequence:
        arrived += 1
        if number not in seen:
            seen.add(number)
            if number < following:
                reordered += 1
            else:
                following = number + 1
    return Tally(arrived, len(seen), reordered)


def loss_share(unique: int, sent: int) -> float | None:
    """The share (0..1) of what was sent that never arrived; None where nothing was sent.

    What was sent is the sender's own count: at the receiver nothing tells of the last ones (RFC 7680, section 4.1).
    InvalidError where more arrived than was sent.
    """
    if not 0 <= unique <= sent:
        raise InvalidError(f"{unique} of {sent} datagrams cannot have arrived; there are between none and all")
    return (sent - unique) / sent if sent else None


def reordered_share(reordered: int, unique: int) -> float | None:
    """RFC 4737's ratio (section 4.1) of what arrived reordered to all that arrived; None where nothing did."""
    return reordered / unique if unique else None


def duplicated_share(duplicates: int, unique: int) -> float | None:
    """RFC 5560's duplication fraction (section 5.1): copies beyond the first ones, for each that arrived once."""
    return duplicates / unique if unique else None


def loss_periods(sequence: Iterable[float], sent: int) -> array[int]:
    """How many were lost one after the other, each time that it began, in the order of sending.

    Source: RFC 3357, sections 4 and 6.3.
    """
    ends = [-1, *sorted({int(number) for number in sequence}), sent]
    return array("q", [now - before - 1 for before, now in pairwise(ends) if now - before > 1])
