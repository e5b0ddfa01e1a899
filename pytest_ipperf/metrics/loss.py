"""Loss: share of the packets sent that never arrived, one way (UDP) or there and back (RTT)."""

from pytest_ipperf.core.design.metric import AMOUNT, Metric
from pytest_ipperf.core.measurement.run_data import RunData
from pytest_ipperf.core.stats.stream_loss import loss_share
from pytest_ipperf.metrics.base import Measure


def _value(outcome: RunData) -> float | None:
    return loss_share(outcome.attempted - sum(outcome.failed.values()), outcome.attempted)


measure = Measure(
    metric=Metric(
        name="loss",
        title="loss",
        unit="1",
        direction="lower_is_better",
        scale="difference",
        location="mean",
        resolution=0.0,
        formula="1 - first copies that arrived / sent, as the sender counted them",
        source="RFC 7680, section 4.1; RFC 6673 (round trips); paper 001, Fig. 9",
        words=AMOUNT,
        margin="0.5pp",
    ),
    value=_value,
    lacking="nothing was sent",
)
