"""PDV: delay of the slow datagrams beyond that of the fastest (RFC 5481), as RFC 8219 reads it."""

from pytest_ipperf.core.design.metric import AMOUNT, Metric
from pytest_ipperf.core.measurement.run_data import RunData
from pytest_ipperf.core.stats.delay_variation import delays, pdv
from pytest_ipperf.metrics.base import Measure


def _value(outcome: RunData) -> float | None:
    return pdv(delays(*map(outcome.column, ("sequence", "sent_s", "received_s"))).values())


measure = Measure(
    metric=Metric(
        name="pdv",
        title="delay variation above the fastest datagram (PDV)",
        label="PDV",
        unit="s",
        direction="lower_is_better",
        scale="ratio",
        location="median",
        resolution=1e-9,
        formula="99.9th percentile of the delays - smallest delay (of fewer than 1000: the largest - the smallest)",
        source="RFC 5481, section 4.2; RFC 8219, section 7.3.1",
        words=AMOUNT,
        margin="20%,50us",
    ),
    value=_value,
    lacking="fewer than two datagrams with times arrived",
)
