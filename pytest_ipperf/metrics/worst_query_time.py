"""Worst response time of queries: the one that one query in a hundred exceeds."""

import math

from pytest_ipperf.core.design.metric import Metric
from pytest_ipperf.core.measurement.run_data import RunData
from pytest_ipperf.core.stats.percentile import percentile
from pytest_ipperf.metrics.base import Measure

_SHARE = 0.99


def _value(outcome: RunData) -> float | None:
    answered = outcome.column("response_s")
    if not answered:
        return None
    found = percentile([*answered, *[math.inf] * sum(outcome.failed.values())], _SHARE)
    return found if math.isfinite(found) else None


measure = Measure(
    metric=Metric(
        name="worst_query_time",
        title="response time of a query, 99th percentile",
        label="99th percentile",
        unit="s",
        direction="lower_is_better",
        scale="ratio",
        location="median",
        resolution=1e-9,
        formula="99th percentile over queries of (right answer - instant of sending, in an open loop the scheduled "
        "one); failed: infinite",
        source="RFC 2681, section 4.1; RFC 2330, section 11.3",
        margin="20%,0.1ms",
    ),
    value=_value,
    lacking="more than one in a hundred queries failed",
)
