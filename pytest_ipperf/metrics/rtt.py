"""RTT: from the sending of a probe to the arrival of its reply.

A lost reply counts as infinitely late, so that an arm cannot win by losing its slowest ones.
"""

import math

from pytest_ipperf.core.design.metric import Metric
from pytest_ipperf.core.measurement.run_data import RunData
from pytest_ipperf.core.stats.percentile import median
from pytest_ipperf.metrics.base import Measure


def _value(outcome: RunData) -> float | None:
    found = median([*outcome.column("rtt_s"), *[math.inf] * sum(outcome.failed.values())] or [math.inf])
    return found if found < math.inf else None


measure = Measure(
    metric=Metric(
        name="rtt",
        title="round-trip time",
        label="RTT",
        unit="s",
        direction="lower_is_better",
        scale="ratio",
        location="median",
        resolution=1e-9,
        formula="median over probes of (arrival of the reply - sending of the probe); lost: infinite",
        source="RFC 2681, sections 2 and 4.2; paper 001, Fig. 6",
        margin="10%,20us",
    ),
    value=_value,
    lacking="half of the replies or more were lost",
)
