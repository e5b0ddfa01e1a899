"""Answer of a measurement for one cell: its effect against the reference at each look, and its records."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pytest_ipperf.core.design.cell import Arm, Cell
from pytest_ipperf.core.design.design import Design, never_judges
from pytest_ipperf.core.design.limit import Limit
from pytest_ipperf.core.design.margin import Margin
from pytest_ipperf.core.design.metric import UNITS_OF_CHANGE
from pytest_ipperf.core.design.question import Question
from pytest_ipperf.core.inference.claim import Slowdown, no_doubts
from pytest_ipperf.core.inference.effect import Effect, difference
from pytest_ipperf.core.inference.limit import LimitJudgement
from pytest_ipperf.core.inference.verdict import Judgement, Verdict, judge
from pytest_ipperf.core.measurement import token_bucket
from pytest_ipperf.core.measurement.link_rate import link_rate
from pytest_ipperf.core.measurement.run import Run
from pytest_ipperf.core.portable.errors import InvalidError
from pytest_ipperf.core.records.arm_summary import ArmSummary, quantiles_of, summarise
from pytest_ipperf.core.records.record import Record, cell_facts
from pytest_ipperf.core.records.workload_version import fingerprint_digest, models_digest, workload_version
from pytest_ipperf.core.stats.interval import Interval
from pytest_ipperf.experiment.doubts import doubts_about, failed_tail, handicaps, wrong_content
from pytest_ipperf.experiment.looks import CONFIDENCE, effects_of, judged_limit
from pytest_ipperf.experiment.measurement import Conditions, Measurement
from pytest_ipperf.lab.epoch.arm_workload import workload_of
from pytest_ipperf.lab.runs.link_rate import arms_header_cost, layers
from pytest_ipperf.lab.runs.modelled_traffic import load_model_of, model_of
from pytest_ipperf.lab.runs.multi_client import SKEW
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.metrics.base import LookFacts
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.protocols.base import PHASES

_SUMMARISED = PHASES[1 : PHASES.index("total") + 1]
_ALL_ANSWERED = "all that the tests ask by marker or --margin is answered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Results of a cell.

    `effects` and `records` have one element for each look; the records hold no question yet. `failures` is the
    difference of the failure shares in percentage points. A design of a single epoch has no estimate of the spread:
    `effects` is then empty and `failures` is None. `stopped` is the reason why not all looks were taken, or empty.
    `effects_for` returns the effects for another margin, if the judged values depend on it.
    `beside` are the judgements of what is asked beside the cell's question. `runs` are the workload's runs up to the
    last look. `doubts` returns for a margin the verdicts that are not reliable, with the reasons (`doubts_about`).
    """

    effects: tuple[Effect, ...]
    failures: Interval | None
    records: tuple[Record, ...]
    runs: tuple[Run, ...]
    stopped: str
    doubts: Callable[[Margin], Mapping[Verdict, str]] = no_doubts
    beside: tuple[Judgement, ...] = ()
    effects_for: Callable[[Margin], tuple[Effect, ...]] | None = None


