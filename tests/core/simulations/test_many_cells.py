"""Sessions of many cells that are each judged alone, and what fresh epochs confirm; figures: docs/simulations.md.

The long forms have 4000 sessions each and take about 15 minutes of one core in all, the short ones 100 and 3 s.
"""

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import pytest

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.design import DESIGNS, Design
from pytest_ipperf.core.design.margin import Margin
from pytest_ipperf.core.inference.confirmation import Confirmation, confirmation_level
from pytest_ipperf.core.inference.effect import compare
from pytest_ipperf.core.inference.verdict import Verdict, judge
from pytest_ipperf.core.measurement.run import Run
from pytest_ipperf.metrics import METRICS
from tests.core.simulations.figures import held_to_the_page, rows_between

SECTION = "\n## Many cells\n"
LONG, SHORT = 4000, 100
V4 = Arm(4, "native")
V6 = (Arm(6, "native"), Arm(6, "tunnel"), Arm(6, "isatap"))
METRIC = METRICS["response_time"].metric
QUICK = DESIGNS["quick"]
MARGIN = 0.05


def spread(rng):
    """Draw a normal run: 3 % around 1."""
    return math.log1p(rng.gauss(0, 0.03))


def outliers(rng):
    """Make 5 % of the runs take twice as long."""
    return spread(rng) + (math.log(2) if rng.random() < 0.05 else 0.0)


def measured(rng, design: Design, truths: Mapping[Arm, float], noise: Callable) -> list[Run]:
    """Simulate the runs of a workload; `truths` are the log ratios of the arms to the reference, interaction is 1 %."""
    runs = []
    for epoch in range(design.epochs):
        effects = {V4: 0.0} | {arm: truth + rng.gauss(0, 0.01) for arm, truth in truths.items()}
        for block in range(design.blocks):
            for slot, (arm, effect) in enumerate(effects.items()):
                run = Run(
                    arm=arm, epoch=epoch, block=block, slot=slot, warmup=False, started_at=0.0, attempted=1,
                    failed={}, values={METRIC.name: 0.01 * math.exp(effect + noise(rng))},
                )  # fmt: skip
                runs.append(run)
    return runs


def judged(rng, truths: Mapping[Arm, float], cells: int, noise: Callable) -> Iterator[tuple[bool, bool]]:
    """Yield for each arm of a workload whether it exceeds its margin in the first epochs, and whether it is confirmed.

    The session has so many `cells` in all.
    """
    runs = measured(rng, QUICK, truths, noise)
    found = {arm: judge(compare(runs, arm, V4, METRIC), Margin(MARGIN), alpha=QUICK.alpha) for arm in truths}
    flagged = {arm: truths[arm] for arm, first in found.items() if first.verdict is Verdict.EXCEEDS}
    again = measured(rng, QUICK.confirming(), flagged, noise) if flagged else []
    for arm, first in found.items():
        if arm not in flagged:
            yield False, False
            continue
        effect, level = compare(again, arm, V4, METRIC), confirmation_level(cells)
        confirmed = Confirmation(effect=effect, level=level, alpha=QUICK.alpha).judged(first)
        yield True, confirmed.verdict is Verdict.EXCEEDS


def some_wrong(rng, *, workloads, arms=1, noise=spread):
    """Put all cells exactly at their margin, so that every red one is wrong."""
    truths = dict.fromkeys(V6[:arms], math.log1p(MARGIN))
    cells = [cell for _ in range(workloads) for cell in judged(rng, truths, workloads * arms, noise)]
    return {"each alone": any(alone for alone, _ in cells), "confirmed": any(confirmed for _, confirmed in cells)}


def all_measured_again(rng, *, workloads):
    """Disturb the first epochs so that every cell is red; in the fresh ones all are exactly at their margin."""
    truths, design = {V6[0]: math.log1p(MARGIN)}, QUICK.confirming()
    first = judge(
        compare(measured(rng, QUICK, {V6[0]: 1.0}, spread), V6[0], V4, METRIC), Margin(MARGIN), alpha=QUICK.alpha
    )
    confirmation = partial(Confirmation, level=confirmation_level(workloads), alpha=QUICK.alpha)
    effects = (compare(measured(rng, design, truths, spread), V6[0], V4, METRIC) for _ in range(workloads))
    red = [confirmation(effect=effect).judged(first).verdict is Verdict.EXCEEDS for effect in effects]
    return {"each alone": True, "confirmed": any(red)}


def finds(rng, *, cells, slower, noise=spread):
    """Judge the one cell of a session that is slower than its margin allows."""
    ((alone, confirmed),) = judged(rng, {V6[0]: math.log1p(slower)}, cells, noise)
    return {"each alone": alone, "confirmed": confirmed}


@dataclass(frozen=True, slots=True)
class Simulation:
    """A statement about sessions; `alone` and `confirmed` are the targets of its two figures in percent."""

    experiment: Callable[[random.Random], Mapping[str, bool]]
    alone: tuple[float, float]
    confirmed: tuple[float, float]

    @property
    def target(self) -> str:
        return "; ".join(f"{low:g}..{high:g} %" for low, high in (self.alone, self.confirmed))

    def outside(self, name: str, count: int, errors: float) -> tuple[dict[str, float], list[str]]:
        """Return the figures, and those that are more than so many standard errors outside their targets."""
        rng, true = random.Random(f"1/{name}"), Counter[str]({"each alone": 0, "confirmed": 0})
        for _ in range(count):
            true.update(self.experiment(rng))
        figures = {label: 100 * often / count for label, often in true.items()}
        wrong = []
        for label, (low, high) in {"each alone": self.alone, "confirmed": self.confirmed}.items():
            below, above = (errors * math.sqrt(bound * (100 - bound) / count) for bound in (low, high))
            if not low - below <= figures[label] <= high + above:
                wrong.append(label)
        return figures, wrong


WRONG_12, RARELY = (40, 49), (0, 5)
SIMULATIONS = {
    "cells-12": Simulation(partial(some_wrong, workloads=12), WRONG_12, RARELY),
    "cells-12-shared": Simulation(partial(some_wrong, workloads=4, arms=3), (36, 49), RARELY),
    "cells-12-outliers": Simulation(partial(some_wrong, workloads=12, noise=outliers), (20, 49), RARELY),
    "cells-60": Simulation(partial(some_wrong, workloads=60), (93, 97), RARELY),
    "cells-12-disturbed": Simulation(partial(all_measured_again, workloads=12), (100, 100), RARELY),
    "found-10": Simulation(partial(finds, cells=12, slower=0.10), (85, 100), (80, 100)),
    "found-8": Simulation(partial(finds, cells=12, slower=0.08), (40, 80), (20, 70)),
    "found-outliers": Simulation(partial(finds, cells=12, slower=0.15, noise=outliers), (50, 100), (45, 100)),
}


@pytest.mark.parametrize("name", SIMULATIONS)
def test_short(name):
    """Four standard errors of slack."""
    _, wrong = SIMULATIONS[name].outside(name, SHORT, errors=4)
    assert not wrong, SIMULATIONS[name].target


@pytest.mark.evidence
@pytest.mark.parametrize("name", SIMULATIONS)
def test_long(name, capsys):
    figures = SIMULATIONS[name].outside(name, LONG, errors=0)
    held_to_the_page(capsys, name, SIMULATIONS[name].target, figures, rows_between(SECTION)[name])


def test_the_page_shows_every_simulation_with_its_target():
    assert {name: row["target"] for name, row in rows_between(SECTION).items()} == {
        name: simulation.target for name, simulation in SIMULATIONS.items()
    }
