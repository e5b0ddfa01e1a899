"""Doubts about a cell: the verdicts that its data would give whatever was true, each with the reason."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from pytest_ipperf.agent.tunnels.backends import BACKENDS
from pytest_ipperf.core.design.cell import Arm, Cell
from pytest_ipperf.core.design.question import Question
from pytest_ipperf.core.inference.verdict import Verdict
from pytest_ipperf.core.measurement.run import Run
from pytest_ipperf.experiment.measurement import Conditions, Measurement
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.protocols.base import CONTENT

# Rule of three: if no event was seen, the one-sided 95 % bound of its expected count is -ln(0.05), rounded to 3.
_RULE_OF_THREE = 3.0


def doubts_about(
    measurement: Measurement, runs: Sequence[Run], cell: Cell, conditions: Conditions, question: Question
) -> dict[Verdict, str]:
    """Return the verdicts about the cell's metric that are not reliable, with the reason of each."""
    return {
        **handicaps(measurement, cell.arm, cell.reference(conditions.reference)),
        **too_few_packets(runs, cell, conditions, question),
        **_wrong_content(runs, cell, conditions),
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


def _wrong_content(runs: Iterable[Run], cell: Cell, conditions: Conditions) -> dict[Verdict, str]:
    """Doubt agreement if connections of either side had wrong content: wrong replies may be fast."""
    lost: Counter[Arm] = Counter()
    for run in runs:
        if run.arm in (cell.arm, cell.reference(conditions.reference)):
            lost[run.arm] += sum(count for kind, count in run.failed.items() if kind.partition(":")[0] == CONTENT)
    sides = ", ".join(f"{count} by {arm}" for arm, count in sorted(lost.items(), key=str) if count)
    if not sides:
        return {}
    return {Verdict.WITHIN: f"connections transferred other content than the server was given ({CONTENT}: {sides})"}
