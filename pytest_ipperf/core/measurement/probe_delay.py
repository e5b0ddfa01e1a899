"""Delay and loss of a run that is a probe of an idle path or of one under working conditions, as facts of the run."""

from __future__ import annotations

import math

from pytest_ipperf.core.measurement.packet_streams import packet_streams
from pytest_ipperf.core.measurement.run_data import RunData
from pytest_ipperf.core.stats.delay_variation import delays
from pytest_ipperf.core.stats.percentile import median, percentile

DELAYS = {"probe_p50_s": 0.5, "probe_p95_s": 0.95, "probe_p99_s": 0.99}
"""Facts with percentiles of the delay in s, by name; p50 is the median."""
LOSS = "probe_loss"
"""Fact with the share of the packets or probes that were lost, from 0 to 1."""
ROUND_TRIP = "rtt_s"


def probe_facts(data: RunData) -> dict[str, float]:
    """Return the percentiles of a run's delays, of one way or of a round trip, and its loss; {} without any packet.

    What was lost counts as infinitely late, as in metric `delay`; a percentile that is infinite is left out.
    """
    lost = sum(data.failed.values())
    if ROUND_TRIP in data.columns:
        times = list(data.column(ROUND_TRIP))
    else:
        times = [delay_s for each in packet_streams(data) for delay_s in delays(*each).values()]
    times += [math.inf] * lost
    if not times:
        return {}
    found = {name: median(times) if share == 0.5 else percentile(times, share) for name, share in DELAYS.items()}
    return {**{name: value for name, value in found.items() if value < math.inf}, LOSS: lost / max(1, data.attempted)}
