"""The answer that a measurement gives for one cell: the effect against the reference, and the record of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_ipperf.agent.burst import PHASES
from pytest_ipperf.core.cell import Cell
from pytest_ipperf.core.effect import Effect, compare, difference
from pytest_ipperf.core.errors import InvalidError
from pytest_ipperf.core.interval import Interval
from pytest_ipperf.core.judge import Verdict, judge
from pytest_ipperf.core.margin import Margin
from pytest_ipperf.core.record import Record, cell_facts, summarise
from pytest_ipperf.experiment.workload import METRIC, Conditions, Measurement
from pytest_ipperf.metrics import METRICS

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is known of a cell.

    `effect` and `failures` (the difference of the failed shares in percentage points) are None under a design of a
    single epoch, which has no spread to tell. `record` holds no question yet.
    """

    effect: Effect | None
    failures: Interval | None
    record: Record


def answer(measurement: Measurement, cell: Cell, conditions: Conditions, margin: Margin) -> Answer:
    """The answer for `cell`; InvalidError when its proof failed or its data cannot be true."""
    if cell.arm in measurement.invalid:
        raise InvalidError(measurement.invalid[cell.arm])
    effect, failures = None, None
    if conditions.design.epochs > 1:
        pair = (measurement.runs, cell.arm, conditions.reference)
        effect = compare(*pair, METRICS[METRIC].metric, confidence=CONFIDENCE)
        failures = difference(*pair, lambda run: run.failures / run.attempted, confidence=CONFIDENCE)
        judgement = judge(effect, margin, alpha=conditions.design.alpha)
        if judgement.verdict is Verdict.INVALID:
            raise InvalidError(f"{cell}: {judgement.sentence()}")
    return Answer(effect=effect, failures=failures, record=_record(measurement, cell, conditions, effect))


def _record(measurement: Measurement, cell: Cell, conditions: Conditions, effect: Effect | None) -> Record:
    design = conditions.design
    sides = {
        arm: summarise(arm, measurement.runs, measurement.rows[arm], PHASES[1:])
        for arm in (cell.arm, conditions.reference)
    }
    change = effect.percent if effect else None
    facts: Mapping[str, Any] = cell_facts(cell)
    return Record(
        **facts,
        server=str(measurement.service),
        metric=METRIC,
        design=design.name,
        judges=design.judges,
        seed=measurement.plan.seed,
        epochs=design.epochs,
        blocks=design.blocks,
        deadline_s=conditions.deadline_s,
        test=sides[cell.arm],
        reference=sides[conditions.reference],
        estimate=change.estimate if change else None,
        low=change.low if change else None,
        high=change.high if change else None,
        confidence=CONFIDENCE,
        margin="",
        margin_fraction=None,
        alpha=design.alpha,
        verdict="measured",
        reasons=(),
        sentence=effect.finding() if effect else "",
    )
