"""Buffer delay: growth of the RTT while TCP filled the queues on the path, relative to the RTT of the empty path."""

from pytest_ipperf.core.design.metric import AMOUNT, Metric
from pytest_ipperf.core.measurement.run_data import RunData
from pytest_ipperf.core.stats.tcp_transfer import buffer_delay
from pytest_ipperf.metrics.base import Measure


def _value(outcome: RunData) -> float | None:
    return buffer_delay(outcome.facts.get("rtt_s", 0.0), outcome.facts.get("base_rtt_s", 0.0))


measure = Measure(
    metric=Metric(
        name="buffer_delay",
        title="TCP buffer delay",
        label="buffer delay",
        unit="1",
        direction="lower_is_better",
        scale="difference",
        location="median",
        resolution=0.0,
        formula="(mean RTT of the transfer - base RTT) / base RTT",
        source="RFC 6349, section 4.3",
        words=AMOUNT,
        margin="10pp",
    ),
    value=_value,
    lacking="the RTT is not known",
)
