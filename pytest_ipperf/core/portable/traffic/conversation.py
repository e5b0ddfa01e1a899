"""Talk spurts of the two people in a call, by ITU-T P.59 (03/1993). Travels to hosts: Python 3.10 alone.

The Recommendation has four states: one person talks, the other one does, both do, nobody does. The durations of single
talk, double talk and mutual silence are exponential. After single talk comes double talk in 40 of 100 cases, else
mutual silence; after those, either person talks alone with equal probability. A person talks 42 % of the time.
These figures were not compared with the text of the Recommendation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random

SINGLE_TALK_S, DOUBLE_TALK_S, MUTUAL_SILENCE_S = 0.854, 0.226, 0.456
"""Mean durations of the states."""
TO_DOUBLE_TALK = 0.4
"""Probability that double talk follows single talk."""
_DOUBLE, _SILENCE = 2, 3
_EARLIER_S = 10.0
"""Longest time that a conversation has lasted when its traffic begins, so that not all calls begin to talk at once."""


def talk_spurts(speaker: int, random: Random) -> Iterator[tuple[float, float]]:
    """Yield beginning and end in s of each talk spurt of a speaker, 0 or 1; both take generators of the same seed."""
    at_s, began_s = -_EARLIER_S * random.random(), math.nan
    for state, duration_s in _states(random):
        if state in (speaker, _DOUBLE):
            began_s = at_s if math.isnan(began_s) else began_s
        elif not math.isnan(began_s):
            yield began_s, at_s
            began_s = math.nan
        at_s += duration_s


def _states(random: Random) -> Iterator[tuple[int, float]]:
    while True:
        yield int(random.random() < 0.5), _exponential(SINGLE_TALK_S, random)
        if random.random() < TO_DOUBLE_TALK:
            yield _DOUBLE, _exponential(DOUBLE_TALK_S, random)
        else:
            yield _SILENCE, _exponential(MUTUAL_SILENCE_S, random)


def _exponential(mean_s: float, random: Random) -> float:
    return -mean_s * math.log(1.0 - random.random())
