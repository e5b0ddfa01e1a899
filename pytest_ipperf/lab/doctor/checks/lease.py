"""Lease: who is measuring on the host now."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_ipperf.agent.facts.leftovers import LeftoverFacts
from pytest_ipperf.lab.doctor.checks.base import Check, Finding
from pytest_ipperf.lab.doctor.observations import HostObservation


class HeldLease(Check):
    """The host's lease, which is reported and not waited for."""

    topic = "lease"
    rank = 2

    def of_host(self, observed: HostObservation) -> Iterator[Finding]:
        """Report the lease's holder, since when, and its command."""
        if observed.busy_with:
            said = f"held by {observed.busy_with}"
            yield self.doubtful(observed.host.name, said, "it is measured there now; wait for its end")
        elif observed.fact(LeftoverFacts):
            yield self.well(observed.host.name, "free")


check = HeldLease()
