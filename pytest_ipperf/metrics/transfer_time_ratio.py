"""Transfer time ratio: actual duration of a TCP transfer relative to the ideal one.

The ideal rate is the ceiling that the lab knows its links to have (fact `ideal_bit_s`), or the window requested for
every stream (`window_bytes`) per RTT of the empty path, if that is less. The kernel may grant more window than
requested; then the ratio may be below 1.
"""

from pytest_ipperf.core.design.metric import Metric
from pytest_ipperf.core.measurement.run_data import RunData
from pytest_ipperf.core.stats.tcp_transfer import ideal_rate, transfer_time_ratio
from pytest_ipperf.metrics.base import Measure


def _value(outcome: RunData) -> float | None:
    facts = outcome.facts
    window = facts.get("window_bytes")
    windows = None if window is None else outcome.attempted * window
    ideal = ideal_rate(facts.get("ideal_bit_s"), windows, facts.get("base_rtt_s"))
    return transfer_time_ratio(facts["payload_bytes"], facts["seconds"], ideal)


measure = Measure(
    metric=Metric(
        name="transfer_time_ratio",
        title="TCP transfer time ratio",
        label="transfer time ratio",
        unit="1",
        direction="lower_is_better",
        scale="ratio",
        location="median",
        resolution=1e-9,
        formula="actual / ideal time of transfer; ideal: at the link's ceiling, or windows x 8 / base RTT if less",
        source="RFC 6349, section 4.1",
        words=("a higher", "a lower"),
        margin="10%",
    ),
    value=_value,
    lacking="no rate of the links and no window is known, or nothing was transferred",
)
