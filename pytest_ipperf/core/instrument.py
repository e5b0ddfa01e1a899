"""The instrument's own part in what it measured, that is: was it the server, or the client."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

CLIENT_BOUND = 0.2
"""A floor of more than this share of the response time makes a run client-bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFacts:
    """What a client told of itself after one run.

    `cpu_s` is its processor time, user and kernel, in the `wall_s` that its bursts took; `server_cpu_s` that of the
    servers. `lag_s` is the longest that its loop took to come round, `peak` how many connections were in their
    transactions at once (median of the bursts). `tcp` holds the counters of trouble that moved on both hosts.
    """

    cpu_s: float
    wall_s: float
    server_cpu_s: float
    lag_s: float
    peak: int
    tcp: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Instrument:
    """The client's part in the runs of one arm; what was not measured is None.

    `floor_s` is the response time against the null server, `share` what part of the measured response time that is.
    `cpu_share` is the client's processor time in a second of its bursts. `late_s` is how late the client read the
    segments that ended the transactions, the 95th percentile of all connections. `lag_s` and `peak` are medians of the
    runs, `tcp` the sums.
    """

    floor_s: float | None
    share: float | None
    cpu_share: float
    late_s: float | None
    lag_s: float
    peak: int
    tcp: dict[str, int]

    @property
    def client_bound(self) -> bool:
        """Whether the client and the network stacks alone take more than `CLIENT_BOUND` of the response time."""
        return self.share is not None and self.share > CLIENT_BOUND


def instrument(
    runs: Sequence[ClientFacts], late_s: Iterable[float], *, mean_s: float, floor_s: float | None
) -> Instrument:
    """What the runs of an arm (at least one), the mean of whose values is `mean_s`, tell together.

    `late_s` has one for each connection, nan where the kernel did not tell.
    """
    tcp: Counter[str] = Counter()
    for run in runs:
        tcp.update(run.tcp)
    told = sorted(late for late in late_s if not math.isnan(late))
    return Instrument(
        floor_s=floor_s,
        share=None if floor_s is None else floor_s / mean_s,
        cpu_share=sum(run.cpu_s for run in runs) / sum(run.wall_s for run in runs),
        late_s=told[math.ceil(0.95 * len(told)) - 1] if told else None,
        lag_s=statistics.median(run.lag_s for run in runs),
        peak=round(statistics.median(run.peak for run in runs)),
        tcp=dict(sorted(tcp.items())),
    )
