"""Limits of one arm on data whose truth is known; models and figures: docs/simulations.md.

The long forms take about 15 minutes of one core in all; the short forms are the same with few sessions.
"""

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.design import DESIGNS
from pytest_ipperf.core.design.limit import Limit
from pytest_ipperf.core.inference.limit import judge_limit_looks
from pytest_ipperf.core.inference.verdict import Verdict
from pytest_ipperf.core.measurement.run import Run
from tests.core.simulations.figures import held_to_the_page, rows_between

FOUR = Arm(4, "native")
LONG, LONG_OF_LOOKS, SHORT = 10_000, 4000, 40
P95, P99, FAILED = Limit.parse("p95", "20ms"), Limit.parse("p99", "20ms"), Limit.parse("failed_share", "1pp")
MEAN, RATE = Limit.parse("mean", "5ms"), Limit.parse("throughput", "90mbit")
TRIED = ("quick", "nightly", "standard")
WRONG = {"within": (0.0, 5.5), "exceeds": (0.0, 6.5)}


# --- the number of connections beyond a limit in each run of this size; the share of all is `share` -------------------


def independent(rng, epochs, blocks, size, *, share):
    return rng.binomial(size, share, (epochs, blocks))


def clumps(rng, epochs, blocks, size, *, share):
    """Let four connections be slow together."""
    groups = size // 4
    return 4 * rng.binomial(groups, share * size / (4 * groups), (epochs, blocks))


def by_run(rng, epochs, blocks, size, *, share, rho=0.02):
    """Give each run a share of its own, from a beta distribution."""
    total = 1 / rho - 1
    return rng.binomial(size, rng.beta(share * total, (1 - share) * total, (epochs, blocks)))


def autocorrelated(rng, epochs, blocks, size, *, share, rho=0.02):
    """Give each epoch a share of its own, which holds 0.3 of the one before (AR)."""
    steps = rng.normal(0, math.sqrt(share * (1 - share) * rho), epochs) * math.sqrt(1 - 0.3**2)
    moved = [steps[0] / math.sqrt(1 - 0.3**2)]
    for step in steps[1:]:
        moved.append(0.3 * moved[-1] + step)
    shares = np.clip(share + np.array(moved), 0.0, 1.0)
    return rng.binomial(size, shares[:, np.newaxis], (epochs, blocks))


# --- values of runs, of which the mean is 1 ------------------------------------------------------------------------


def normal(rng, epochs, blocks, size):
    return 1 + rng.normal(0, 0.03, (epochs, blocks)) + rng.normal(0, 0.01, (epochs, 1))


def skewed(rng, epochs, blocks, size):
    """Draw runs that are means of lognormal times of which the slowest take many times the median."""
    return rng.lognormal(-0.5, 1.0, (epochs, blocks, size)).mean(axis=2)


def outliers(rng, epochs, blocks, size):
    """Let 5 % of the runs take twice as long."""
    return (1 + rng.normal(0, 0.03, (epochs, blocks))) * (1 + (rng.random((epochs, blocks)) < 0.05)) / 1.05


def resembling(rng, epochs, blocks, size):
    """Let epochs spread by 3 %, and hold 0.3 of the one before (AR)."""
    moved = [rng.normal(0, 0.03)]
    for step in rng.normal(0, 0.03 * math.sqrt(1 - 0.3**2), epochs - 1):
        moved.append(0.3 * moved[-1] + step)
    return 1 + np.array(moved)[:, np.newaxis] + rng.normal(0, 0.003, (epochs, blocks))


# --- experiments ------------------------------------------------------------------------------------------------------


def run(epoch, block, size, *, slow=0, failed=0, value=0.0):
    """Make a run; of its times only those beyond a limit matter."""
    return Run(
        arm=FOUR, epoch=epoch, block=block, slot=0, warmup=False, started_at=0.0, attempted=size,
        failed={"talk reset": failed}, times=[1.0] * slow or [0.0],
        values={"response_time": value, "throughput": value},
    )  # fmt: skip


def answered(runs, design, limit):
    ends = [design.epochs * look for look in range(1, design.looks + 1)]
    found = judge_limit_looks(runs, FOUR, limit, ends, quantity="response_time", alpha=design.alpha, looks=design.looks)
    return {"within": found.verdict is Verdict.WITHIN, "exceeds": found.verdict is Verdict.EXCEEDS}


def of_shares(rng, *, design, limit, beyond):
    size = design.run_connections
    counts = beyond(rng, design.most_epochs, design.blocks, size).tolist()
    kind = "failed" if limit is FAILED else "slow"
    runs = [
        run(epoch, block, size, **{kind: n}) for epoch, blocks in enumerate(counts) for block, n in enumerate(blocks)
    ]
    return answered(runs, design, limit)


