"""The offset of two clocks, from exchanges of four stamps (RFC 5905, section 8), and over the time between two of them.

Nothing travels in less than no time, so an exchange bounds the offset from both sides: it is at most t2 - t1 and at
least t3 - t4, and all exchanges together bound it most closely. RFC 5905's theta is the middle of the two, and its
delta their distance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

Exchange = tuple[float, float, float, float]
"""When a question was sent (near clock), came and was answered (far clock), and the answer came (near), in seconds."""


@dataclass(frozen=True, slots=True)
class Offset:
    """By how much the far clock is ahead of the near one at `at_s` of the near one, and how wrong that is at most.

    `error_s` is infinite where the offset is not known.
    """

    at_s: float
    offset_s: float
    error_s: float


def offset(exchanges: Sequence[Exchange]) -> Offset:
    """The median of the tenth of the exchanges that took the least time.

    Where a way is as long as the other, `error_s` is half the shortest delay; where not, up to all of it. The offset is
    not known of no exchange, and of those that contradict each other, as they do when a clock is set in between.
    """
    if not exchanges:
        return Offset(0.0, 0.0, math.inf)
    judged = sorted((t4 - t1 - (t3 - t2), (t2 - t1 + t3 - t4) / 2) for t1, t2, t3, t4 in exchanges)
    found = median(theta for _, theta in judged[: max(1, len(judged) // 10)])
    least = max(t3 - t4 for _, _, t3, t4 in exchanges)
    most = min(t2 - t1 for t1, t2, _, _ in exchanges)
    at_s = (min(t1 for t1, *_ in exchanges) + max(t4 for *_, t4 in exchanges)) / 2
    if least > most:
        return Offset(at_s, found, math.inf)
    within = min(max(found, least), most)
    return Offset(at_s, within, max(within - least, most - within))


@dataclass(frozen=True, slots=True)
class Course:
    """The offset from before a run to after it, if the clocks drift apart evenly."""

    before: Offset
    after: Offset

    @property
    def drift(self) -> float:
        """Seconds that the far clock gains in a second of the near one; 0 where no time is between."""
        passed_s = self.after.at_s - self.before.at_s
        return (self.after.offset_s - self.before.offset_s) / passed_s if passed_s else 0.0

    def at(self, at_s: float) -> Offset:
        """The offset at that time of the near clock, with the error that the two ends leave it."""
        passed_s = self.after.at_s - self.before.at_s
        share = (at_s - self.before.at_s) / passed_s if passed_s else 0.0
        value = self.before.offset_s + share * (self.after.offset_s - self.before.offset_s)
        return Offset(at_s, value, _weighed(self.before.error_s, 1 - share) + _weighed(self.after.error_s, share))


def _weighed(error_s: float, weight: float) -> float:
    """Of an end that is not known nothing is known in between, however near the other one is."""
    return error_s if math.isinf(error_s) else abs(weight) * error_s
