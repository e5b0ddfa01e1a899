"""Share of slow connections: those slower than the tail of the reference, or failed.

A run's own 99th percentile is unusable where slow connections are about as rare as the percentile. The share of
connections beyond a threshold is not; the threshold is taken from all connections of the reference.
"""

import math
from collections.abc import Sequence

from pytest_ipperf.core.design.metric import AMOUNT, Metric
from pytest_ipperf.core.design.question import SLOW_SHARE
from pytest_ipperf.core.measurement.run import Run
from pytest_ipperf.core.measurement.run_data import RunData
from pytest_ipperf.core.stats.percentile import percentile
from pytest_ipperf.metrics.base import LookFacts, Measure

_SHARE = 0.99


def _value(outcome: RunData) -> float | None:
    del outcome  # the threshold comes from the reference's runs
    return None


def _at_look(runs: Sequence[Run], facts: LookFacts) -> Sequence[float]:
    limit_s = threshold_s(runs, facts)
    return [(sum(time > limit_s for time in run.times) + run.failures) / run.checked_attempts for run in runs]


def threshold_s(runs: Sequence[Run], facts: LookFacts) -> float:
    """Return the time in seconds beyond which a connection is slow; infinite if the reference's tail is failures.

    Formula: p99 + max(relative margin * p99, least margin), with the 99th percentile of all connections of the
    reference, of which failed ones are infinitely slow.
    """
    reference = [run for run in runs if run.arm == facts.reference]
    times = [time for run in reference for time in run.times]
    p99_s = percentile([*times, *[math.inf] * sum(run.failures for run in reference)], _SHARE)
    tail = facts.tail
    return p99_s if tail is None or p99_s == math.inf else p99_s + max(tail.relative * p99_s, tail.at_least)


measure = Measure(
    metric=Metric(
        name=SLOW_SHARE,
        title="slow connections",
        label="slow share",
        unit="1",
        direction="lower_is_better",
        scale="difference",
        location="mean",
        resolution=0.0,
        formula="connections slower than the reference's 99th percentile plus the margin, or failed / attempted ones",
        source="RFC 2330, section 11.3 (percentile); variance: Farrington and Manning, 1990",
        words=AMOUNT,
        margin="1pp",
        design_effect=1.0,
    ),
    value=_value,
    lacking="the threshold comes from the runs of the reference",
    at_look=_at_look,
)
