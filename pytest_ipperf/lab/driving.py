"""Driving: the connections of a run, made by a testbed's client hosts; told as if one host had made them all.

Where there are several, each has every so many-th connection of a run, and begins each burst at an instant that is
given to it by its own clock, in time for the slowest line. Nothing is said on the lines while connections are under
way, but for the word of a host that it has finished.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_ipperf.agent.arrivals import longest_s
from pytest_ipperf.agent.bursts import BurstTold, RunTold, merged
from pytest_ipperf.agent.load import Dead
from pytest_ipperf.agent.order import LoadOrder
from pytest_ipperf.core.errors import AgentError, LabError
from pytest_ipperf.lab.clocks import HostClock
from pytest_ipperf.lab.link import Link
from pytest_ipperf.lab.pulse import PULSE
from pytest_ipperf.lab.ways import WAYS

# What a burst may take beyond its deadline: thousands of sockets to open and to close, on a host that is busy.
_BURST_S = 10.0
# And what is done beside bursts: forks before the first, and the way of all samples after the last.
_ASIDE_S = 30.0
# From the word to the beginning, beside twice the slowest way there and back: what a busy host takes to wake up.
_SOON_S = 0.01
# Over a network besides: an acknowledgement may be kept back for 40 ms, and must not be on its way with the load.
_ACKNOWLEDGED_S = 0.05
SKEW = ("start_skew_s", "start_skew_error_s")
"""By how much the beginnings of several hosts lay apart, and how far off that is at most."""
LATE_S = 0.02
"""Who begins later than that did not begin together with the others."""


def driven(orders: Mapping[str, LoadOrder], links: Mapping[str, Link], server: Link) -> dict[str, Any]:
    """Carries out a run by the client hosts of these roles, each of which has its order; what `load` tells.

    Where they are several there are besides: `clients`, what each told of itself by role; `start_skew_s`, by how much
    their beginnings lay apart in the worst burst; `start_skew_error_s`, how far off that is at most; `notes`. Raises
    LabError when a host is in trouble, AgentError when its agent dies.
    """
    (role, order), *more = orders.items()
    if not more:
        told: dict[str, Any] = links[role].order(
            "load", dataclasses.asdict(order), patience_s=_patience_s(order), beside=[server]
        )
        return told
    return _Together(orders, {each: links[each] for each in orders}, server).told()


def shares(order: LoadOrder, sources: Mapping[str, str]) -> dict[str, LoadOrder]:
    """By role what each of these clients is to do of an order; those that would have no connection are left out."""
    found = {
        role: dataclasses.replace(order, source=source, place=place, stride=len(sources))
        for place, (role, source) in enumerate(sources.items())
    }
    return {role: each for role, each in found.items() if each.share}


def _patience_s(order: LoadOrder) -> float:
    return order.deadline_s + longest_s(order) + _BURST_S


@dataclass
class _Together:
    """A run that several hosts make, under way. `instants` are those of its bursts, by role on the host's clock."""

    orders: Mapping[str, LoadOrder]
    links: Mapping[str, Link]
    server: Link
    clocks: dict[str, HostClock] = field(default_factory=dict)
    instants: list[dict[str, int]] = field(default_factory=list)

    def told(self) -> dict[str, Any]:
        """All of it, once it is over."""
        self.clocks = {role: HostClock(link) for role, link in self.links.items()}
        self._all("drive_open", {role: dataclasses.asdict(order) for role, order in self.orders.items()})
        dead, patience_s = Dead(), max(map(_patience_s, self.orders.values()))
        for number in range(self._order.bursts):
            self._all("drive_ready", dict.fromkeys(self.links, number))
            self.instants.append(self._instants())
            answers = self._all("drive_begin", self.instants[-1], patience_s)
            PULSE.lull()
            if dead.so(completed=any(answer["completed"] for answer in answers.values())):
                break
        for clock in self.clocks.values():
            clock.look()
        return self._merged(self._all("drive_close"))

    @property
    def _order(self) -> LoadOrder:
        return next(iter(self.orders.values()))

    def _all(
        self, name: str, arguments: Mapping[str, Any] | None = None, patience_s: float = _ASIDE_S
    ) -> dict[str, Any]:
        """Has all hosts carry out an order side by side; of those in trouble, the first one's is raised."""
        for role, link in self.links.items():
            link.ask(name, *([] if arguments is None else [arguments[role]]))
        answers, trouble = {}, None
        for role, link in self.links.items():
            try:
                answers[role] = link.answer(patience_s, [self.server, *self.links.values()])
            except AgentError:
                raise
            except LabError as error:  # the others' answers are read all the same, or would be taken for later ones
                trouble = trouble or error
        if trouble:
            raise trouble
        return answers

    def _instants(self) -> dict[str, int]:
        """When all can begin, soon, by role on the host's clock."""
        for clock in self.clocks.values():
            clock.freshen()
        far = any(WAYS[link.host.way].leased_by_agent for link in self.links.values())
        soon_s = _SOON_S + 2 * max(clock.round_trip_s for clock in self.clocks.values()) + far * _ACKNOWLEDGED_S
        here_ns = time.monotonic_ns() + int(soon_s * 1e9)
        return {role: clock.there(here_ns) for role, clock in self.clocks.items()}

    def _merged(self, told: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
        run, begun, error_s = RunTold(self._order.connections), [], 0.0
        for number, instants in enumerate(self.instants):
            here = {role: self.clocks[role].here(at_ns) for role, at_ns in instants.items()}
            first_ns = min(at_ns for at_ns, _ in here.values())
            later_s = {role: (at_ns - first_ns) * 1e-9 for role, (at_ns, _) in here.items()}
            bursts = {role: told[role]["bursts"][number] for role in here}
            run.add(merged([BurstTold.of_plain(each, later_s[role]) for role, each in bursts.items()]))
            begun.append({role: later_s[role] + each["woke_s"] for role, each in bursts.items()})
            # Of two beginnings each may be off.
            error_s = max(error_s, sum(sorted(off_s for _, off_s in here.values())[-2:]))
        alone = {role: self._alone(role, each, begun) for role, each in told.items()}
        return {
            **run.told(),
            **_summed(told.values()),
            "clients": alone,
            "start_skew_s": max(max(each.values()) - min(each.values()) for each in begun),
            "start_skew_error_s": error_s,
            "notes": tuple(dict.fromkeys((*self._late(told), *self._troubles()))),
        }

    def _alone(self, role: str, told: Mapping[str, Any], begun: Sequence[Mapping[str, float]]) -> dict[str, Any]:
        """What a host told of itself, as `load` would have; its `began_s` are since the first one's instants."""
        run = {name: value for name, value in told.items() if name != "bursts"}
        completed = told["attempted"] - sum(told["failed"].values())
        began_s = [each[role] for each in begun]
        return {"host": self.links[role].host.name, **run, "completed": completed, "began_s": began_s}

    def _late(self, told: Mapping[str, Mapping[str, Any]]) -> Iterable[str]:
        for role, each in told.items():
            late_s = max(burst["woke_s"] for burst in each["bursts"])
            if late_s > LATE_S:
                yield f"host {self.links[role].host.name} began a burst {1000 * late_s:.0f} ms after the common start"

    def _troubles(self) -> Iterable[str]:
        for clock in self.clocks.values():
            yield from clock.troubles()


def _summed(told: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What the hosts counted, together; None where one of them could not."""
    each = list(told)
    counted = {name: _sums([one[name] for one in each]) for name in ("packets", "bare_ipv6", "host_cpu_s", "tcp")}
    controls = [one["control"] for one in each]
    return {
        **counted,
        "cpu_s": sum(one["cpu_s"] for one in each),
        "processors": sum(one["processors"] for one in each),
        "control": None if None in controls else sum(controls),
    }


def _sums(counts: Sequence[Mapping[str, float] | None]) -> dict[str, float] | None:
    if None in counts:
        return None
    known = [each for each in counts if each is not None]
    names = dict.fromkeys(name for each in known for name in each)
    return {name: sum(each.get(name, 0) for each in known) for name in names}
