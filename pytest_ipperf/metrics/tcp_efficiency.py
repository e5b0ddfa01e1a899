"""TCP efficiency: share of the bytes sent that are no retransmissions.

The sender's kernel counts them, from Linux 4.19 on.
"""

from pytest_ipperf.core.design.metric import Metric
from pytest_ipperf.core.measurement.run_data import RunData
from pytest_ipperf.core.stats.tcp_transfer import tcp_efficiency
from pytest_ipperf.metrics.base import Measure


def _value(outcome: RunData) -> float | None:
    return tcp_efficiency(outcome.facts.get("sent_bytes", 0.0), outcome.facts.get("retransmitted_bytes", 0.0))


measure = Measure(
    metric=Metric(
        name="tcp_efficiency",
        title="TCP efficiency",
        unit="1",
        direction="higher_is_better",
        scale="difference",
        location="mean",
        resolution=0.0,
        formula="(sent bytes - retransmitted bytes) / sent bytes, retransmitted ones among the sent",
        source="RFC 6349, section 4.2",
        words=("less", "more"),
        margin="1pp",
    ),
    value=_value,
    lacking="the sender's kernel does not count what it sends",
)