def of_means(rng, *, design, limit, noise, factor=1.0):
    size = design.run_connections
    values = (limit.value * factor * noise(rng, design.most_epochs, design.blocks, size)).tolist()
    runs = [run(epoch, block, size, value=n) for epoch, blocks in enumerate(values) for block, n in enumerate(blocks)]
    return answered(runs, design, limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """An experiment, and the bounds in percent of what it must find true, by label; others are shown without bounds."""

    experiment: Callable[[Any], Mapping[str, bool]]
    bounds: Mapping[str, tuple[float, float]]
    long: int

    @property
    def target(self) -> str:
        return ", ".join(f"{label} {low:g}..{high:g} %" for label, (low, high) in self.bounds.items()) or "none: shown"

    def percent(self, name: str, sessions: int) -> dict[str, float]:
        rng = np.random.default_rng(random.Random(f"1/{name}").getrandbits(64))
        true = Counter({"within": 0, "exceeds": 0})
        for _ in range(sessions):
            true.update(self.experiment(rng))
        return {label: 100 * often / sessions for label, often in true.items()}

    def outside(self, found: Mapping[str, float], sessions: int, errors: float) -> list[str]:
        """Return the labels outside their bounds, with `errors` standard errors of slack."""
        wrong = []
        for label, (low, high) in self.bounds.items():
            slack = [errors * math.sqrt(max(1.0, end * (100 - end)) / sessions) for end in (low, high)]
            if not low - slack[0] <= found[label] <= high + slack[1]:
                wrong.append(label)
        return wrong


def tried(name, experiment, bounds, designs=TRIED, **of):
    return {
        f"{name}-{each}": Simulation(
            experiment=partial(experiment, design=DESIGNS[each], **of),
            bounds=bounds,
            long=LONG if DESIGNS[each].looks == 1 else LONG_OF_LOOKS,
        )
        for each in designs
    }


def shares(name, limit, model, share, bounds, designs=TRIED):  # noqa: PLR0917 - a row of the table
    return tried(name, of_shares, bounds, designs, limit=limit, beyond=partial(model, share=share))


def means(name, limit, noise, bounds, designs=TRIED, factor=1.0):  # noqa: PLR0917 - a row of the table
    return tried(name, of_means, bounds, designs, limit=limit, noise=noise, factor=factor)


SIMULATIONS: dict[str, Simulation] = {
    **shares("limit-p95", P95, independent, 0.05, WRONG),
    **shares("limit-p99", P99, independent, 0.01, WRONG),
    **shares("limit-failed", FAILED, independent, 0.01, WRONG),
    **means("limit-mean", MEAN, normal, WRONG),
    **means("limit-throughput", RATE, normal, WRONG),
    **means("limit-mean-skewed", MEAN, skewed, {}, ("quick", "nightly")),
    **means("limit-mean-outliers", MEAN, outliers, {}, ("quick", "nightly")),
    **means("limit-mean-autocorrelated", MEAN, resembling, {}, ("quick", "standard")),
    **shares("limit-p95-clumps", P95, clumps, 0.05, {}),
    **shares("limit-p95-by-run", P95, by_run, 0.05, {}),
    **shares("limit-p95-autocorrelated", P95, autocorrelated, 0.05, {}, ("quick", "standard")),
    **shares("limit-failed-clumps", FAILED, clumps, 0.01, {}),
    **shares("limit-failed-by-run", FAILED, by_run, 0.01, {}),
    **shares("limit-p95-kept", P95, independent, 0.03, {"within": (95.0, 100.0)}),
    **shares("limit-p95-broken", P95, independent, 0.08, {"exceeds": (95.0, 100.0)}),
    **shares("limit-p99-kept", P99, independent, 0.003, {"within": (90.0, 100.0)}),
    **means("limit-mean-kept", MEAN, normal, {"within": (95.0, 100.0)}, factor=0.95),
    **means("limit-mean-broken", MEAN, normal, {"exceeds": (95.0, 100.0)}, factor=1.05),
}


@pytest.mark.parametrize("name", SIMULATIONS)
def test_short(name):
    simulation = SIMULATIONS[name]
    assert not simulation.outside(simulation.percent(name, SHORT), SHORT, errors=4), simulation.target


@pytest.mark.evidence
@pytest.mark.parametrize("name", SIMULATIONS)
def test_long(name, capsys):
    simulation = SIMULATIONS[name]
    found = simulation.percent(name, simulation.long)
    wrong = simulation.outside(found, simulation.long, errors=0)
    held_to_the_page(capsys, name, simulation.target, (found, wrong), rows()[name])


def rows():
    """Return the page's rows by simulation."""
    return rows_between("\n## Limits\n", "\n## Nights\n")


def test_the_page_shows_every_simulation_with_its_target():
    shown = rows()
    assert list(shown) == list(SIMULATIONS)
    assert all(shown[name]["target"] == simulation.target for name, simulation in SIMULATIONS.items())
