"""One-way delay: from the sending of a datagram to its arrival at the other host, by the clocks of both.

A run has a value only if the clocks' error, the fact `clock_error_s`, is small against the delay. A lost datagram
counts as infinitely late, so that an arm cannot win by losing its slowest datagrams; of several copies the first
counts.
"""

import math

from pytest_ipperf.core.design.metric import Metric
from pytest_ipperf.core.measurement.packet_streams import packet_streams
from pytest_ipperf.core.measurement.run_data import RunData
from pytest_ipperf.core.stats.delay_variation import delays
from pytest_ipperf.core.stats.percentile import median
from pytest_ipperf.metrics.base import Measure

_MOST_ERROR = 0.1
"""Largest error of the clocks, as a share of the delay."""


def arrived_s(outcome: RunData) -> list[float]:
    """Return the delays of the datagrams that arrived."""
    return [delay_s for each in packet_streams(outcome) for delay_s in delays(*each).values()]


def known(outcome: RunData, delay_s: float) -> bool:
    """Return whether the delay is finite and the clocks' error small against it."""
    return outcome.facts.get("clock_error_s", math.inf) <= _MOST_ERROR * delay_s < math.inf


def _value(outcome: RunData) -> float | None:
    arrived = arrived_s(outcome)
    if not arrived:
        return None
    found = median([*arrived, *[math.inf] * sum(outcome.failed.values())])
    return found if known(outcome, found) else None


measure = Measure(
    metric=Metric(
        name="delay",
        title="one-way delay",
        unit="s",
        direction="lower_is_better",
        scale="ratio",
        location="median",
        resolution=1e-9,
        formula="median over datagrams of (arrival - sending); lost: infinite",
        source="RFC 7679, sections 3 and 5.2",
        margin="10%,50us",
    ),
    value=_value,
    lacking="the clocks' error is unknown or above a tenth of the delay, or half of the datagrams or more were lost",
)
