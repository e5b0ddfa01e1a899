"""Nights of 200 cells through the gate's own code, on data whose truth is known; models, figures: docs/simulations.md.

What a session finds of a cell is computed for all cells at once, as 20 000 nights are 480 million runs; a test holds it
against `compare` and `judge`. All that follows is `decide`. The long forms take about 60 minutes of one core in all,
the short ones, the same with fewer nights, about 10 s.
"""

import datetime as dt
import math
import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, islice
from typing import Any

import numpy as np
import pytest

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.design import DESIGNS
from pytest_ipperf.core.design.margin import Margin
from pytest_ipperf.core.design.metric import Metric
from pytest_ipperf.core.inference.claim import Claim
from pytest_ipperf.core.inference.effect import compare
from pytest_ipperf.core.inference.verdict import judge
from pytest_ipperf.core.measurement.run import Run
from pytest_ipperf.core.nightly.evidence import p_beyond
from pytest_ipperf.core.nightly.gate import decide, flagged
from pytest_ipperf.core.nightly.report import RED, GateDecision, GateStatus, NightReport
from pytest_ipperf.core.records.arm_summary import ArmSummary
from pytest_ipperf.core.records.history_entry import HistoryEntry, HistoryKey
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.core.stats.change_points import change_points
from pytest_ipperf.core.stats.holm import adjusted
from pytest_ipperf.core.stats.interval import t_probability, t_quantile
from pytest_ipperf.metrics import METRICS
from tests.core.simulations.figures import held_to_the_page, rows_between

SECTION = "\n## Nights\n"
CELLS, TWINS, NIGHTS = 200, 10, 20
COUNTS = ("flagged cells",)
# The page's column of what a simulation is judged by; those after it are shown beside.
JUDGED = 4
NIGHTLY = DESIGNS["nightly"]
TODAY = dt.date(2026, 11, 22)
V4, V6 = Arm(4, "native"), Arm(6, "native")
MEDIAN = METRICS["response_time"].metric
MEAN = replace(MEDIAN, location="mean")
SLOWER = math.log1p(0.05)


# --- models: the logarithm of a run's value is a sum of these, for all runs of a night --------------------------------


def spread(rng, shape):
    """Draw a normal run: 3 % around 1."""
    return np.log1p(rng.normal(0, 0.03, shape))


def heavy(rng, shape):
    """Draw from Student's t with 3 degrees of freedom, scaled to a spread of 3 %."""
    return 0.03 * rng.standard_t(3, shape) / math.sqrt(3)


def outliers(rng, shape):
    """Make 5 % of the runs take twice as long."""
    return spread(rng, shape) + math.log(2) * (rng.random(shape) < 0.05)


def steady(rng, places):
    return 0.0


def walk(rng, places):
    """Make a random walk with steps of 0.5 % from run to run."""
    course = np.cumsum(rng.normal(0, 0.005, (len(places), int(places.max()) + 1)), axis=1)
    return np.take_along_axis(course, places.reshape(len(places), -1), axis=1).reshape(places.shape)


def drift(rng, places, *, share):
    return np.log1p(share * places / places.max())


def second_slower(rng, places, *, share):
    """Make the second run in each block take this much longer."""
    return math.log1p(share) * (places % 2)


def random_blocks(rng, shape):
    """Return the place of each run in its session, the reference first along the last axis: arms in random order."""
    _, epochs, blocks, arms = shape
    first = arms * np.arange(epochs * blocks).reshape(1, epochs, blocks, 1)
    return first + np.argsort(rng.random(shape), axis=-1)


def reference_first(rng, shape):
    _, epochs, blocks, arms = shape
    return np.broadcast_to(np.arange(epochs * blocks * arms).reshape(1, epochs, blocks, arms), shape)


