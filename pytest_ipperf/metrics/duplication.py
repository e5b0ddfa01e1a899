"""Duplication: copies beyond the first, for each datagram that arrived."""

from pytest_ipperf.core.design.metric import AMOUNT, Metric
from pytest_ipperf.core.measurement.run_data import RunData
from pytest_ipperf.core.stats.stream_loss import duplicated_share
from pytest_ipperf.metrics.base import Measure


def _value(outcome: RunData) -> float | None:
    return duplicated_share(int(outcome.facts["duplicates"]), int(outcome.facts["unique"]))


measure = Measure(
    metric=Metric(
        name="duplication",
        title="duplication",
        unit="1",
        direction="lower_is_better",
        scale="difference",
        location="mean",
        resolution=0.0,
        formula="copies beyond the first ones / first copies that arrived",
        source="RFC 5560, section 5.1",
        words=AMOUNT,
        margin="0.5pp",
    ),
    value=_value,
    lacking="nothing arrived",
)
