"""Run the connections of a load on a testbed's client hosts; report them as if one host had made them all.

Each of N clients makes every Nth connection of a run, and begins each burst at an instant given in its own clock, early
enough for the slowest control connection. Short bursts get their instants by the dozen. While connections are under
way, nothing is sent on the control connections, except a host's report that it has finished.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast

from pytest_ipperf.agent.load.arrivals import longest_s
from pytest_ipperf.agent.load.results import BurstResult, LoadResult, merged
from pytest_ipperf.agent.load.runner import ConsecutiveFailures
from pytest_ipperf.agent.load.spec import LoadSpec
from pytest_ipperf.agent.paths.packet_counters import RunPackets
from pytest_ipperf.agent.rpc.handlers.multi_client import LATE_S
from pytest_ipperf.core.portable.errors import AgentError, LabError
from pytest_ipperf.lab.access import ACCESS_METHODS
from pytest_ipperf.lab.agents.client import AgentClient
from pytest_ipperf.lab.agents.clocks import HostClock
from pytest_ipperf.lab.agents.heartbeat import HEARTBEAT
from pytest_ipperf.lab.agents.rpc_method import PendingReply, all_replies
from pytest_ipperf.lab.runs.result import ClientResults

R = TypeVar("R")
N = TypeVar("N", int, float)

# Time of a burst beyond its deadline: opening and closing thousands of sockets on a busy host.
_BURST_S = 10.0
# Time of a run beside its bursts: forks before the first, and the transfer of all samples after the last.
_ASIDE_S = 30.0
# Time between sending an instant and the instant, beside two slowest round trips: the wake-up of a busy host.
_SOON_S = 0.01
# Additional time over a network: a delayed acknowledgement comes up to 40 ms later, and must not fall into the load.
_ACKNOWLEDGED_S = 0.05
SKEW = ("start_skew_s", "start_skew_error_s")
"""Names of the largest difference between the hosts' starts, and of its maximum error."""
# Length of a series of short bursts without messages in between; and the least time between two of them, beside twice
# the duration of earlier ones.
_SERIES_S = 0.5
_APART_S = 0.005


def run_load(specs: Mapping[str, LoadSpec], agents: Mapping[str, AgentClient], server: AgentClient) -> ClientResults:
    """Run the load on the client hosts of these roles, each with its spec.

    Raises LabError if a host is in trouble, AgentError if its agent dies.
    """
    (role, spec), *more = specs.items()
    if not more:
        result = agents[role].within(_patience_s(spec), [server]).load(spec)
        return ClientResults(total=result, by_role={role: result})
    return SynchronisedRun(specs, {each: agents[each] for each in specs}, server).run()


def split_spec(spec: LoadSpec, sources: Mapping[str, str]) -> dict[str, LoadSpec]:
    """Return each client's part of a run, by role; clients that would have no connection are left out."""
    specs = {
        role: dataclasses.replace(spec, source=source, offset=offset, stride=len(sources))
        for offset, (role, source) in enumerate(sources.items())
    }
    return {role: each for role, each in specs.items() if each.connection_count}


def _patience_s(spec: LoadSpec) -> float:
    return spec.deadline_s + longest_s(spec) + _BURST_S


