"""Control: whether calls travel on the measured link."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_ipperf.agent.facts.control import ControlFacts
from pytest_ipperf.lab.doctor.checks.base import Check, Finding
from pytest_ipperf.lab.doctor.observations import HostObservation


class Control(Check):
    """The control connection of hosts reached by ssh; local access has none."""

    topic = "control"
    rank = 55

    def of_host(self, observed: HostObservation) -> Iterator[Finding]:
        """Compare the end of the connection there with the measured addresses."""
        control = observed.fact(ControlFacts)
        if not control or not control.ends:
            return
        theirs, ours = control.ends
        if ours in (observed.host.ipv4, observed.host.ipv6):
            said = f"ssh comes from {theirs} to {ours}, a measured address: calls share the measured link"
            yield self.well(observed.host.name, f"{said}, and are silent during runs")
        else:
            yield self.well(observed.host.name, f"ssh comes from {theirs} to {ours}, apart from the measured addresses")


check = Control()
