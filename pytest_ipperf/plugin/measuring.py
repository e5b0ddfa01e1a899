"""Measuring: from an item's set-up to its `measured`; each workload once, however many items look at it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from pytest_ipperf.agent.burst import PHASES
from pytest_ipperf.core.cell import Cell
from pytest_ipperf.core.claim import Claim, Slowdown
from pytest_ipperf.core.effect import Effect, compare, difference
from pytest_ipperf.core.errors import InvalidError, IpperfError, UndecidedError
from pytest_ipperf.core.interval import Interval
from pytest_ipperf.core.judge import Verdict, judge
from pytest_ipperf.core.margin import Margin
from pytest_ipperf.core.record import Record, cell_facts, summarise
from pytest_ipperf.core.run import Run
from pytest_ipperf.core.units import seconds_text
from pytest_ipperf.experiment import METRIC, Conditions, Measurement, measure
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.plugin.progress import Progress
from pytest_ipperf.plugin.session import Session

RECORD = pytest.StashKey[Record]()
"""On an item: the record of its cell, which every claim of the test brings up to date."""

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Measured:
    """What a test sees of its cell.

    `slowdown <= margin` is the question; `effect` its figures (None where the design has a single epoch);
    `failures` the difference of the failed shares in percentage points; `runs` everything, warm-ups included.
    """

    cell: Cell
    slowdown: HeardSlowdown
    effect: Effect | None
    failures: Interval | None
    runs: tuple[Run, ...]

    def __repr__(self) -> str:
        return f"<measured {self.cell}>"  # pytest prints it above every failure


@dataclass(frozen=True, slots=True, kw_only=True)
class HeardSlowdown(Slowdown):
    """A slow-down whose item remembers what it was asked, so that every record holds its question."""

    item: pytest.Item = field(repr=False)

    def __le__(self, margin: Margin | str) -> Claim:
        claim = Slowdown.__le__(self, margin)
        self.item.stash[RECORD] = self.item.stash[RECORD].judged(claim.judgement)
        return claim


def measured_cell(item: pytest.Item, session: Session, cell: Cell, margin: Margin) -> Measured:
    """Measures the workload unless that is done, and gives this cell's part. Errors fail the set-up in a sentence."""
    try:
        return _seen(item, session, cell, margin, _measurement(session, cell))
    except UndecidedError:
        raise
    except IpperfError as error:
        sentence = str(error)
    pytest.fail(sentence, pytrace=False)  # out here, where no chain of exceptions is printed with it


def _measurement(session: Session, cell: Cell) -> Measurement:
    result = session.results.get(cell.workload)
    if result is None:
        result = session.results[cell.workload] = _measure(session, cell)
    if isinstance(result, IpperfError):
        raise result
    return result


def _measure(session: Session, cell: Cell) -> Measurement | IpperfError:
    plan, settings = session.plans[cell.workload], session.settings
    left, needed = session.budget_left_s(), session.forecast_s(plan)
    if left is not None and needed > left:
        return UndecidedError(
            f"not measured: of the budget of {seconds_text(settings.budget_s or 0)} there are "
            f"{seconds_text(max(0.0, left))} left and it needs about {seconds_text(needed)}"
        )
    conditions = Conditions(
        design=settings.design,
        reference=settings.reference,
        server=settings.server,
        deadline_s=settings.deadline_s,
        owner=session.owner,
        wait_s=settings.wait_s,
    )
    try:
        progress = Progress.of(session, plan)
        measurement = measure(plan, settings.inventory[cell.workload.testbed], conditions, progress)
    except IpperfError as error:
        return error
    session.remember_s(plan, measurement.seconds)
    return measurement


def _seen(item: pytest.Item, session: Session, cell: Cell, margin: Margin, measurement: Measurement) -> Measured:
    if cell.arm in measurement.invalid:
        raise InvalidError(measurement.invalid[cell.arm])
    settings, metric = session.settings, METRICS[METRIC].metric
    effect, failures = None, None
    if settings.design.epochs > 1:
        effect = compare(measurement.runs, cell.arm, settings.reference, metric, confidence=CONFIDENCE)
        failures = difference(
            measurement.runs,
            cell.arm,
            settings.reference,
            lambda run: run.failures / run.attempted,
            confidence=CONFIDENCE,
        )
        judgement = judge(effect, margin, alpha=settings.design.alpha)
        if judgement.verdict is Verdict.INVALID:
            raise InvalidError(f"{cell}: {judgement.sentence()}")
    item.stash[RECORD] = _record(session, cell, measurement, effect)
    slowdown = HeardSlowdown(
        effect=effect,
        judges=settings.design.judges,
        design=settings.design.name,
        alpha=settings.design.alpha,
        item=item,
    )
    return Measured(cell=cell, slowdown=slowdown, effect=effect, failures=failures, runs=measurement.runs)


def _record(session: Session, cell: Cell, measurement: Measurement, effect: Effect | None) -> Record:
    settings = session.settings
    sides = {
        arm: summarise(arm, measurement.runs, measurement.rows[arm], PHASES[1:])
        for arm in (cell.arm, settings.reference)
    }
    change = effect.percent if effect else None
    facts: Mapping[str, Any] = cell_facts(cell)
    return Record(
        **facts,
        server=str(measurement.service),
        metric=METRIC,
        design=settings.design.name,
        judges=settings.design.judges,
        seed=settings.seed,
        epochs=settings.design.epochs,
        blocks=settings.design.blocks,
        deadline_s=settings.deadline_s,
        test=sides[cell.arm],
        reference=sides[settings.reference],
        estimate=change.estimate if change else None,
        low=change.low if change else None,
        high=change.high if change else None,
        confidence=CONFIDENCE,
        margin="",
        margin_fraction=None,
        alpha=settings.design.alpha,
        verdict="measured",
        reasons=(),
        sentence=effect.finding() if effect else "",
    )
