"""Client load: the client's own part in its measurements, which tells the server from the client."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_ipperf.core.stats.percentile import percentile

CLIENT_BOUND = 0.2
"""Share of the response time above which a cell is client-bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFacts:
    """Figures that a client reported about itself after one run.

    `cpu_s` is its processor time, user and kernel, during the `wall_s` that its bursts took, for `connections`
    connections. `wall_s` is None if they arrived at a rate, as it would include idle time. `lag_s` is the longest turn
    of its event loop, and `peak` the number of connections in a transaction at once (median of the bursts). `tcp` holds
    the TCP counters of trouble that increased: for each, the larger count of the two hosts. `processors` is the number
    of processors that its processes could use at once. `content_bytes` is the content received, or taken by the server,
    in the completed connections of all clients; None if it was not counted.
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
    """The load of the client in the runs of one arm; figures that were not measured are None.

    `share` is an upper bound on the part of the response time spent in the client, the smaller of two measures:
    `cpu_share`, its processor time in a second of its bursts, and `floor_s`, the response time against the null server
    (network included), as a share of the response time. In open-loop bursts, which include idle time, `cpu_share` is
    the processor time per connection as a share of its response time; it bounds nothing there, so it is used only if
    the baseline cost is unknown.
    `late_s` is how late the client read the segments that ended the transactions (95th percentile of all connections).
    `lag_s` and `peak` are medians of the runs, `tcp` holds the sums. `behind_s` is the delay of connections after their
    intended start (99th percentile); 0 in closed-loop bursts.
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
        """Return whether the client fell so far behind the arrivals that response times include its own lateness."""
        return self.behind_s > CLIENT_BOUND * mean_s

    @property
    def client_bound(self) -> bool:
        """Return whether the client's share is so large that the figure describes the client as much as the server."""
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

    `late_s` and `behind_s` hold one value for each connection; `late_s` is nan if the kernel gave no timestamp.
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
