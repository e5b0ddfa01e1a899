"""Worst one-way delay: the delay that one datagram in a thousand exceeds (RFC 8219, section 7.2), else as `delay`."""

import math

from pytest_ipperf.core.design.metric import Metric
from pytest_ipperf.core.measurement.run_data import RunData
from pytest_ipperf.core.stats.percentile import percentile
from pytest_ipperf.metrics.base import Measure
from pytest_ipperf.metrics.delay import arrived_s, known

_SHARE = 0.999


def _value(outcome: RunData) -> float | None:
    arrived = arrived_s(outcome)
    if not arrived:
        return None
    found = percentile([*arrived, *[math.inf] * sum(outcome.failed.values())], _SHARE)
    return found if known(outcome, found) else None


measure = Measure(
    metric=Metric(
        name="worst_delay",
        title="one-way delay, 99.9th percentile",
        label="99.9th percentile",
        unit="s",
        direction="lower_is_better",
        scale="ratio",
        location="median",
        resolution=1e-9,
        formula="99.9th percentile over datagrams of (arrival - sending); lost: infinite",
        source="RFC 8219, section 7.2; RFC 2330, section 11.3",
        margin="20%,0.1ms",
    ),
    value=_value,
    lacking="the clocks' error is unknown or above a tenth of it, or more than one in a thousand datagrams was lost",
)
