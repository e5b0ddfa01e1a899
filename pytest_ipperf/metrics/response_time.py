"""Response time: from the opening of a connection's first socket to the end of its transaction (paper 000).

The value of a run is the mean over its connections; a failed one counts as the deadline (a restricted mean), so that an
arm cannot win by losing its slowest connections.
"""

from pytest_ipperf.core.design.metric import Metric
from pytest_ipperf.core.measurement.run_data import RunData
from pytest_ipperf.core.stats.failures import restricted_mean
from pytest_ipperf.metrics.base import Measure


def _value(outcome: RunData) -> float:
    return restricted_mean(outcome.column("total"), sum(outcome.failed.values()), outcome.deadline_s)


measure = Measure(
    metric=Metric(
        name="response_time",
        title="response time per connection",
        unit="s",
        direction="lower_is_better",
        scale="ratio",
        location="median",
        resolution=1e-6,
        formula="mean over connections of (end of transaction - opening of the first socket); failed: the deadline",
        source="paper 000, section 2.3 and Table 2-1",
        margin="10%,0.5ms",
    ),
    value=_value,
)
