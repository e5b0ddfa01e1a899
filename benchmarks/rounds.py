"""Rounds of trials in random order, the load of other programs, and the tables of results."""

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
    """Call, and return the result with the number of processors that other programs used meanwhile."""
    before_s, began = _others_s(), time.monotonic()
    returned = call()
    return returned, (_others_s() - before_s) / (time.monotonic() - began)


def _others_s() -> float:
    """Return the processor time of all processes except this program's and the kernel's."""
    mine = {each.pid for level in tree(os.getpid()) for each in level}
    return sum(each.cpu_s for level in tree(1) for each in level if each.pid not in mine)


def interleaved(names: Sequence[str], rounds: int, seed: str) -> Iterator[str]:
    """Yield all names in each round, in random order."""
    rng = random.Random(seed)
    for _ in range(rounds):
        yield from rng.sample(list(names), len(names))


def measured(
    tools: Mapping[str, Callable[[], Sequence[float]]], rounds: int, seed: str
) -> dict[str, list[tuple[float, ...]]]:
    """Return by tool, for each round, its figures, followed by the number of processors that other programs used.

    A trial that fails is repeated up to twice; one in which others used more than `CALM` of a processor, once.
    """
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in tools}
    for name in interleaved(list(tools), rounds, seed):
        for left in (2, 1, 0):
            try:
                figures, others = foreign(tools[name])
            except AssertionError as error:
                if not left:
                    raise
                print(f"{name} is repeated: {error}", file=sys.stderr)
                continue
            if others <= CALM or left < 2:
                found[name].append((*figures, others))
                break
    _warn(trial[-1] for trials in found.values() for trial in trials)
    return found


def _warn(foreign_each: Iterable[float]) -> None:
    median = statistics.median(foreign_each)
    if median > CALM:
        print(f"\nothers had {median:.2f} of {CPUS} processors meanwhile, which affects the following figures")


def spread(values: Sequence[float], digits: int) -> str:
    """Format the median with the minimum and the maximum."""
    texts = (f"{value:.{digits}f}" for value in (statistics.median(values), min(values), max(values)))
    return "{} ({} .. {})".format(*texts)


def paired(mine: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Return the ratios within rounds."""
    return [one / other for one, other in zip(mine, theirs, strict=True)]


def row(*cells: str) -> None:
    """Print one line of a table."""
    print(f"| {' | '.join(cells)} |", flush=True)


def head(*cells: str) -> None:
    """Print the head of a table."""
    print()
    row(*cells)
    print("|" + "---|" * len(cells), flush=True)


@dataclass(frozen=True)
class Goal:
    """A limit for the median of a figure's rounds."""

    of: str
    figures: Sequence[float]
    limit: float
    at_least: bool = False

    @property
    def held(self) -> bool:
        """Whether the median keeps to the limit."""
        median = statistics.median(self.figures)
        return median >= self.limit if self.at_least else median <= self.limit


def show(goals: Sequence[Goal], digits: int = 2) -> None:
    """Print the table of goals."""
    head("goal", "target", "measured", "met")
    for goal in goals:
        sign = ">=" if goal.at_least else "<="
        row(goal.of, f"{sign} {goal.limit:g}", spread(goal.figures, digits), "yes" if goal.held else "**no**")
