"""Rounds of trials in random order, the load of others meanwhile, and the tables that come of them."""

from __future__ import annotations

import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from benchmarks.arena import CPUS
from pytest_ipperf.agent.kernel.processes import tree

CALM = 0.1
T = TypeVar("T")


def foreign(call: Callable[[], T]) -> tuple[T, float]:
    """What a call returns, and how many processors others had meanwhile."""
    before_s, began = _others_s(), time.monotonic()
    returned = call()
    return returned, (_others_s() - before_s) / (time.monotonic() - began)


def _others_s() -> float:
    """Processor time of every process but those of this program and the kernel's own."""
    mine = {each.pid for level in tree(os.getpid()) for each in level}
    return sum(each.cpu_s for level in tree(1) for each in level if each.pid not in mine)


def interleaved(names: Sequence[str], rounds: int, seed: str) -> Iterator[str]:
    """All of them in each round, in random order."""
    rng = random.Random(seed)
    for _ in range(rounds):
        yield from rng.sample(list(names), len(names))


def measured(
    tools: Mapping[str, Callable[[], Sequence[float]]], rounds: int, seed: str
) -> dict[str, list[tuple[float, ...]]]:
    """By tool, for each round: its figures, and how many processors others had meanwhile as the last of them.

    A trial that fails is made once more, or twice; one in which others had more than `CALM` of a processor, once more.
    """
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in tools}
    for name in interleaved(list(tools), rounds, seed):
        for left in (2, 1, 0):
            try:
                figures, others = foreign(tools[name])
            except AssertionError as error:
                if not left:
                    raise
                print(f"{name} is tried again: {error}", file=sys.stderr)
                continue
            if others <= CALM or left < 2:
                found[name].append((*figures, others))
                break
    _warn(trial[-1] for trials in found.values() for trial in trials)
    return found


def _warn(foreign_each: Iterable[float]) -> None:
    median = statistics.median(foreign_each)
    if median > CALM:
        print(f"\nothers had {median:.2f} of {CPUS} processors meanwhile: what follows tells of them too")


def spread(values: Sequence[float], digits: int) -> str:
    """Median, with the least and the greatest."""
    texts = (f"{value:.{digits}f}" for value in (statistics.median(values), min(values), max(values)))
    return "{} ({} .. {})".format(*texts)


def paired(mine: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Ratios within rounds."""
    return [one / other for one, other in zip(mine, theirs, strict=True)]


def row(*cells: str) -> None:
    """One line of a table."""
    print(f"| {' | '.join(cells)} |", flush=True)


def head(*cells: str) -> None:
    """Its first two."""
    print()
    row(*cells)
    print("|" + "---|" * len(cells), flush=True)


@dataclass(frozen=True)
class Goal:
    """What a figure is to be, by the median of its rounds."""

    of: str
    figures: Sequence[float]
    limit: float
    at_least: bool = False

    @property
    def held(self) -> bool:
        """Whether it is."""
        median = statistics.median(self.figures)
        return median >= self.limit if self.at_least else median <= self.limit


def show(goals: Sequence[Goal], digits: int = 2) -> None:
    """The table of goals."""
    head("goal", "target", "measured", "met")
    for goal in goals:
        sign = ">=" if goal.at_least else "<="
        row(goal.of, f"{sign} {goal.limit:g}", spread(goal.figures, digits), "yes" if goal.held else "**no**")
