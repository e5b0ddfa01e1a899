"""Doubts about a cell: the verdicts that its data would give whatever was true, each with the reason."""

from __future__ import annotations

import contextlib
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from pytest_ipperf.agent.flows.spec import IDLE_STREAMS
from pytest_ipperf.agent.tunnels.backends import BACKENDS
from pytest_ipperf.core.design.cell import Arm, Cell
from pytest_ipperf.core.design.margin import Margin
from pytest_ipperf.core.design.question import SLOW_SHARE, Question
from pytest_ipperf.core.inference.effect import Effect, compare, percent_text
from pytest_ipperf.core.inference.interim_analysis import effects_at
from pytest_ipperf.core.inference.verdict import Verdict, judge
from pytest_ipperf.core.measurement.run import Run
from pytest_ipperf.core.portable.errors import InvalidError
from pytest_ipperf.experiment.looks import effects_of
from pytest_ipperf.experiment.measurement import Conditions, Measurement
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.metrics.base import LookFacts
from pytest_ipperf.metrics.slow_share import threshold_s
from pytest_ipperf.protocols.base import CONTENT

# Rule of three: if no event was seen, the one-sided 95 % bound of its expected count is -ln(0.05), rounded to 3.
_RULE_OF_THREE = 3.0
# One-sided level at which means of blocks raise a doubt. In simulated nights with a tenth of the runs slowed by 3 on
# average, it raises one in 1 of 100 cells without a difference, and in 8 of 10 where a tenth of one arm's runs takes
# nine times as long (docs/statistics.md).
_DOUBT_ALPHA = 0.25
_LOSSES = ("loss", "query_loss")
# Of many streams of a short run some may be idle; so far apart may the shares of two equal arms be.
_IDLE_SHARE = 0.005


def doubts_about(
    measurement: Measurement, runs: Sequence[Run], cell: Cell, conditions: Conditions, question: Question
) -> dict[Verdict, str]:
    """Return the verdicts about the cell's metric that are not reliable, with the reason of each."""
    arms = cell.arm, cell.reference(conditions.reference)
    return {
        **handicaps(measurement, *arms),
        **too_few_packets(runs, cell, conditions, question),
        **far_slower_runs(runs, *arms, question, conditions),
        **more_lost(runs, *arms, question, conditions),
        **idle_streams(runs, *arms, cell.workload.connections),
        **wrong_content(runs, arms),
    }


def handicaps(measurement: Measurement, arm: Arm, reference: Arm) -> dict[Verdict, str]:
    """Return the verdicts that a backend's handicap may cause: a slow arm exceeds, and a slow reference hides it."""
    backends = measurement.network.backends
    sides = ((Verdict.EXCEEDS, arm), (Verdict.WITHIN, reference))
    found = {verdict: backends.get(side.transport, "") for verdict, side in sides}
    return {
        verdict: BACKENDS[name].handicap
        for verdict, name in found.items()
        if name in BACKENDS and BACKENDS[name].handicap
    }


def too_few_packets(runs: Iterable[Run], cell: Cell, conditions: Conditions, question: Question) -> dict[Verdict, str]:
    """Doubt agreement if too few packets were sent to show a share within the margin, even if it is 0.

    The bound is the rule of three.
    Source: J. A. Hanley and A. Lippman-Hand, "If nothing goes wrong, is everything all right?", 1983.
    """
    if METRICS[question.metric].metric.scale != "difference":
        return {}
    sent: Counter[Arm] = Counter()
    for run in runs:
        if not run.warmup and run.values[question.metric]:
            return {}
        if not run.warmup:
            sent[run.arm] += int(run.facts.get("sent", 0))
    fewest = min(sent[arm] for arm in (cell.arm, cell.reference(conditions.reference)))
    if not fewest or _RULE_OF_THREE / fewest <= question.margin.at_least:
        return {}
    least = math.ceil(_RULE_OF_THREE / question.margin.at_least) if question.margin.at_least else 0
    remedy = f"{least} would do (--duration)" if least else "a margin in percentage points could be shown"
    title = METRICS[question.metric].metric.title
    why = (
        f"no {title} among {fewest} packets that were sent, yet the {title} may be up to "
        f"{100 * _RULE_OF_THREE / fewest:.2g} %; {remedy}"
    )
    return {Verdict.WITHIN: why}


