"""Queries per second: right answers that came in the run, over its time.

In a closed loop it is what server, path and client together can do with so many queries outstanding; in an open loop
it is at most the rate that was asked for, and less where something does not keep up.
"""

from pytest_ipperf.core.design.metric import Metric
from pytest_ipperf.core.measurement.run_data import RunData
from pytest_ipperf.metrics.base import Measure


def _value(outcome: RunData) -> float | None:
    return outcome.facts["answered"] / outcome.facts["seconds"] or None


measure = Measure(
    metric=Metric(
        name="queries_per_second",
        title="answered queries per second",
        label="answered",
        unit="query/s",
        direction="higher_is_better",
        scale="ratio",
        location="mean",
        resolution=0.0,  # at an offered rate that the server keeps up with it is arithmetic
        formula="queries answered with the records that the server was given / time",
        source="RFC 8219, section 9.2; RFC 1035, section 4.1; paper 004, Figs 9 and 10",
        margin="10%",
    ),
    value=_value,
    lacking="no query was answered rightly",
)
