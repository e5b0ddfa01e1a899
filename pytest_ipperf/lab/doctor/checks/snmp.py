"""SNMP: whether the agent of key `snmp` answers."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_ipperf.lab.doctor.checks.base import Check, Finding
from pytest_ipperf.lab.doctor.observations import ObservedTestbed


class Snmp(Check):
    """SNMP agents, asked from this machine, as for the counters."""

    topic = "snmp"
    rank = 57

    def of_testbed(self, observations: ObservedTestbed) -> Iterator[Finding]:
        """Check each host that has the key."""
        for observed in observations.hosts.values():
            said, trouble = observed.answer
            if trouble:
                yield self.wrong(observed.host.name, trouble, "correct key snmp, or let this machine ask there")
            elif said:
                yield self.well(observed.host.name, said)


check = Snmp()
