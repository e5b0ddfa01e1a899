"""Mean opinion score of telephone calls: the score that people would give, from the R factor of each."""

from __future__ import annotations

import statistics

from pytest_ipperf.core.design.metric import Metric
from pytest_ipperf.core.measurement.run_data import RunData
from pytest_ipperf.core.stats.e_model import mean_opinion_score
from pytest_ipperf.metrics.base import Measure
from pytest_ipperf.metrics.r_factor import LACKING, ratings


def _value(outcome: RunData) -> float | None:
    found = ratings(outcome)
    return statistics.fmean(map(mean_opinion_score, found)) if found else None


measure = Measure(
    metric=Metric(
        name="mos",
        title="mean opinion score",
        label="MOS",
        unit="1",
        direction="higher_is_better",
        scale="ratio",
        location="mean",
        resolution=0.0,
        formula="mean over calls and directions of the MOS (conversational, estimated) of R, from 1 to 4.5",
        source="ITU-T G.107 (06/2015), annex B; RFC 3611, section 4.7.5 (MOS-CQ)",
        words=("less", "more"),
        margin="5%",
    ),
    value=_value,
    lacking=LACKING,
)
