"""Reordering: share of the datagrams that arrived after one which had been sent later."""

from pytest_ipperf.core.design.metric import AMOUNT, Metric
from pytest_ipperf.core.measurement.run_data import RunData
from pytest_ipperf.core.stats.stream_loss import reordered_share
from pytest_ipperf.metrics.base import Measure


def _value(outcome: RunData) -> float | None:
    return reordered_share(int(outcome.facts["reordered"]), int(outcome.facts["unique"]))


measure = Measure(
    metric=Metric(
        name="reordering",
        title="reordering",
        unit="1",
        direction="lower_is_better",
        scale="difference",
        location="mean",
        resolution=0.0,
        formula="datagrams with a number below one that had arrived / first copies that arrived",
        source="RFC 4737, sections 3.3 and 4.1",
        words=AMOUNT,
        margin="0.5pp",
    ),
    value=_value,
    lacking="nothing arrived",
)
