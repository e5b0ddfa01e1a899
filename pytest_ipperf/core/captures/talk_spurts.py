"""Talk spurts of a direction: packets at nearly even intervals, with silences between that are far longer.

Only such traffic has them here. The intervals of other traffic are a distribution without a gap between short and long
ones, in which every border between talking and silence would be arbitrary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_ipperf.core.stats.percentile import median, percentile

_SILENCE = 4.0
"""Least silence, in median intervals."""
_EVEN = (0.5, 1.5)
"""Bounds, in median intervals, of the 10th and the 90th percentile of the intervals within talk spurts."""
_BETWEEN = (2.0, 0.5)
"""Median intervals from which an interval is neither in a spurt nor a silence, and most of these for each silence."""
_FEWEST_SILENCES = 5
_MOST_SILENCES = 0.25
"""Largest share of all intervals that silences may be; with more there is hardly a spurt."""
_HALF = 0.5


@dataclass(frozen=True, slots=True)
class TalkSpurts:
    """Intervals within talk spurts, durations of spurts that are in the capture as a whole, and the pauses, all in s.

    A spurt lasts half an interval longer than its last packet, and the pause begins there.
    """

    intervals_s: Sequence[float]
    talk_s: Sequence[float]
    pause_s: Sequence[float]


def talk_spurts(intervals_s: Sequence[float]) -> TalkSpurts | None:
    """Return the talk spurts of packets with these intervals; None if there are none."""
    usual_s = median(intervals_s)
    within = [each for each in intervals_s if each <= _SILENCE * usual_s]
    silences = len(intervals_s) - len(within)
    if not _FEWEST_SILENCES <= silences <= _MOST_SILENCES * len(intervals_s):
        return None
    low, high = percentile(within, 0.1), percentile(within, 0.9)
    if sum(each > _BETWEEN[0] * usual_s for each in within) > _BETWEEN[1] * silences:
        return None
    if low < _EVEN[0] * usual_s or high > _EVEN[1] * usual_s:
        return None
    after_s, spurts, lasts_s = _HALF * usual_s, [], 0.0
    for each in intervals_s:
        if each <= _SILENCE * usual_s:
            lasts_s += each
        else:
            spurts.append(lasts_s + after_s)
            lasts_s = 0.0
    pauses = [each - after_s for each in intervals_s if each > _SILENCE * usual_s]
    return TalkSpurts(within, spurts[1:], pauses)  # the capture may have begun in the first