def answer(
    measurement: Measurement,
    cell: Cell,
    conditions: Conditions,
    question: Question,
    beside: Iterable[Question] = (),
    *,
    confirm: Callable[[Question, Judgement], Judgement] | None = None,
) -> Answer:
    """Return the answer for `cell`, with those to the questions `beside` that of its metric.

    `confirm` returns the judgement of fresh epochs for a question beside that seemed beyond its margin.
    Raises the error that ended the cell's measurement, or InvalidError if its data are not valid.
    """
    if cell.arm in measurement.trouble:
        raise measurement.trouble[cell.arm]
    plan, looks = measurement.plan, measurement.looks[cell.arm]
    runs = tuple(run for run in measurement.runs if run.epoch < plan.epochs_by(looks))
    reference = cell.reference(conditions.reference)
    _check_values(runs, cell, reference, question.metric)
    effects: tuple[Effect, ...] = ()
    failures = None
    judged: tuple[Judgement, ...] = ()
    stopped = _stopped(measurement, cell)
    if conditions.design.epochs > 1:
        ends = [plan.epochs_by(look) for look in range(1, looks + 1)]
        pair = (cell.arm, reference)
        cost = arms_header_cost(measurement.network.links, *pair, plan.workload)

        def effects_for(margin: Margin) -> tuple[Effect, ...]:
            asked = dataclasses.replace(question, margin=margin)
            return effects_of(runs, *pair, asked, ends, deadline_s=conditions.deadline_s, header_cost=cost)

        effects = effects_for(question.margin)
        slowdowns = (
            (
                each,
                _slowdown(
                    measurement,
                    conditions,
                    effects_of(runs, *pair, each, ends, deadline_s=conditions.deadline_s),
                    stopped,
                ),
            )
            for each in beside
        )
        judged = tuple(
            dataclasses.replace(slowdown, confirm=confirm and partial(confirm, each)).judged(each.margin)
            for each, slowdown in slowdowns
        )
        failures = difference(runs, *pair, lambda run: run.failed_share, confidence=CONFIDENCE)
        judgement = judge(effects[-1], question.margin, alpha=conditions.design.alpha)
        if judgement.verdict is Verdict.INVALID:
            raise InvalidError(f"{cell}: {judgement.sentence()}")
    return Answer(
        effects=effects,
        failures=failures,
        records=tuple(
            _record(
                measurement,
                cell,
                reference,
                conditions,
                look,
                effects[look - 1] if effects else None,
                metric=question.metric,
            )
            for look in range(1, looks + 1)
        ),
        runs=runs,
        doubts=lambda margin: doubts_about(
            measurement, runs, cell, conditions, dataclasses.replace(question, margin=margin)
        ),
        stopped=stopped,
        beside=judged,
        effects_for=effects_for if effects and METRICS[question.metric].at_look else None,
    )


def answer_alone(measurement: Measurement, cell: Cell, conditions: Conditions, metric: str) -> Answer:
    """Return the answer for a cell of which only limits are asked: records without a comparison, each with one arm.

    Raises the error that ended the cell's measurement, or InvalidError if none of its runs has a value.
    """
    if cell.arm in measurement.trouble:
        raise measurement.trouble[cell.arm]
    plan, looks = measurement.plan, measurement.looks[cell.arm]
    runs = tuple(run for run in measurement.runs if run.epoch < plan.epochs_by(looks))
    if all(run.values[metric] is None for run in runs if run.arm == cell.arm and not run.warmup):
        _check_values(runs, cell, cell.arm, metric)
    return Answer(
        effects=(),
        failures=None,
        records=tuple(
            _record(measurement, cell, cell.arm, conditions, look, None, metric=metric) for look in range(1, looks + 1)
        ),
        runs=runs,
        stopped=_stopped(measurement, cell),
    )


def limit_of(measurement: Measurement, cell: Cell, conditions: Conditions) -> Callable[[Limit, bool], LimitJudgement]:
    """Return the function that judges limits of the cell's arm.

    Limits that were known at the looks are judged by the first one that decided, others by all data there are.
    """
    plan, looks, design = measurement.plan, measurement.looks[cell.arm], conditions.design
    every = [plan.epochs_by(look) for look in range(1, looks + 1)]
    slow = handicaps(measurement, cell.arm, cell.arm)

    def judged(limit: Limit, at_looks: bool) -> LimitJudgement:  # noqa: FBT001 - as the caller's
        ends, sized = (every, design) if at_looks else (every[-1:], dataclasses.replace(design, looks=1))
        runs = [run for run in measurement.runs if run.epoch < ends[-1]]
        found = judged_limit(runs, cell.arm, limit, ends, workload=plan.workload, design=sized)
        if not design.judges:
            reasons = ("never_judges",)
            return dataclasses.replace(
                found, verdict=Verdict.UNJUDGED, reasons=reasons, p_exceeds=None, design=design.name
            )
        if found.verdict is Verdict.INVALID:
            raise InvalidError(f"{cell}: {found.sentence()}")
        # A handicap makes an arm slow, never fast: that it keeps its limit all the same is believed.
        doubt = slow.get(found.verdict, "") if found.verdict is Verdict.EXCEEDS else ""
        if found.verdict is Verdict.WITHIN:
            doubt = wrong_content(runs, [cell.arm]).get(found.verdict, "")
        if doubt:
            return dataclasses.replace(found, verdict=Verdict.INCONCLUSIVE, reasons=("doubted",), doubt=doubt)
        if found.decided:
            return found
        stopped = _stopped(measurement, cell) if at_looks else ""
        return dataclasses.replace(found, stopped=stopped, epoch_s=epoch_s(measurement, design))

    return judged