@dataclass
class SynchronisedRun:
    """A run made by several hosts.

    `instants` are those of its bursts, by role in the host's clock. If nothing completes any more, the last bursts may
    lack a host that has not reached them.
    """

    specs: Mapping[str, LoadSpec]
    agents: Mapping[str, AgentClient]
    server: AgentClient
    clocks: dict[str, HostClock] = field(default_factory=dict)
    instants: defaultdict[int, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))

    def run(self) -> ClientResults:
        """Make the whole run and return its results; if a host is in trouble, all hosts abort the run.

        If an agent is gone, the others are left in the middle of a call and end with the epoch.
        """
        try:
            return self._run()
        except AgentError:
            raise
        except LabError:
            for agent in self.agents.values():
                with contextlib.suppress(LabError):  # the first error reports a lost agent
                    agent.load_abort()
            raise

    def _run(self) -> ClientResults:
        self.clocks = {role: HostClock(agent) for role, agent in self.agents.items()}
        opened = {role: self.agents[role].load_open.request(spec) for role, spec in self.specs.items()}
        self._all(opened)
        self._make()
        for clock in self.clocks.values():
            clock.sample()
        return self._merged(self._all({role: agent.load_close.request() for role, agent in self.agents.items()}))

    def _make(self) -> None:
        """Make all bursts, or as many as needed to see that nothing completes any more."""
        failures, every_s = ConsecutiveFailures(), _SERIES_S
        while len(self.instants) < self._spec.bursts:
            done = []
            for completed, took_s in self._series(every_s):
                if failures.reached(completed=completed):
                    return
                done.append((completed, took_s))
            # While nothing completes, bursts are made one by one, as the run may soon end.
            every_s = _APART_S + 2 * max(took_s for _, took_s in done) if done[-1][0] else _SERIES_S

    def _series(self, every_s: float) -> Iterator[tuple[bool, float]]:
        """Make bursts for half a second; yield of each whether any connection completed, and its duration.

        They begin `every_s` apart. A burst is yielded once all hosts have made it. A host that could not keep up makes
        its missing bursts afterwards, without the others.
        """
        first = len(self.instants)
        end = min(first + max(1, int(_SERIES_S / every_s)), self._spec.bursts)
        done: list[tuple[bool, float]] = [(False, 0.0)] * (end - first)
        made = dict.fromkeys(self.agents, first)
        while (number := min(made.values())) < end:
            roles = [role for role, each in made.items() if each == number]
            count = end - number if number == first else 1
            for role, each in self._begun(roles, number, count, every_s).items():
                for at, (completed, took_s) in enumerate(each, start=number - first):
                    done[at] = done[at][0] or completed, max(done[at][1], took_s)
                made[role] += len(each)
            yield from done[number - first : min(made.values()) - first]

    def _begun(
        self, roles: Sequence[str], number: int, count: int, every_s: float
    ) -> dict[str, list[tuple[bool, float]]]:
        """Return these hosts' results of `count` bursts, which begin on all of them at the same instants."""
        self._all({role: self.agents[role].load_ready.request(number) for role in roles})
        soon_ns = int(self._soon_s() * 1e9)  # may sample clocks first, which takes time
        here_ns = time.monotonic_ns() + soon_ns
        instants = [here_ns + int(at * every_s * 1e9) for at in range(count)]
        there = {role: [self.clocks[role].to_remote(at_ns) for at_ns in instants] for role in roles}
        patience_s = max(map(_patience_s, self.specs.values())) + _SERIES_S
        started = {role: self.agents[role].load_start.request(number, there[role]) for role in roles}
        answers = self._all(started, patience_s)
        for role, each in answers.items():
            for at in range(len(each)):
                self.instants[number + at][role] = there[role][at]
        HEARTBEAT.allow_one()
        return answers

    @property
    def _spec(self) -> LoadSpec:
        return next(iter(self.specs.values()))

    def _all(self, pending: Mapping[str, PendingReply[R]], patience_s: float = _ASIDE_S) -> dict[str, R]:
        """Wait for the replies of several hosts, while the server and all clients must stay alive."""
        return all_replies(pending, patience_s, [self.server, *self.agents.values()])

    def _soon_s(self) -> float:
        """Return how long it takes until all hosts know an instant, and nothing is under way any more."""
        for clock in self.clocks.values():
            clock.refresh()
        far = any(ACCESS_METHODS[agent.host.way].far for agent in self.agents.values())
        return _SOON_S + 2 * max(clock.round_trip_s for clock in self.clocks.values()) + far * _ACKNOWLEDGED_S

    def _merged(self, results: Mapping[str, LoadResult]) -> ClientResults:
        bursts, begun, error_s = [], [], 0.0
        for number, instants in self.instants.items():
            here = {role: self.clocks[role].to_local(at_ns) for role, at_ns in instants.items()}
            first_ns = min(at_ns for at_ns, _ in here.values())
            later_s = {role: (at_ns - first_ns) * 1e-9 for role, (at_ns, _) in here.items()}
            each = {role: results[role].bursts[number] for role in here}
            bursts.append(merged([burst.later(later_s[role]) for role, burst in each.items()]))
            begun.append({role: later_s[role] + burst.woke_s for role, burst in each.items()})
            # Both of two starts may be off.
            error_s = max(error_s, sum(sorted(off_s for _, off_s in here.values())[-2:]))
        skew_s = max(max(each.values()) - min(each.values()) for each in begun)
        return ClientResults(
            total=_total(bursts, list(results.values())),
            by_role=results,
            began_s={role: [each[role] for each in begun if role in each] for role in results},
            skew=dict(zip(SKEW, (skew_s, error_s), strict=True)),
            notes=tuple(dict.fromkeys((*self._late(begun), *self._troubles()))),
        )

    def _late(self, begun: Sequence[Mapping[str, float]]) -> Iterable[str]:
        for role, agent in self.agents.items():
            late_s = max(each[role] - min(each.values()) for each in begun if role in each)
            if late_s > LATE_S:
                yield f"host {agent.host.name} began a burst {1000 * late_s:.0f} ms after the first host"

    def _troubles(self) -> Iterable[str]:
        for clock in self.clocks.values():
            yield from clock.troubles()


def _total(bursts: Sequence[BurstResult], results: Sequence[LoadResult]) -> LoadResult:
    """Return the result of the merged bursts, with the sums of the hosts' counts; None if a host could not count."""
    controls = [each.control for each in results]
    bare = [each.traffic.bare_ipv6 for each in results]
    return LoadResult.of_bursts(
        bursts,
        attempted=sum(each.attempted for each in results),
        cpu_s=sum(each.cpu_s for each in results),
        processors=sum(each.processors for each in results),
        tcp=_sums([each.tcp for each in results]),
        host_cpu_s=_sums([each.host_cpu_s for each in results]),
        control=None if None in controls else sum(each or 0 for each in controls),
        traffic=RunPackets(
            packets=_sums([each.traffic.packets for each in results]),
            bare_ipv6=None if None in bare else _sums([each or {} for each in bare]),
        ),
    )


def _sums(counts: Sequence[Mapping[str, N]]) -> dict[str, N]:
    names = dict.fromkeys(name for each in counts for name in each)
    return {name: cast("N", sum(each.get(name, 0) for each in counts)) for name in names}
