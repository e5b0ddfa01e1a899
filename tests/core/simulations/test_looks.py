"""The looks of `standard` on data whose truth is known, beside `quick`; models and figures: docs/simulations.md.

As in `test_designs`, only `compare` and `judge_looks` say what a session shows; it ends at the look that decides. The
long forms take about 5 minutes of one core in all, the short ones about 4 s.
"""

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import pytest

from pytest_ipperf.core.design.design import DESIGNS, Design
from pytest_ipperf.core.design.margin import Margin
from pytest_ipperf.core.inference.effect import Effect, compare
from pytest_ipperf.core.inference.verdict import Verdict, judge_looks
from pytest_ipperf.core.measurement.run import Run
from tests.core.simulations.figures import held_to_the_page, rows_between
from tests.core.simulations.sessions import MEDIAN, SLOWER, V4, V6, Model, measured

SHORT = 250
QUICK, STANDARD = DESIGNS["quick"], DESIGNS["standard"]
FIRST_LOOK = replace(STANDARD, looks=1)
COUNTS = ("epochs",)


# --- models -----------------------------------------------------------------------------------------------------------


def runs_that_vary(rng, *, sd):
    return rng.gauss(0, sd)


def one_arm_doubled(rng, design: Design) -> list[Run]:
    """Let 5 % of the runs of IPv6 take twice as long, which makes it 5 % slower in the mean."""
    runs = measured(rng, Model(), design)
    return [_slower(run, 2 if run.arm == V6 and rng.random() < 0.05 else 1) for run in runs]


def autocorrelated(rng, design: Design) -> list[Run]:
    """Let the effect of an epoch, which spreads by 5 %, hold .3 of that of the epoch before."""
    effects = [rng.gauss(0, 0.05)]
    while len(effects) < design.most_epochs:
        effects.append(0.3 * effects[-1] + rng.gauss(0, 0.05 * math.sqrt(1 - 0.3**2)))
    runs = measured(rng, Model(noise=partial(runs_that_vary, sd=0.005)), design, SLOWER)
    return [_slower(run, math.exp(effects[run.epoch]) if run.arm == V6 else 1) for run in runs]


def independent(rng, design: Design) -> list[Run]:
    return measured(rng, Model(interaction=0.01), design, SLOWER)


def _slower(run: Run, factor: float) -> Run:
    value = run.values[MEDIAN.name]
    return run if value is None else replace(run, values={**run.values, MEDIAN.name: factor * value})


# --- experiments ------------------------------------------------------------------------------------------------------


def looked_at(runs: list[Run], design: Design, margin: float) -> tuple[Verdict, Effect]:
    """Judge by looks; the first one that decides ends the session. Return its verdict, and the effect by then."""
    effects: list[Effect] = []
    for look in range(1, design.looks + 1):
        effects.append(compare([run for run in runs if run.epoch < look * design.epochs], V6, V4, MEDIAN))
        judgement = judge_looks(effects, Margin(margin), alpha=design.alpha, looks=design.looks)
        if judgement.verdict is not Verdict.INCONCLUSIVE:
            break
    return judgement.verdict, effects[-1]


def at_the_margin(rng, *, design, session):
    """Judge a true slow-down of 5 % against a margin of 5 %."""
    verdict, effect = looked_at(session(rng, design), design, 0.05)
    return {
        "wrongly within": verdict is Verdict.WITHIN,
        "wrongly exceeds": verdict is Verdict.EXCEEDS,
        "covered": effect.change.low <= SLOWER <= effect.change.high,
    }


def decides(rng, *, spreads, truth=0.0):
    """Judge a cell with one of these spreads against a margin of 10 %, by `standard` and by `quick`."""
    model = Model(noise=partial(runs_that_vary, sd=rng.choice(spreads)))
    runs = measured(rng, model, STANDARD, truth)
    (verdict, effect), (quick, _) = looked_at(runs, STANDARD, 0.1), looked_at(runs, QUICK, 0.1)
    return {
        "decided": verdict is not Verdict.INCONCLUSIVE,
        "epochs": effect.n_epochs,
        "by quick": quick is not Verdict.INCONCLUSIVE,
    }