def far_slower_runs(
    runs: Sequence[Run], arm: Arm, reference: Arm, question: Question, conditions: Conditions
) -> dict[Verdict, str]:
    """Doubt agreement if it rests on the runs or connections that the judged values weigh less.

    A median of blocks passes over an arm's slow runs as long as they are fewer than half of an epoch's, and a cap over
    how slow its slowest connections are. Such an arm may be within its margin by these values and far beyond it by the
    mean. The mean needs less evidence to raise a doubt than an excess would (`_DOUBT_ALPHA`), but that of uncapped
    times, which single stalls determine, needs as much.
    """
    metric = METRICS[question.metric].metric
    runs = [run for run in runs if not run.warmup and run.arm in (arm, reference)]
    if metric.location != "median" or conditions.design.epochs < 2 or not conditions.design.judges:
        return {}
    if METRICS[question.metric].at_look:
        runs = _without_failures(runs)
    ends, deadline_s, alpha = [max(run.epoch for run in runs) + 1], conditions.deadline_s, conditions.design.alpha
    of_all = [replace(run, values={**run.values, metric.name: run.completed_s}) for run in runs]
    of_completed = replace(metric, location="mean")
    ways: tuple[tuple[str, float, Callable[[], Effect]], ...] = (
        (
            "by the mean of an epoch's blocks, of which the median decides",
            _DOUBT_ALPHA,
            lambda: effects_of(runs, arm, reference, question, ends, deadline_s=deadline_s, location="mean")[-1],
        ),
        (
            "by the mean of all completed connections, whose times are capped where they decide",
            alpha,
            lambda: effects_at(of_all, arm, reference, of_completed, ends)[-1],
        ),
    )
    for way, level, effect_of in ways[: 2 if METRICS[question.metric].at_look else 1]:
        with contextlib.suppress(InvalidError):  # what decides raises it too, or a block completed nothing
            effect = effect_of()
            if judge(effect, question.margin, alpha=alpha, exceeds_alpha=level).verdict is Verdict.EXCEEDS:
                change, margin = f"{percent_text(effect.shown.estimate)} {effect.unit}", question.margin.description
                return {Verdict.WITHIN: f"{way}, {arm.title} differs by {change}, beyond the margin of {margin}"}
    return {}


def _without_failures(runs: Sequence[Run]) -> list[Run]:
    """Return the runs of two arms as if their failed connections had not been begun: these have a verdict of their own.

    Where nothing completed, the run has the times of the other arm in its block, which tell of no difference.
    """
    of_block: defaultdict[tuple[int, int], list[Run]] = defaultdict(list)
    for run in runs:
        of_block[run.epoch, run.block].append(run)
    found = []
    for run in runs:
        done = run if run.times else next((other for other in of_block[run.epoch, run.block] if other.times), run)
        found.append(replace(run, failed={}, attempted=len(done.times), times=done.times, completed_s=done.completed_s))
    return found


def more_lost(
    runs: Sequence[Run], arm: Arm, reference: Arm, question: Question, conditions: Conditions
) -> dict[Verdict, str]:
    """Doubt agreement about times of packets or queries if more of them are lost than the margin of loss allows."""
    if METRICS[question.metric].metric.unit != "s" or not conditions.design.judges:
        return {}
    counted = [run for run in runs if not run.warmup and run.arm in (arm, reference)]
    for name in _LOSSES:
        if any(run.values.get(name) is None for run in counted):
            continue
        loss = METRICS[name].metric
        with contextlib.suppress(InvalidError):  # a single epoch
            effect = compare(counted, arm, reference, loss)
            margin = Margin.parse(loss.margin)
            if judge(effect, margin, alpha=conditions.design.alpha).verdict is Verdict.EXCEEDS:
                lost = f"{loss.title} {100 * effect.test_value:.3g} % instead of {100 * effect.reference_value:.3g} %"
                return {
                    Verdict.WITHIN: f"{lost}, beyond the margin of {margin.description}; only what arrived has a time"
                }
    return {}


def idle_streams(runs: Iterable[Run], arm: Arm, reference: Arm, connections: int) -> dict[Verdict, str]:
    """Doubt agreement if more streams of the arm than of the reference moved nothing: the others had their share."""
    idle: Counter[Arm] = Counter()
    streams: Counter[Arm] = Counter()
    for run in runs:
        if not run.warmup and run.arm in (arm, reference):
            idle[run.arm] += int(run.facts.get(IDLE_STREAMS, 0))
            streams[run.arm] += connections
    more = idle[arm] * streams[reference] - idle[reference] * streams[arm]
    if more <= _IDLE_SHARE * streams[arm] * streams[reference]:
        return {}
    counts = " and ".join(f"{idle[each]} of {streams[each]} by {each}" for each in (arm, reference))
    return {Verdict.WITHIN: f"streams moved nothing in whole runs ({counts}), so the others had the path to themselves"}


def wrong_content(runs: Iterable[Run], arms: Collection[Arm]) -> dict[Verdict, str]:
    """Doubt agreement if connections of one of the arms had wrong content: wrong replies may be fast."""
    lost: Counter[Arm] = Counter()
    for run in runs:
        if run.arm in arms:
            lost[run.arm] += sum(count for kind, count in run.failed.items() if kind.partition(":")[0] == CONTENT)
    sides = ", ".join(f"{count} by {arm}" for arm, count in sorted(lost.items(), key=str) if count)
    if not sides:
        return {}
    return {Verdict.WITHIN: f"connections transferred other content than the server was given ({CONTENT}: {sides})"}


def failed_tail(runs: Sequence[Run], question: Question, facts: LookFacts) -> dict[Verdict, str]:
    """Doubt agreement about slow connections if the reference's own tail is failures, so that none can be slower."""
    counted = [run for run in runs if not run.warmup]
    if question.metric != SLOW_SHARE or threshold_s(counted, facts) < math.inf:
        return {}
    failed = sum(run.failures for run in counted if run.arm == facts.reference)
    attempted = sum(run.attempted for run in counted if run.arm == facts.reference)
    return {
        Verdict.WITHIN: f"{failed} of {attempted} connections of {facts.reference.title} failed, so it has no 99th "
        "percentile, and no connection counts as slow"
    }
