"""Worst round-trip time: the RTT that one probe in a thousand exceeds (RFC 8219, section 7.2, defines it one way)."""

import math

from pytest_ipperf.core.design.metric import Metric
from pytest_ipperf.core.measurement.run_data import RunData
from pytest_ipperf.core.stats.percentile import percentile
from pytest_ipperf.metrics.base import Measure

_SHARE = 0.999


def _value(outcome: RunData) -> float | None:
    replied = outcome.column("rtt_s")
    if not replied:
        return None
    found = percentile([*replied, *[math.inf] * sum(outcome.failed.values())], _SHARE)
    return found if math.isfinite(found) else None


measure = Measure(
    metric=Metric(
        name="worst_rtt",
        title="round-trip time, 99.9th percentile",
        label="99.9th percentile",
        unit="s",
        direction="lower_is_better",
        scale="ratio",
        location="median",
        resolution=1e-9,
        formula="99.9th percentile over probes of (arrival of the reply - sending of the probe); lost: infinite",
        source="RFC 2681, section 4.1; RFC 2330, section 11.3",
        margin="20%,0.1ms",
    ),
    value=_value,
    lacking="more than one in a thousand probes was lost",
)