# --- what is simulated ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Simulation:
    """An experiment whose figures named in `bounds` must lie between two percentages; the others are shown."""

    experiment: Callable[[random.Random], Mapping[str, float]]
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    long: int = 20_000

    @property
    def target(self) -> str:
        texts = [f"{label} {low:g}..{high:g} %" for label, (low, high) in self.bounds.items()]
        return ", ".join(texts) or "none: shown"

    def means(self, seed: str, count: int) -> Mapping[str, float]:
        rng, total = random.Random(seed), Counter[str]()
        for _ in range(count):
            total.update(self.experiment(rng))
        return {label: (1 if label in COUNTS else 100) * each / count for label, each in total.items()}


def wrong(design, session=independent, **bounds):
    named = {label.replace("_", " "): each for label, each in bounds.items()}
    return Simulation(partial(at_the_margin, design=design, session=session), named)


def decided(low, high, *spreads, long=20_000, **truth):
    return Simulation(partial(decides, spreads=spreads, **truth), {"decided": (low, high)}, long)


ONE = {"wrongly_within": (4.3, 5.7), "wrongly_exceeds": (4.3, 5.7), "covered": (94.3, 95.7)}
LOOKS = {"wrongly_within": (0, 5.5), "wrongly_exceeds": (0, 6.5)}

SIMULATIONS = {
    "looks-quick": wrong(QUICK, **ONE),
    "looks-first": wrong(FIRST_LOOK, wrongly_within=(1.1, 2.1), wrongly_exceeds=(1.1, 2.1), covered=(94.3, 95.7)),
    "looks-standard": wrong(STANDARD, **LOOKS),
    "looks-uncorrected": wrong(replace(STANDARD, alpha=0.05), wrongly_within=(11, 15), wrongly_exceeds=(11, 15)),
    "looks-one-arm-quick": wrong(QUICK, one_arm_doubled),
    "looks-one-arm-standard": wrong(STANDARD, one_arm_doubled),
    "looks-autocorrelated-quick": wrong(QUICK, autocorrelated),
    "looks-autocorrelated-standard": wrong(STANDARD, autocorrelated),
    "decides-4": decided(99.5, 100, 0.04),
    "decides-8": decided(99, 100, 0.08),
    "decides-8-slower": decided(83, 89, 0.08, truth=SLOWER),
    "decides-12": decided(97, 100, 0.12),
    "decides-mixed": decided(98.5, 100, *(0.03 * (14 / 3) ** (number / 11) for number in range(12))),
}


def outside(name, count, errors):
    """Return the figures of a simulation, and those that are too many standard errors outside their bounds."""
    one, wrong = SIMULATIONS[name], {}
    found = one.means(f"1/{name}", count)
    for label, (low, high) in one.bounds.items():
        slack = {bound: errors * math.sqrt(bound * (100 - bound) / count) for bound in (low, high)}
        if not low - slack[low] <= found[label] <= high + slack[high]:
            wrong[label] = found[label]
    return found, wrong


def rows():
    """Return the page's rows on looks by simulation, each by its column."""
    return rows_between("\n## Looks\n", "\n## Failures and tails\n")


@pytest.mark.parametrize("name", SIMULATIONS)
def test_short(name):
    """Three standard errors of slack, as 250 experiments vary more than the targets allow 20 000 to."""
    found, wrong = outside(name, SHORT, errors=3)
    assert not wrong, SIMULATIONS[name].target
    assert list(rows()[name])[3:] == list(found)


@pytest.mark.evidence
@pytest.mark.parametrize("name", SIMULATIONS)
def test_long(name, capsys):
    """Without slack."""
    one = SIMULATIONS[name]
    held_to_the_page(capsys, name, one.target, outside(name, one.long, errors=0), rows()[name])


def test_the_page_shows_every_simulation_with_its_target():
    shown = rows()
    assert list(shown) == list(SIMULATIONS)
    assert [shown[name]["target"] for name in SIMULATIONS] == [each.target for each in SIMULATIONS.values()]
