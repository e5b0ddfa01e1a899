"""The answer that a measurement gives for one cell: the effect against the reference at each look, and its records."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_ipperf.agent.backends import BACKENDS
from pytest_ipperf.agent.figures import PHASES
from pytest_ipperf.core.cell import Arm, Cell
from pytest_ipperf.core.effect import Effect, difference
from pytest_ipperf.core.errors import InvalidError
from pytest_ipperf.core.interval import Interval
from pytest_ipperf.core.judge import Verdict, judge
from pytest_ipperf.core.looks import effects_at
from pytest_ipperf.core.margin import Margin
from pytest_ipperf.core.pace import pace
from pytest_ipperf.core.record import ArmSummary, Record, cell_facts, summarise
from pytest_ipperf.core.run import Run
from pytest_ipperf.experiment.measurement import METRIC, Conditions, Measurement
from pytest_ipperf.lab.pace import layers
from pytest_ipperf.metrics import METRICS

CONFIDENCE = 0.95
_SUMMARISED = PHASES[1 : PHASES.index("total") + 1]
_ANSWERED = "what the tests ask by marker or --margin had its answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is known of a cell.

    `effects` and `records` have one for each look. Under a design of a single epoch, which has no spread to tell, there
    is no effect, and `failures` (the difference of the failed shares in percentage points) is None. The records hold
    no question yet. `stopped` says why not all looks were taken; `runs` are the workload's until the last one. `doubts`
    says of verdicts that would tell of what carried a tunnel why they are not to be believed.
    """

    effects: tuple[Effect, ...]
    failures: Interval | None
    records: tuple[Record, ...]
    runs: tuple[Run, ...]
    stopped: str
    doubts: Mapping[Verdict, str]


def answer(measurement: Measurement, cell: Cell, conditions: Conditions, margin: Margin) -> Answer:
    """The answer for `cell`; what broke its measurement, or InvalidError when its data cannot be true."""
    if cell.arm in measurement.trouble:
        raise measurement.trouble[cell.arm]
    plan, looks = measurement.plan, measurement.looks[cell.arm]
    runs = tuple(run for run in measurement.runs if run.epoch < plan.epochs_by(looks))
    effects: tuple[Effect, ...] = ()
    failures = None
    if conditions.design.epochs > 1:
        ends = [plan.epochs_by(look) for look in range(1, looks + 1)]
        pair = (cell.arm, conditions.reference)
        effects = effects_at(runs, *pair, METRICS[METRIC].metric, ends, confidence=CONFIDENCE)
        failures = difference(runs, *pair, lambda run: run.failures / run.attempted, confidence=CONFIDENCE)
        judgement = judge(effects[-1], margin, alpha=conditions.design.alpha)
        if judgement.verdict is Verdict.INVALID:
            raise InvalidError(f"{cell}: {judgement.sentence()}")
    return Answer(
        effects=effects,
        failures=failures,
        records=tuple(
            _record(measurement, cell, conditions, look, effects[look - 1] if effects else None)
            for look in range(1, looks + 1)
        ),
        runs=runs,
        doubts=_doubts(measurement, cell.arm, conditions.reference),
        stopped="" if looks == plan.looks else _ANSWERED if cell.arm in measurement.answered else measurement.stopped,
    )


def _record(measurement: Measurement, cell: Cell, conditions: Conditions, look: int, effect: Effect | None) -> Record:
    design, epochs = conditions.design, measurement.plan.epochs_by(look)
    change = effect.percent if effect else None
    facts: Mapping[str, Any] = cell_facts(cell)
    return Record(
        **facts,
        server=str(measurement.service),
        resolver=measurement.service.resolver,
        backend=_backend(measurement, cell.arm, conditions.reference),
        **dataclasses.asdict(measurement.network.links),
        one_machine=measurement.network.one_machine,
        metric=METRIC,
        design=design.name,
        judges=design.judges,
        seed=measurement.plan.seed,
        look=look,
        looks=design.looks,
        epochs=epochs,
        blocks=design.blocks,
        deadline_s=conditions.deadline_s,
        test=_side(measurement, cell.arm, epochs),
        reference=_side(measurement, conditions.reference, epochs),
        estimate=change.estimate if change else None,
        low=change.low if change else None,
        high=change.high if change else None,
        confidence=CONFIDENCE,
        sd_epoch=effect.sd_epoch if effect else None,
        sd_block=effect.sd_block if effect else None,
        margin="",
        margin_fraction=None,
        alpha=design.alpha,
        verdict="measured",
        reasons=(),
        sentence=effect.finding() if effect else "",
    )


def _side(measurement: Measurement, arm: Arm, epochs: int) -> ArmSummary:
    """The summary of an arm's first epochs; the reference goes on where another arm is still open."""
    runs = [run for run in measurement.runs if run.epoch < epochs]
    rows = [row for epoch in range(epochs) for row in measurement.rows.get((arm, epoch), ())]
    summary = summarise(arm, runs, rows, _SUMMARISED, measurement.floors.get(arm))
    workload, own = measurement.plan.workload, [run for run in runs if run.arm == arm]
    trains = [found for (of, epoch), found in measurement.trains.items() if of == arm and epoch < epochs]
    rate_bit_s, around = measurement.network.links.rate_bit_s, layers(arm, workload)
    return dataclasses.replace(summary, pace=pace(rate_bit_s, around, own, workload.payload_bytes, trains))


def _doubts(measurement: Measurement, arm: Arm, reference: Arm) -> dict[Verdict, str]:
    """What a handicap of one side's backend may have made: a slow tunnel looks worse, and others better beside it."""
    carried = measurement.network.backends
    sides = ((Verdict.EXCEEDS, arm), (Verdict.WITHIN, reference))
    found = {verdict: carried.get(side.transport, "") for verdict, side in sides}
    return {
        verdict: BACKENDS[name].handicap
        for verdict, name in found.items()
        if name in BACKENDS and BACKENDS[name].handicap
    }


def _backend(measurement: Measurement, *arms: Arm) -> str:
    found = {measurement.network.backends.get(arm.transport, "") for arm in arms}
    return ", ".join(sorted(found - {""}))