def _stopped(measurement: Measurement, cell: Cell) -> str:
    """Return why not all looks of a cell were taken, or empty."""
    if measurement.looks[cell.arm] == measurement.plan.looks:
        return ""
    return _ALL_ANSWERED if cell.arm in measurement.answered else measurement.stopped


def _slowdown(measurement: Measurement, conditions: Conditions, effects: tuple[Effect, ...], stopped: str) -> Slowdown:
    design = conditions.design
    return Slowdown(
        effects=effects,
        judges=design.judges,
        design=design.name,
        alpha=design.alpha,
        looks=design.looks,
        stopped=stopped,
        epoch_s=epoch_s(measurement, design),
    )


def tail_of(measurement: Measurement, cell: Cell, conditions: Conditions) -> Callable[[Question], Slowdown]:
    """Return the slow-down by which a question about the cell's slow connections is judged, from all data there are."""
    plan, looks = measurement.plan, measurement.looks[cell.arm]
    ends = [plan.epochs_by(look) for look in range(1, looks + 1)]
    reference = cell.reference(conditions.reference)

    def slowdown(question: Question) -> Slowdown:
        runs = [run for run in measurement.runs if run.epoch < ends[-1]]
        effects = (
            effects_of(
                runs,
                cell.arm,
                reference,
                question,
                ends[-1:],
                deadline_s=conditions.deadline_s,
            )
            if conditions.design.epochs > 1
            else ()
        )
        facts = LookFacts(
            reference=reference, margin=question.margin, deadline_s=conditions.deadline_s, tail=question.tail
        )
        doubts = wrong_content(runs, (cell.arm, reference)) | failed_tail(runs, question, facts)
        return dataclasses.replace(_slowdown(measurement, conditions, effects, ""), looks=1, doubts=lambda _: doubts)

    return slowdown


def epoch_s(measurement: Measurement, design: Design) -> float:
    """Return the seconds of an epoch of the first look; 0 if unknown."""
    return measurement.seconds[0] / design.epochs if measurement.seconds else 0.0


def _check_values(runs: Iterable[Run], cell: Cell, reference: Arm, metric: str) -> None:
    """Raise InvalidError if a run has no value; leaving such runs out would bias the result towards good runs."""
    for run in runs:
        if run.arm in (cell.arm, reference) and not run.warmup and run.values[metric] is None:
            where = f"epoch {run.epoch}, block {run.block}"
            title = METRICS[metric].metric.title
            raise InvalidError(f"{cell}: {run.arm} has no {title} ({where}): {METRICS[metric].lacking}")


def _record(  # noqa: PLR0917 - the last ones vary by look
    measurement: Measurement,
    cell: Cell,
    reference: Arm,
    conditions: Conditions,
    look: int,
    effect: Effect | None,
    *,
    metric: str,
) -> Record:
    design, epochs = conditions.design, measurement.plan.epochs_by(look)
    change = effect.shown if effect else None
    facts: Mapping[str, Any] = cell_facts(cell)
    size = PROTOCOLS[cell.workload.protocol].kind.run_size(design, cell.workload.connections)
    links = measurement.network.links
    return Record(
        **facts,
        server=str(measurement.service),
        resolver=measurement.service.resolver,
        backend=_backend(measurement, cell.arm, reference),
        rate_bit_s=links.rate_bit_s,
        loss=links.loss,
        delay_s=links.delay_s,
        one_machine=measurement.network.one_machine,
        client_hosts=measurement.network.client_hosts,
        **_start_skew(measurement, (cell.arm, reference), epochs),
        metric=metric,
        design=design.name,
        run_s=size.run_s,
        warmup_s=size.warmup_s,
        judges=design.judges,
        seed=measurement.plan.seed,
        look=look,
        looks=design.looks,
        epochs=epochs,
        blocks=design.blocks,
        deadline_s=conditions.deadline_s,
        test=_arm_summary(measurement, cell.arm, metric, epochs),
        reference=_arm_summary(measurement, reference, metric, epochs),
        estimate=change.estimate if change else None,
        low=change.low if change and design.judges else None,
        high=change.high if change and design.judges else None,
        confidence=CONFIDENCE,
        sd_epoch=effect.sd_epoch if effect else None,
        sd_block=effect.sd_block if effect else None,
        margin="",
        margin_fraction=None,
        alpha=design.alpha,
        **_fields_before_question(design, effect),
        change_unit=effect.unit if effect else UNITS_OF_CHANGE[METRICS[metric].metric.scale],
        header_cost=effect.header_cost if effect else 0.0,
        reference_typical=effect.reference_typical if effect else None,
        workload_version=_version(measurement, cell.arm, reference, conditions, metric),
        fingerprint=fingerprint_digest(measurement.hosts, str(measurement.service)),
    )


