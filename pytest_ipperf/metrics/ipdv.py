"""IPDV: difference between the delays of consecutive datagrams that both arrived (RFC 3393).

A run of several streams has the mean of theirs.
"""

from pytest_ipperf.core.design.metric import AMOUNT, Metric
from pytest_ipperf.core.measurement.packet_streams import mean_of_streams, packet_streams
from pytest_ipperf.core.measurement.run_data import RunData
from pytest_ipperf.core.stats.delay_variation import delays, ipdv, mean_size
from pytest_ipperf.metrics.base import Measure


def _value(outcome: RunData) -> float | None:
    return mean_of_streams(mean_size(ipdv(delays(*each))) for each in packet_streams(outcome))


measure = Measure(
    metric=Metric(
        name="ipdv",
        title="delay variation of consecutive datagrams (IPDV)",
        label="IPDV",
        unit="s",
        direction="lower_is_better",
        scale="ratio",
        location="median",
        resolution=1e-9,
        formula="mean of abs(delay(i) - delay(i - 1)) over the numbers i of which both arrived",
        source="RFC 3393, section 2.4; RFC 5481, section 4.1",
        words=AMOUNT,
        margin="20%,50us",
    ),
    value=_value,
    lacking="no two consecutive datagrams with times arrived",
)
