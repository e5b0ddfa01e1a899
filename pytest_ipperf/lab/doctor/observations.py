"""Observations of a testbed, from which the checks derive findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pytest_ipperf.agent.facts.leftovers import LeftoverFacts
from pytest_ipperf.agent.rpc.messages import CacheState, CollectedFacts, Kind
from pytest_ipperf.lab.inventory.model import Host, Testbed


@dataclass(kw_only=True)
class HostObservation:
    """Observations of a host; if `trouble` says why it has no agent, there are no others.

    A `node` shares everything but its network with this machine, which is then an extra host. `cache` is the package
    cache of a remote host, `lease_holder` who held the lease when the doctor requested it. `repairs` lists what was put
    in order. `start_s` is the start-up time of its agent, `call_s` the round trip of a call. `skew_s` is the offset of
    its wall clock ahead of ours, with its maximum error. `answer` is the host's SNMP description and the reason if
    there is none; one of the two is empty.
    """

    host: Host
    roles: tuple[str, ...]
    node: bool = False
    trouble: str = ""
    facts: CollectedFacts = field(default_factory=CollectedFacts)
    cache: CacheState | None = None
    lease_holder: str = ""
    repairs: list[str] = field(default_factory=list)
    start_s: float = 0.0
    call_s: float = 0.0
    skew_s: tuple[float, float] | None = None
    answer: tuple[str, str] = ("", "")

    def fact(self, kind: type[Kind]) -> Kind | None:
        """Return the facts of that kind; None if they could not be collected."""
        return self.facts.of(kind)

    @property
    def busy_with(self) -> str:
        """Holder of the host's lease, empty if there is none.

        It is known even if only the lease call reported it.
        """
        leftovers = self.fact(LeftoverFacts)
        return self.lease_holder or (leftovers.holder if leftovers else "")


@dataclass(frozen=True, kw_only=True)
class Reachability:
    """The native path from one host to another, by one IP version.

    `tcp` and `udp` say why a port there cannot be reached. `fits` tells by packet size in bytes whether packets arrive
    unfragmented: `yes`, `too big` or `no answer`. `trouble` says why nothing could be probed.
    """

    here: str
    there: str
    ipver: int
    mtu: int = 0
    tcp: str = ""
    udp: str = ""
    fits: Mapping[int, str] = field(default_factory=dict)
    trouble: str = ""


@dataclass(frozen=True, kw_only=True)
class ObservedTestbed:
    """Observations of a testbed and of its hosts by name.

    `others` are testbeds that cannot be measured at the same time, and what they share with this one. `leftovers` are
    sentences about what the examination itself has left on hosts.
    """

    testbed: Testbed
    hosts: Mapping[str, HostObservation]
    reachability: tuple[Reachability, ...] = ()
    others: Mapping[str, str] = field(default_factory=dict)
    leftovers: Sequence[str] = ()

    def reached(self) -> list[HostObservation]:
        """Return the hosts that have an agent."""
        return [each for each in self.hosts.values() if not each.trouble]