def _fields_before_question(design: Design, effect: Effect | None) -> dict[str, Any]:
    """Return the verdict, reasons and sentence of a record that has no question yet."""
    if not design.judges:
        return {"verdict": Verdict.UNJUDGED.value, "reasons": ("never_judges",), "sentence": never_judges(design.name)}
    return {"verdict": "measured", "reasons": (), "sentence": effect.finding() if effect else ""}


def _start_skew(measurement: Measurement, arms: Sequence[Arm], epochs: int) -> dict[str, Any]:
    """Return the largest and the median start skew between several clients; warm-ups do not count."""
    counting = (run for run in measurement.runs if run.arm in arms and run.epoch < epochs and not run.warmup)
    skews = [(run.facts[SKEW[0]], run.facts[SKEW[1]]) for run in counting if SKEW[0] in run.facts]
    if not skews:
        return {}
    median_s = statistics.median(skew_s for skew_s, _ in skews)
    return {**dict(zip(SKEW, max(skews), strict=True)), "start_skew_median_s": median_s}


def _version(measurement: Measurement, arm: Arm, reference: Arm, conditions: Conditions, metric: str) -> str:
    design, workload = conditions.design, measurement.plan.workload
    protocol = PROTOCOLS[workload.protocol]
    # The arms have different models where models are compared.
    measured = dict.fromkeys(workload_of(workload, each) for each in (arm, reference))
    models = (find(each, conditions.models) for each in measured for find in (model_of, load_model_of))
    return workload_version(
        protocol=protocol.version,
        server=protocol.kind.server(measurement.service.name),
        reference=reference,
        size=protocol.kind.run_size(design, workload.connections).text,
        deadline_s=conditions.deadline_s,
        state=conditions.state.digest_without_password,
        models=models_digest(filter(None, models)),
        judged=METRICS[metric].metric.version,
        links=token_bucket.VERSION if measurement.network.links.rate_bit_s else 1,
    )


def _arm_summary(measurement: Measurement, arm: Arm, metric: str, epochs: int) -> ArmSummary:
    """Return the summary of an arm's first `epochs`; the reference has more of them if it was measured for others."""
    runs = [run for run in measurement.runs if run.epoch < epochs]
    rows = [row for epoch in range(epochs) for row in measurement.rows.get((arm, epoch), ())]
    summary = summarise(arm, metric, runs, rows, _SUMMARISED, baseline_cost_s=measurement.baseline_costs.get(arm))
    workload, own = measurement.plan.workload, [run for run in runs if run.arm == arm]
    trains = [found for (of, epoch), found in measurement.trains.items() if of == arm and epoch < epochs]
    rate_bit_s, encapsulation = measurement.network.links.rate_bit_s, layers(arm, workload)
    found = link_rate(rate_bit_s, encapsulation, own, trains, workload.connections)
    if found is not None:  # only engines report the ideal goodput
        found = dataclasses.replace(found, ceiling_bit_s=summary.figures.get("ideal_bit_s", found.ceiling_bit_s))
    counted = PROTOCOLS[workload.protocol].kind.has_times
    return dataclasses.replace(summary, pace=found, quantiles=quantiles_of(own) if counted else {})


def _backend(measurement: Measurement, *arms: Arm) -> str:
    found = {measurement.network.backends.get(arm.transport, "") for arm in arms}
    return ", ".join(sorted(found - {""}))
