"""Response time of queries: from the instant of a query to its right answer, a retry by TCP included.

A query that was lost or answered wrongly counts as infinitely late, so that an arm cannot win by losing its slowest
ones.
"""

import math

from pytest_ipperf.core.design.metric import Metric
from pytest_ipperf.core.measurement.run_data import RunData
from pytest_ipperf.core.stats.percentile import median
from pytest_ipperf.metrics.base import Measure


def _value(outcome: RunData) -> float | None:
    found = median([*outcome.column("response_s"), *[math.inf] * sum(outcome.failed.values())] or [math.inf])
    return found if found < math.inf else None


measure = Measure(
    metric=Metric(
        name="query_time",
        title="response time of a query",
        label="response time",
        unit="s",
        direction="lower_is_better",
        scale="ratio",
        location="median",
        resolution=1e-9,
        formula="median over queries of (right answer - instant of sending, in an open loop the scheduled one); "
        "failed: infinite",
        source="RFC 2681, section 4.2; RFC 7766, section 5 (retry by TCP)",
        margin="10%,20us",
    ),
    value=_value,
    lacking="half of the queries or more failed",
)
