"""Change points in the history of a cell: where its level changed. They are for information and decide nothing."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Iterator, Sequence
from itertools import accumulate
from operator import mul

LEAST_NIGHTS = 5
"""Minimum number of nights on each side of a change; fewer cannot tell a level from a few odd nights."""


def change_points(values: Sequence[float], *, p: float = 0.001, seed: int = 0) -> tuple[int, ...]:
    """Return the indices of the first night of each new level.

    Binary segmentation: the split with the largest two-sample t statistic is a change point if the statistic exceeds
    those of 1/p - 1 random orders of the same nights; both sides are then searched likewise. Nights that depend on the
    previous night give more false points than `p`. `values` must be finite; `seed` determines the random orders.
    Source: A. J. Scott and M. Knott, "A cluster analysis method for grouping means in the analysis of variance", 1974,
    with the permutation test of D. S. Matteson and N. A. James, "A nonparametric approach for multiple change point
    analysis of multivariate data", 2014.
    """
    rng = random.Random(f"{seed}/{len(values)}")  # noqa: S311 - random orders, no secret
    return tuple(sorted(_segment_starts(list(values), 0, rng, orders=math.ceil(1 / p) - 1)))


def _segment_starts(values: list[float], start: int, rng: random.Random, orders: int) -> Iterator[int]:
    if len(values) < 2 * LEAST_NIGHTS:
        return
    mean = statistics.fmean(values)
    centred = [value - mean for value in values]
    weights = _weights(len(values))
    splits = _splits(centred, weights)
    largest = max(splits)
    # One random order as good as the true one refutes the split, so most searches end after a few orders.
    shuffled = (sorted(centred, key=lambda _: rng.random()) for _ in range(orders))
    if largest <= 0 or any(max(_splits(each, weights)) >= largest for each in shuffled):
        return
    split = LEAST_NIGHTS + splits.index(largest)
    yield start + split
    yield from _segment_starts(values[:split], start, rng, orders)
    yield from _segment_starts(values[split:], start + split, rng, orders)


def _weights(nights: int) -> list[float]:
    """Return 1/before + 1/after for each split."""
    return [1 / before + 1 / (nights - before) for before in range(LEAST_NIGHTS, nights - LEAST_NIGHTS + 1)]


def _splits(centred: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Return the sum of squares that each split explains; it rises with |t|, as every order has the same total."""
    before = list(accumulate(centred))[LEAST_NIGHTS - 1 : len(centred) - LEAST_NIGHTS]
    return list(map(mul, map(mul, before, before), weights))
