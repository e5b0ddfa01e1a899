"""File descriptors: each connection takes one."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_ipperf.agent.facts.limits import LimitFacts
from pytest_ipperf.lab.doctor.checks.base import Check, Finding
from pytest_ipperf.lab.doctor.observations import HostObservation

MOST = 5000
"""Number of connections that a host should support, unless the inventory limits it."""
_OTHERS = 64


class Descriptors(Check):
    """The hard limit of file descriptors; the agent raises the soft limit itself."""

    topic = "descriptors"
    rank = 10

    def of_host(self, observed: HostObservation) -> Iterator[Finding]:
        """Compare the limit with what the maximum number of connections needs."""
        if not (limits := observed.fact(LimitFacts)):
            return
        most, hard = observed.host.most_connections or MOST, limits.descriptors
        needed = most + _OTHERS
        if hard and hard < needed:
            said = f"{hard} file descriptors are allowed, good for {hard - _OTHERS} connections"
            yield self.doubtful(
                observed.host.name, said, f"allow {needed} (ulimit -H -n), in /etc/security/limits.conf"
            )
        else:
            yield self.well(observed.host.name, f"{hard or 'any number of'} file descriptors, for {most} connections")


check = Descriptors()
