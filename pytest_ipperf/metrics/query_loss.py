"""Loss of queries: the share without any answer within the time-out, whichever of query and answer was lost."""

from pytest_ipperf.core.design.metric import AMOUNT, Metric
from pytest_ipperf.core.measurement.run_data import RunData
from pytest_ipperf.metrics.base import Measure


def _value(outcome: RunData) -> float | None:
    facts = outcome.facts
    return facts["lost"] / facts["asked"] if facts["asked"] else None


measure = Measure(
    metric=Metric(
        name="query_loss",
        title="lost queries",
        label="lost",
        unit="1",
        direction="lower_is_better",
        scale="difference",
        location="mean",
        resolution=0.0,
        formula="queries without an answer within the time-out / queries that had to be asked",
        source="RFC 6673, section 4.1; RFC 8219, section 9.2 (time-out of 1 s)",
        words=AMOUNT,
        margin="0.5pp",
    ),
    value=_value,
    lacking="no query had to be asked",
)
