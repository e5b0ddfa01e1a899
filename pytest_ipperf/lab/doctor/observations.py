"""Observations of a testbed: plain facts, of which the checks make findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_ipperf.lab.inventory.model import Host, Testbed


@dataclass(kw_only=True)
class HostObservation:
    """A host. `trouble` says why there is no agent, and then there is nothing else.

    A `node` shares all but its network with this machine, which is one more host then. `facts` are those of
    `agent/facts` by name. `repairs` is what was put in order. `start_s` is how long its agent took to answer,
    `call_s` the round trip of a call. `skew_s` is by how much its wall clock is ahead of ours, and how far off that
    is at most. `answer` is what SNMP said of the host, or why it said nothing, of which one is empty.
    """

    host: Host
    roles: tuple[str, ...]
    node: bool = False
    trouble: str = ""
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    repairs: list[str] = field(default_factory=list)
    start_s: float = 0.0
    call_s: float = 0.0
    skew_s: tuple[float, float] | None = None
    answer: tuple[str, str] = ("", "")

    def fact(self, name: str) -> Mapping[str, Any]:
        """Those of that name; empty where they could not be had."""
        found = self.facts.get(name, {})
        return {} if "trouble" in found else found

    def missing_facts(self) -> Iterator[tuple[str, str]]:
        """The names of those that could not be had, and why."""
        return ((name, fact["trouble"]) for name, fact in self.facts.items() if "trouble" in fact)

    @property
    def busy_with(self) -> str:
        """Who measures there at present, also where the lease alone has told it."""
        return str(self.facts.get("leftovers", {}).get("holder", ""))


@dataclass(frozen=True, kw_only=True)
class Reachability:
    """The native way from one host to another, by one IP version.

    `tcp` and `udp` say why a port there cannot be reached. `fits` tells of packets by their bytes whether they arrive
    whole: `yes`, `too big` or `no answer`. `trouble` is why nothing was found out.
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
    """A testbed. `hosts` are its hosts by name.

    `others` are testbeds that cannot be measured at the same time, and what they share. `leftovers` are sentences
    of what the examination itself has left on hosts.
    """

    testbed: Testbed
    hosts: Mapping[str, HostObservation]
    reachability: tuple[Reachability, ...] = ()
    others: Mapping[str, str] = field(default_factory=dict)
    leftovers: Sequence[str] = ()

    def reached(self) -> list[HostObservation]:
        """Those with an agent."""
        return [each for each in self.hosts.values() if not each.trouble]
