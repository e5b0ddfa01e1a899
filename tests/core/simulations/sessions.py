"""Models of runs, and sessions made of them in the order of `plan_for`; models: docs/simulations.md."""

import math
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import accumulate

from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.core.design.design import Design
from pytest_ipperf.core.design.plan import plan_for
from pytest_ipperf.core.measurement.run import Run
from pytest_ipperf.metrics import METRICS

V4, V6 = Arm(4, "native"), Arm(6, "native")
WORKLOAD = Workload(testbed="lab", protocol="smtp", client="lean", connections=10, payload_bytes=1024)
MEDIAN = METRICS["response_time"].metric
MEAN = replace(MEDIAN, location="mean")
LOSS = METRICS["loss"].metric
SLOWER = math.log1p(0.05)


# --- models: the logarithm of a run's value is a sum of these ---------------------------------------------------------


def spread(rng):
    """Draw a normal run: 3 % around 1."""
    return math.log1p(rng.gauss(0, 0.03))


def lognormal(rng):
    return rng.gauss(0, 0.5)


def heavy(rng):
    """Draw from Student's t with 3 degrees of freedom, scaled to a spread of 3 %."""
    return 0.03 * rng.gauss(0, 1) / math.sqrt(rng.gammavariate(1.5, 2))


def outliers(rng, *, share, factor):
    return spread(rng) + (math.log(factor) if rng.random() < share else 0.0)


def steady(rng, runs, runs_of_epoch):
    return [0.0] * runs


def drift(rng, runs, runs_of_epoch, *, share):
    return [math.log1p(share * place / (runs - 1)) for place in range(runs)]


def walk(rng, runs, runs_of_epoch):
    return accumulate(rng.gauss(0, 0.005) for _ in range(runs))


def every_second(rng, runs, runs_of_epoch):
    return [math.log(1.02) * (place % 2) for place in range(runs)]


def cold_start(rng, runs, runs_of_epoch):
    return [math.log1p(0.2 * 0.5 ** (place % runs_of_epoch)) for place in range(runs)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model of runs: `noise` is drawn for each run, `course` is a trend over all runs in order, whatever their arm.

    `interaction` is how much the effect itself varies from epoch to epoch.
    """

    noise: Callable[[random.Random], float] = spread
    course: Callable[[random.Random, int, int], Iterable[float]] = steady
    interaction: float = 0.0


# --- sessions ---------------------------------------------------------------------------------------------------------

Place = tuple[Arm, int, int, int]


def random_blocks(design: Design, seed: int) -> list[Place]:
    """Yield arm, epoch, block and slot in the order of the plan; warm-ups are never counted and left out."""
    return [
        (arm, epoch.number, block, slot)
        for epoch in plan_for(WORKLOAD, (V4, V6), design, seed).epochs
        for block, order in enumerate(epoch.blocks)
        for slot, arm in enumerate(order)
    ]


def one_after_the_other(design: Design, seed: int) -> list[Place]:
    """Yield all runs of IPv4 first; the first run of each arm makes the first pair, and so on."""
    blocks = [(epoch, block) for epoch in range(design.most_epochs) for block in range(design.blocks)]
    return [(arm, *block, slot) for slot, arm in enumerate((V4, V6)) for block in blocks]


def run_of(place: Place, value: float, lost: int = 0, attempted: int = 1) -> Run:
    arm, epoch, block, slot = place
    return Run(
        arm=arm,
        epoch=epoch,
        block=block,
        slot=slot,
        warmup=False,
        started_at=0.0,
        attempted=attempted,
        failed={"lost": lost},
        values={MEDIAN.name: value, LOSS.name: lost / attempted},
    )


def measured(rng, model: Model, design: Design, truth: float = 0.0, order=random_blocks) -> list[Run]:
    """Simulate a session around 10 ms; `truth` is the log ratio of IPv6 to IPv4."""
    places = order(design, rng.getrandbits(32))
    effects = [truth + rng.gauss(0, model.interaction) for _ in range(design.most_epochs)]
    course = model.course(rng, len(places), len(places) // design.most_epochs)
    return [
        run_of(place, 0.01 * math.exp(level + model.noise(rng) + (effects[place[1]] if place[0] == V6 else 0.0)))
        for place, level in zip(places, course, strict=True)
    ]
