"""Rights: what the agent's user may not do is not measured, or not proven."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_ipperf.agent.facts.rights import RightsFacts
from pytest_ipperf.lab.doctor.checks.base import Check, Finding, as_root
from pytest_ipperf.lab.doctor.observations import HostObservation


class Rights(Check):
    """Rights of the agent's user; root can do everything, other users most of it."""

    topic = "rights"
    rank = 5

    def of_host(self, observed: HostObservation) -> Iterator[Finding]:
        """Report what is lost without the rights of root."""
        may = observed.fact(RightsFacts)
        if not may:
            return
        lost = [] if may.raw else ["packets of tunnels are not counted", "no captures"]
        lost += [] if may.admin else ["no tunnels can be made"]
        lost += [] if may.root else ["Postfix cannot run"]
        if lost:
            remedy = f"{as_root(observed.host)}, if you need that"
            yield self.doubtful(observed.host.name, f"user {may.user}: {', '.join(lost)}", remedy)
        else:
            yield self.well(observed.host.name, f"user {may.user}, with all that is needed")


check = Rights()