def one_after_the_other(rng, shape):
    _, epochs, blocks, arms = shape
    own = np.arange(epochs * blocks).reshape(1, epochs, blocks, 1)
    return np.broadcast_to(own + epochs * blocks * np.arange(arms), shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model of runs: their variation, their order, and the summary of an epoch.

    `arms` are compared with one reference in each session; `interaction` is how much an effect itself varies from epoch
    to epoch. `times` holds a factor for each cell, by which the spread of its epochs
    is multiplied.
    """

    noise: Callable[..., Any] = spread
    course: Callable[..., Any] = steady
    order: Callable[..., Any] = random_blocks
    interaction: float = 0.005
    arms: int = 1
    blocks: int = NIGHTLY.blocks
    metric: Metric = MEAN
    times: Any = None

    def again(self, places):
        """Return the model of the fresh epochs of these cells."""
        times = None if self.times is None else self.times[places]
        return replace(self, times=times)

    def runs(self, rng, truths):
        """Return the logarithms of all runs, shape (cells / arms, epochs, blocks, 1 + arms), the reference first."""
        truths = np.asarray(truths).reshape(-1, 1, 1, self.arms)
        shape = (len(truths), NIGHTLY.epochs, self.blocks, 1 + self.arms)
        logs = self.noise(rng, shape) + self.course(rng, self.order(rng, shape))
        moved = rng.normal(0, self.interaction, (len(truths), NIGHTLY.epochs, 1, self.arms))
        logs[..., 1:] += truths + moved
        return logs

    def changes(self, rng, truths):
        """Return each epoch's change, of shape (cells, epochs)."""
        logs = self.runs(rng, truths)
        located = self.located(logs[..., 1:] - logs[..., :1])
        found = np.moveaxis(located, -1, 1).reshape(-1, NIGHTLY.epochs)
        if self.times is None:
            return found
        truths = np.asarray(truths).reshape(-1, 1)
        return truths + self.times.reshape(-1, 1) * (found - truths)

    def located(self, changes):
        return np.median(changes, axis=2) if self.metric.location == "median" else changes.mean(axis=2)


# --- records ----------------------------------------------------------------------------------------------------------


def side(values: Sequence[float] = (0.01,)) -> ArmSummary:
    return ArmSummary(arm=Arm(6, "native"), values=tuple(values), attempted=1, completed=1, failed={}, phases={})


SIDE = side()
PLAIN: dict[str, Any] = {
    "testbed": "lab", "protocol": "smtp", "connections": 1, "payload_bytes": 1024, "ipver": 6, "transport": "native",
    "twin": False, "client": "lean", "server": "postfix", "metric": MEAN.name, "design": NIGHTLY.name, "judges": True,
    "seed": 1, "look": 1, "looks": 1, "epochs": NIGHTLY.epochs, "blocks": NIGHTLY.blocks, "deadline_s": 10.0,
    "test": SIDE, "reference": SIDE, "confidence": 0.95, "sd_block": None, "alpha": NIGHTLY.alpha, "sentence": "",
    "workload_version": "1", "fingerprint": "f",
}  # fmt: skip
KEYS = [HistoryKey(f"lab-smtp-c{number}-1k-ipv6", MEAN.name, "1") for number in range(CELLS)]


def records(changes, keys: Sequence[HistoryKey], margin: float) -> list[Record]:
    """Return the records that `compare` and `judge` make of each cell's epochs."""
    epochs = changes.shape[1]
    change, sd = changes.mean(axis=1), changes.std(axis=1, ddof=1)
    error, allowed = sd / math.sqrt(epochs), math.log1p(margin)
    shown = [100 * np.expm1(change + t * error) for t in (0, *(t_quantile(p, epochs - 1) for p in (0.025, 0.975)))]
    half = t_quantile(1 - NIGHTLY.alpha, epochs - 1) * error
    verdicts = np.where(change + half <= allowed, 2, np.where(change - half > allowed, 1, 0))
    facts = zip(keys, *(each.tolist() for each in (*shown, sd, verdicts, half)), strict=True)
    return [
        Record(
            **PLAIN, cell=key.cell, estimate=estimate, low=low, high=high, sd_epoch=spread_of_epochs,
            margin=f"{100 * margin:g}%", margin_fraction=margin, verdict=("inconclusive", "exceeds", "within")[verdict],
            reasons=() if verdict else ("too_wide" if bound > allowed else "straddles",),
        )
        for key, estimate, low, high, spread_of_epochs, verdict, bound in facts
    ]  # fmt: skip


def twins(rng, model: Model) -> list[Record]:
    """Return records of the reference and its twin, without any difference, with run values for the A/A check."""
    runs = replace(model, interaction=0.0).runs(rng, np.zeros(TWINS))
    found = []
    for number, session in enumerate(np.exp(runs).reshape(TWINS, -1, 2)):
        facts = {**PLAIN, "twin": True, "reference": side(session[:, 0].tolist()), "test": side(session[:, 1].tolist())}
        found.append(
            Record(
                **facts, cell=f"lab-http-c{number}-1k-ipv4-twin", estimate=0.0, low=0.0, high=0.0, sd_epoch=0.0,
                margin="", margin_fraction=None, verdict="measured", reasons=(),
            )
        )  # fmt: skip
    return found


def past(key: HistoryKey, night: int, change: float, sd_epoch: float | None) -> HistoryEntry:
    return HistoryEntry(
        key=key, session="", began_at=float(night), change=change, sd_epoch=sd_epoch, epochs=NIGHTLY.epochs,
        test_value=0.01, reference_value=0.01, margin="", margin_fraction=0.0, header_cost=0.0, verdict="within",
        fingerprint="f",
    )  # fmt: skip


# --- nights -----------------------------------------------------------------------------------------------------------


def night(
    rng,
    model: Model,
    truths,
    margin: float,
    *,
    watched=False,
    histories: Mapping[HistoryKey, Sequence[HistoryEntry]] | None = None,
) -> NightReport:
    """Simulate a night with these true changes: all cells are screened, and flagged ones measured again."""
    screen = records(model.changes(rng, truths), KEYS, margin)
    suspects = [KEYS.index(record.key) for record in flagged(screen)]
    fresh: list[Record] = []
    if suspects:
        sessions = sorted({place // model.arms for place in suspects})
        again = [session * model.arms + arm for session in sessions for arm in range(model.arms)]
        measured = records(model.again(again).changes(rng, truths[again]), [KEYS[place] for place in again], margin)
        fresh = [record for place, record in zip(again, measured, strict=True) if place in suspects]
    return decide(
        screen=screen + (twins(rng, model) if watched else []),
        fresh=fresh,
        expected=KEYS,
        histories=histories or {},
        accepted=(),
        today=TODAY,
        troubles={},
        metric_of=lambda name: model.metric,
    )


def all_at(change: float, one: float = 0.0):
    """Return the true changes of all cells; the first one is slower by `one` in addition."""
    truths = np.full(CELLS, change)
    truths[0] += one
    return truths


# --- experiments: each tells what came true in a night ----------------------------------------------------------------


def without_a_regression(rng, *, model, truth=0.0, margin=0.0):
    report = night(rng, model, all_at(truth), margin)
    suspects = sum(cell.flagged for cell in report.cells)
    return {"red nights": report.gate_status is GateStatus.RED, "any flagged": suspects > 0, "flagged cells": suspects}


def with_one_regression(rng, *, model, margin=0.0):
    """Let one cell be 5 % beyond its margin, and all others exactly at it."""
    report = night(rng, model, all_at(math.log1p(margin), SLOWER), margin)
    return {"found": report.cells[0].decision is GateDecision.EXCEEDS}


def with_one_regression_by_holm_alone(rng, *, model):
    """Apply another rule than the gate's: no fresh epochs, but Holm over all cells of the screening."""
    screen = records(model.changes(rng, all_at(0.0, SLOWER)), KEYS, 0.0)
    shown = adjusted({record.cell: p_beyond(record, model.metric, 0.0) for record in screen})
    return {"found": shown[KEYS[0].cell] <= 0.04}


def watched(rng, *, model):
    report = night(rng, model, all_at(0.0), 0.0, watched=True)
    exceeds = bool(report.with_decision(GateDecision.EXCEEDS))
    return {"unstable": report.gate_status is GateStatus.UNSTABLE, "some cell exceeds": exceeds}


def each_its_own(rng, *, sd):
    return rng.normal(0, sd, CELLS)


def one_for_all(rng, *, sd):
    return np.full(CELLS, rng.normal(0, sd))


def restless(rng, *, sd):
    """Let every fourth cell vary three times as much from night to night as the others."""
    return rng.normal(0, sd, CELLS) * np.where(np.arange(CELLS) % 4 == 0, 3, 1)


def against_history(rng, *, model, effects, slower=0.0, margin=0.1):
    """Compare each night with the last 20 sound ones; the first 20 are not reported.

    `effects` are each night's effects on each cell. With `slower`, one cell is slower by that much each night.
    """
    histories: dict[HistoryKey, deque[HistoryEntry]] = {key: deque(maxlen=NIGHTS) for key in KEYS}
    for number in count():
        usual = all_at(0.0) + effects(rng)
        victim = number % CELLS
        tonight = usual + slower * (np.arange(CELLS) == victim)
        report = night(rng, model, tonight, margin, histories=histories)
        if number >= NIGHTS + 1:
            found = report.cells[victim].decision is GateDecision.WORSE
            yield {"found": found} if slower else {"red nights": report.gate_status is GateStatus.RED}
        for place, cell in enumerate(report.cells):
            if cell.decision in RED or cell.screen is None or cell.screen.estimate is None:
                continue
            if slower and place == victim:
                continue
            change, sd_epoch = math.log1p(cell.screen.estimate / 100), cell.screen.sd_epoch
            histories[cell.key].append(past(cell.key, number, change, sd_epoch))


def disturbed(rng, *, model, effects, times, every=1):
    """Compare nights whose epochs spread `times` as much with a history of calm nights only.

    The disturbance is in each cell, or in each second, third and so on (`every`). The margin of 50 % is far away even
    then.
    """
    histories: dict[HistoryKey, deque[HistoryEntry]] = {key: deque(maxlen=NIGHTS) for key in KEYS}
    restless = replace(model, times=np.where(np.arange(CELLS) % every == 0, times, 1.0))
    for number in count():
        if number >= NIGHTS:
            report = night(rng, restless, effects(rng), 0.5, histories=histories)
            yield {"red nights": report.gate_status is GateStatus.RED}
        changes = model.changes(rng, effects(rng))
        for key, change, sd_epoch in zip(KEYS, changes.mean(axis=1), changes.std(axis=1, ddof=1), strict=True):
            histories[key].append(past(key, number, float(change), float(sd_epoch)))


def confirmed_in_the_same_night(rng, *, model, effects):
    """Apply another rule than the gate's: fresh epochs against the same nights, with the spread of epochs alone."""
    base = np.mean([model.changes(rng, effects(rng)).mean(axis=1) for _ in range(NIGHTS)], axis=0)
    truths = effects(rng)

    def p_values(places) -> list[float]:
        changes = model.changes(rng, truths[places])
        error = changes.std(axis=1, ddof=1) / math.sqrt(NIGHTLY.epochs) * math.sqrt(1 + 1 / NIGHTS)
        return [t_probability(-t, NIGHTLY.epochs - 1) for t in (changes.mean(axis=1) - base[places]) / error]

    suspects = [place for place, p in enumerate(p_values(np.arange(CELLS))) if p <= NIGHTLY.alpha]
    shown = adjusted(dict(enumerate(p_values(suspects)))) if suspects else {0: 1.0}
    return {"red nights": min(shown.values()) <= 0.04}


def over_nights(rng, *, nights, step=0.0, ago=0):
    """Simulate the history of one cell, which may have become slower `ago` nights before its end."""
    values = rng.normal(0, 0.01, nights)
    values[nights - ago :] += step
    points = change_points(values.tolist())
    if not step:
        return {"change points": bool(points)}
    return {"change points": bool(points) and abs(points[-1] - (nights - ago)) <= 2}


# --- what is simulated ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Simulation:
    """A statement that experiments must find true in `low` to `high` percent of this many nights.

    It is the first that the experiment makes. Further figures are shown beside it; of counts, the mean.
    """

    experiment: Callable[[Any], Iterator[Mapping[str, float]]]
    low: float
    high: float
    long: int
    short: int

    @property
    def target(self) -> str:
        return f"{self.low:g}..{self.high:g} %"

    def means(self, name: str, nights: int) -> dict[str, float]:
        rng = np.random.default_rng(random.Random(f"1/{name}").getrandbits(64))
        found = list(islice(self.experiment(rng), nights))
        return {label: sum(each[label] for each in found) / nights for label in found[0]}


def each_alone(rng, *, experiment):
    """Run independent nights."""
    while True:
        yield experiment(rng)


def alone(low, high, long, short, experiment, **of):
    return Simulation(partial(each_alone, experiment=partial(experiment, **of)), low, high, long, short)


def parity(low=0.0, high=5.0, nights=3000, truth=0.0, margin=0.0, **model):
    return alone(low, high, nights, 15, without_a_regression, model=Model(**model), truth=truth, margin=margin)


def slower(low=90.0, high=100.0, margin=0.0, **model):
    return alone(low, high, 2000, 15, with_one_regression, model=Model(**model), margin=margin)


def aa_check(low, high, nights=1000, **model):
    return alone(low, high, nights, 15, watched, model=Model(**model))


def history(low, high, effects=each_its_own, *, sd, margin=0.1, slower=0.0, **model):
    of = {"model": Model(**model), "effects": partial(effects, sd=sd), "margin": margin, "slower": slower}
    return Simulation(partial(against_history, **of), low, high, long=3000, short=10)


def history_disturbed(times, *, sd=0.0, every=1, high=5.0):
    of = {"model": Model(), "effects": partial(each_its_own, sd=sd), "times": times, "every": every}
    return Simulation(partial(disturbed, **of), 0, high, long=2000, short=10)


def same_night(low, high, *, sd):
    effects = partial(each_its_own, sd=sd)
    return alone(low, high, 1000, 20, confirmed_in_the_same_night, model=Model(), effects=effects)


def course(low, high, histories, **of):
    return alone(low, high, histories, histories // 40, over_nights, **of)


SIMULATIONS = {
    "night-at-0": parity(3.6, 4.4, nights=20_000),
    "night-at-5": parity(3.6, 4.4, nights=20_000, truth=SLOWER, margin=0.05),
    "night-inside-5": parity(0, 0.1, margin=0.05),
    "night-median": parity(metric=MEDIAN),
    "night-shared": parity(arms=4),
    "night-walk": parity(course=walk),
    "night-t3": parity(noise=heavy),
    "night-outliers": parity(noise=outliers),
    "night-outliers-median": parity(noise=outliers, metric=MEDIAN),
    "slower-at-0": slower(),
    "slower-holm-alone": alone(
        50, 80, 2000, 40, with_one_regression_by_holm_alone, model=Model(noise=outliers, metric=MEDIAN)
    ),
    "slower-at-5": slower(margin=0.05),
    "slower-median": slower(metric=MEDIAN),
    "slower-walk": slower(course=walk),
    "slower-t3": slower(noise=heavy),
    "slower-outliers": slower(0, 20, noise=outliers),
    "slower-outliers-median": slower(noise=outliers, metric=MEDIAN),
    "slower-outliers-median-3": slower(50, 80, noise=outliers, metric=MEDIAN, blocks=3),
    "twin-calm": aa_check(0, 0.2, nights=3000),
    "twin-walk": aa_check(0, 0.4, nights=3000, course=walk),
    "twin-second": aa_check(85, 100, course=partial(second_slower, share=0.02), order=reference_first),
    "twin-sequential": aa_check(90, 100, course=partial(drift, share=0.05), order=one_after_the_other),
    "history-0": history(0, 5, sd=0.0),
    "history-0.5": history(0, 5, sd=0.005),
    "history-1": history(0, 5, sd=0.01),
    "history-common": history(0, 5, one_for_all, sd=0.005),
    "history-restless": history(0, 5, restless, sd=0.005),
    "history-both": history(0, 9, sd=0.0, margin=0.0),
    "history-disturbed-2": history_disturbed(2),
    "history-disturbed-3": history_disturbed(3),
    "history-disturbed-5": history_disturbed(5),
    "history-disturbed-both": history_disturbed(2, sd=0.02),
    "history-disturbed-quarter": history_disturbed(3, sd=0.01, every=4),
    "history-slower-0": history(90, 100, sd=0.0, slower=SLOWER),
    "history-slower-0.5": history(90, 100, sd=0.005, slower=SLOWER),
    "history-slower-1": history(50, 70, sd=0.01, slower=SLOWER),
    "history-slower-median": history(90, 100, sd=0.005, slower=SLOWER, metric=MEDIAN),
    "same-night-0": same_night(0, 10, sd=0.0),
    "same-night-0.5": same_night(35, 70, sd=0.005),
    "same-night-1": same_night(90, 100, sd=0.01),
    "course-level": course(0, 0.3, 4000, nights=60),
    "course-step": course(90, 100, 400, nights=60, step=0.05, ago=5),
    "course-year": course(90, 100, 400, nights=365, step=0.02, ago=100),
}


def outside(name, nights, errors):
    """Return the figures of a simulation, and those judged that are too many standard errors outside their target.

    Shares are in percent, counts are unchanged.
    """
    one = SIMULATIONS[name]
    found = {label: mean if label in COUNTS else 100 * mean for label, mean in one.means(name, nights).items()}
    judged = next(iter(found))
    slack = {bound: errors * math.sqrt(bound * (100 - bound) / nights) for bound in (one.low, one.high)}
    right = one.low - slack[one.low] <= found[judged] <= one.high + slack[one.high]
    return found, "" if right else judged


def rows():
    """Return the page's rows on nights by simulation, each by its column."""
    return rows_between(SECTION, "\n## Many cells\n")


def test_what_is_computed_for_all_cells_is_what_the_judgement_says():
    """Runs of 200 cells at several distances from the margin, by mean and by median."""
    verdicts = set()
    for metric, blocks in ((MEAN, 3), (MEDIAN, 3), (MEDIAN, 6)):
        model, rng = Model(metric=metric, blocks=blocks), np.random.default_rng(blocks)
        logs = model.runs(rng, np.linspace(0, 0.1, CELLS))
        for session, fast in zip(logs, records(model.located(logs[..., 1] - logs[..., 0]), KEYS, 0.05), strict=True):
            runs = [
                Run(
                    arm=arm, epoch=epoch, block=block, slot=slot, warmup=False, started_at=0.0, attempted=1, failed={},
                    values={metric.name: math.exp(session[epoch, block, slot])},
                )
                for epoch in range(NIGHTLY.epochs) for block in range(blocks) for slot, arm in enumerate((V4, V6))
            ]  # fmt: skip
            effect = compare(runs, V6, V4, metric)
            asked = fast.judged(Claim(judge(effect, Margin(0.05), alpha=NIGHTLY.alpha)))
            assert (fast.verdict, fast.reasons) == (asked.verdict, asked.reasons)
            assert (fast.margin, fast.margin_fraction) == (asked.margin, asked.margin_fraction)
            exact = (effect.shown.estimate, effect.shown.low, effect.shown.high, effect.sd_epoch)
            assert (fast.estimate, fast.low, fast.high, fast.sd_epoch) == pytest.approx(exact)
            verdicts.add(asked.verdict)
    assert verdicts == {"within", "inconclusive", "exceeds"}


@pytest.mark.parametrize("name", SIMULATIONS)
def test_short(name):
    """Three standard errors of slack, as so few nights can only show that nothing is badly wrong."""
    found, wrong = outside(name, SIMULATIONS[name].short, errors=3)
    assert not wrong, SIMULATIONS[name].target
    assert list(rows()[name])[JUDGED:] == list(found)


@pytest.mark.evidence
@pytest.mark.parametrize("name", SIMULATIONS)
def test_long(name, capsys):
    """Without slack."""
    held_to_the_page(
        capsys, name, SIMULATIONS[name].target, outside(name, SIMULATIONS[name].long, errors=0), rows()[name]
    )


def test_the_page_shows_every_simulation_with_its_target_and_a_figure_inside():
    """The page's figures are compared with their targets even if the long forms do not run."""
    shown = rows()
    assert list(shown) == list(SIMULATIONS)
    for name, one in SIMULATIONS.items():
        assert (shown[name]["nights"], shown[name]["target"]) == (f"{one.long}", one.target)
        assert one.low <= float(list(shown[name].values())[JUDGED].removesuffix(" %")) <= one.high, name
