"""Response time: from the opening of a connection's first socket to the end of its transaction (paper 000).

The value of a run is the mean over its connections; a failed one counts as the deadline (a restricted mean), so that an
arm cannot win by losing its slowest connections. A run is judged by the mean of its times capped at ten means of the
reference, or at twice what the margin allows if that is more, or at the deadline if that is less: a single failure of a
fast service would otherwise hide all its times. At most a tenth of the reference's connections is beyond its ten means;
of ten medians it could be half.
"""

import statistics
from collections.abc import Sequence

from pytest_ipperf.core.design.metric import Metric
from pytest_ipperf.core.measurement.run import Run
from pytest_ipperf.core.measurement.run_data import RunData
from pytest_ipperf.core.stats.failures import restricted_mean
from pytest_ipperf.metrics.base import LookFacts, Measure

_CAP_IN_MEANS = 10
MOST_SHOWN = _CAP_IN_MEANS / 2 - 1
"""Largest slow-down, as a fraction, of which the cap leaves room to show an excess whatever the margin."""


def _value(outcome: RunData) -> float:
    return restricted_mean(outcome.column("total"), sum(outcome.failed.values()), outcome.deadline_s)


def _at_look(runs: Sequence[Run], facts: LookFacts) -> Sequence[float]:
    cap_s = cap(runs, facts)
    return [restricted_mean(_capped(run.times, cap_s), run.failures, cap_s) for run in runs]


def _capped(times: Sequence[float], cap_s: float) -> Sequence[float]:
    return [min(time, cap_s) for time in times] if max(times, default=0.0) > cap_s else times


def cap(runs: Sequence[Run], facts: LookFacts) -> float:
    """Return the time in seconds at which response times are capped, and as which failed connections count.

    It is at least twice what the margin allows, as an arm could never exceed a margin beyond the cap.
    """
    times = [time for run in runs if run.arm == facts.reference for time in run.times]
    if not times:
        return facts.deadline_s
    mean_s = statistics.fmean(times)
    allowed = 1 + facts.margin.effective(mean_s)
    return min(facts.deadline_s, max(_CAP_IN_MEANS, 2 * allowed) * mean_s)


measure = Measure(
    metric=Metric(
        name="response_time",
        title="response time per connection",
        unit="s",
        direction="lower_is_better",
        scale="ratio",
        location="median",
        resolution=1e-6,
        formula="mean over connections of (end of transaction - opening of the first socket); failed: the deadline; "
        "judged: at most 10 means of the reference",
        source="paper 000, section 2.3 and Table 2-1",
        margin="10%,0.5ms",
        version=2,
    ),
    value=_value,
    at_look=_at_look,
)
