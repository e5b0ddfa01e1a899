"""Share of failed connections: those that did not complete their transaction by the deadline, for any reason.

It is judged beside the metric of every test of an application protocol, as an arm may be fast because it fails.
"""

from collections.abc import Sequence

from pytest_ipperf.core.design.metric import AMOUNT, Metric
from pytest_ipperf.core.design.question import FAILED_SHARE
from pytest_ipperf.core.measurement.run import Run
from pytest_ipperf.core.measurement.run_data import RunData
from pytest_ipperf.metrics.base import LookFacts, Measure

# Connections of one run share a server's state, so they count as half as many independent ones.
_DESIGN_EFFECT = 2.0
# Failures come in clumps, which make few epochs look alike by chance.
_EXCEEDS_LEVEL = 0.2


def _value(outcome: RunData) -> float | None:
    return sum(outcome.failed.values()) / outcome.attempted if outcome.attempted else None


def _at_look(runs: Sequence[Run], facts: LookFacts) -> Sequence[float]:
    del facts
    return [run.failed_share for run in runs]


measure = Measure(
    metric=Metric(
        name=FAILED_SHARE,
        title="failed connections",
        label="failed share",
        unit="1",
        direction="lower_is_better",
        scale="difference",
        location="mean",
        resolution=0.0,
        formula="connections that did not complete / connections attempted",
        source="RFC 2330, section 11.2 (a singleton that is lost is counted); variance: Farrington and Manning, 1990",
        words=AMOUNT,
        margin="1pp",
        design_effect=_DESIGN_EFFECT,
        exceeds_level=_EXCEEDS_LEVEL,
    ),
    value=_value,
    lacking="nothing was attempted",
    at_look=_at_look,
)
