"""Client load: the client's own part in what it measured, to tell the server from the client."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_ipperf.core.stats.percentile import percentile

CLIENT_BOUND = 0.2
"""More than this share of the response time as the client's own makes a cell client-bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFacts:
    """What a client reported of itself after one run.

    `cpu_s` is its processor time, user and kernel, in the `wall_s` that its bursts took, for so many `connections`;
    `wall_s` is None where they arrived at a rate, as it would hold the time in which none was there. `lag_s` is the
    longest that its loop took to come round, `peak` how many connections were in their transactions at once (median of
    the bursts). `tcp` holds the counters of trouble that moved, of the two hosts the larger count. `processors` is how
    many its processes could use at once. `content_bytes` came, or were taken by the server, in the completed
    connections of all clients; None where nobody counted them.
    """

    cpu_s: float
    wall_s: float | None
    connections: int
    lag_s: float
    peak: int
    tcp: Mapping[str, int]
    processors: int = 1
    content_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLoad:
    """The load of the client in the runs of one arm; what was not measured is None.

    `share` is an upper bound of the part of the response time that is the client's own, the smaller of two measures:
    `cpu_share`, its processor time in a second of its bursts, and the part that is `floor_s`, the response time against
    the null server (which has the network in it). In open-loop bursts, which hold idle time too, `cpu_share` is the
    processor time for a connection in its response time, which bounds nothing: there only the baseline cost does, and
    `cpu_share` stands in for a baseline cost that was not found.
    `late_s` is how late the client read the segments that ended the transactions, the 95th percentile of all
    connections. `lag_s` and `peak` are medians of the runs, `tcp` the sums. `behind_s` is how much later than intended
    connections were opened, the 99th percentile; 0 in closed-loop bursts.
    """

    floor_s: float | None
    share: float
    cpu_share: float
    late_s: float | None
    lag_s: float
    peak: int
    tcp: dict[str, int]
    behind_s: float = 0.0

    def behind_too_far(self, mean_s: float) -> bool:
        """Whether the client could not keep up with the arrivals, so that a response time holds its own lateness."""
        return self.behind_s > CLIENT_BOUND * mean_s

    @property
    def client_bound(self) -> bool:
        """Whether so much may be the client's own that the figure tells of the client as of the server."""
        return self.share > CLIENT_BOUND


def client_load(
    runs: Sequence[ClientFacts],
    late_s: Iterable[float],
    behind_s: Iterable[float] = (),
    *,
    mean_s: float,
    baseline_cost_s: float | None,
) -> ClientLoad:
    """Summarise the client's load in the runs of an arm (at least one), whose completed connections took `mean_s`.

    `late_s` and `behind_s` have one for each connection, `late_s` nan where the kernel did not tell.
    """
    tcp: Counter[str] = Counter()
    for run in runs:
        tcp.update(run.tcp)
    late, behind = [each for each in late_s if not math.isnan(each)], list(behind_s)
    walls = [run.processors * run.wall_s for run in runs if run.wall_s is not None]
    cpu_s = sum(run.cpu_s for run in runs)
    cpu_share = min(1.0, cpu_s / (sum(walls) if walls else mean_s * sum(run.connections for run in runs)))
    shares = [cpu_share] * (bool(walls) or baseline_cost_s is None) + (
        [] if baseline_cost_s is None else [baseline_cost_s / mean_s]
    )
    return ClientLoad(
        floor_s=baseline_cost_s,
        share=min(1.0, *shares),
        cpu_share=cpu_share,
        late_s=percentile(late, 0.95) if late else None,
        lag_s=statistics.median(run.lag_s for run in runs),
        peak=round(statistics.median(run.peak for run in runs)),
        tcp=dict(sorted(tcp.items())),
        behind_s=percentile(behind, 0.99) if behind else 0.0,
    )
