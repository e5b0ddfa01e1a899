"""Jitter: RFC 3550's interarrival jitter, as the mean of its readings after each arrival.

Receivers report the reading of one instant, which remembers about 16 packets and is largely chance; the mean describes
the whole run. A run of several streams has the mean of theirs.
"""

from pytest_ipperf.core.design.metric import AMOUNT, Metric
from pytest_ipperf.core.measurement.packet_streams import mean_of_streams, packet_streams
from pytest_ipperf.core.measurement.run_data import RunData
from pytest_ipperf.core.stats.delay_variation import mean_jitter
from pytest_ipperf.metrics.base import Measure


def _value(outcome: RunData) -> float | None:
    return mean_of_streams(mean_jitter(each.sent_s, each.received_s) for each in packet_streams(outcome))


measure = Measure(
    metric=Metric(
        name="jitter",
        title="jitter (RFC 3550)",
        unit="s",
        direction="lower_is_better",
        scale="ratio",
        location="median",
        resolution=1e-9,
        formula="mean over arrivals of J, where J += (abs(D) - J) / 16 and D = change of delay since the last one",
        source="RFC 3550, section 6.4.1; paper 001, Fig. 8",
        words=AMOUNT,
        margin="20%,50us",
    ),
    value=_value,
    lacking="fewer than two datagrams with times arrived",
)
