"""Processors: those that hosts are bound to, their frequency, and what else runs on them."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_ipperf.agent.facts.control import ControlFacts
from pytest_ipperf.agent.facts.load import LoadFacts
from pytest_ipperf.lab.doctor.checks.base import Check, Finding
from pytest_ipperf.lab.doctor.observations import HostObservation, ObservedTestbed

_IDLE, _BUSY = 0.9, 0.1


class Processors(Check):
    """Processors and their load; a run on a busy machine says nothing about the network."""

    topic = "processors"
    rank = 40

    def of_host(self, observed: HostObservation) -> Iterator[Finding]:
        """Check the processors of key `cpus`, their governor, and the load."""
        facts, name = observed.fact(LoadFacts), observed.host.name
        if not facts:
            return
        if lacking := sorted(set(observed.host.cpus) - set(facts.allowed)):
            may = ", ".join(map(str, facts.allowed))
            said = f"key cpus names {', '.join(map(str, lacking))}, and it may use {may}"
            yield self.wrong(name, said, "correct the key")
        slow = [each for each in facts.governors if each != "performance"]
        if slow:
            remedy = "cpupower frequency-set -g performance"
            yield self.doubtful(name, f"their frequency varies (governor {', '.join(slow)})", remedy)
        said = f"{len(facts.cpus)}, {100 * facts.idle:.0f} % idle over half a second, load {facts.load:.1f}"
        if facts.idle < _IDLE:
            by = ""
            if (busiest := facts.busiest) and busiest.share > _BUSY:
                by = f"; {busiest.name} (process {busiest.pid}) takes {100 * busiest.share:.0f} % of one"
            yield self.doubtful(name, f"{said}{by}", "end what runs there, or wait; other load distorts the figures")
        else:
            yield self.well(name, said)

    def of_testbed(self, observations: ObservedTestbed) -> Iterator[Finding]:
        """Report hosts that are one machine and share its processors."""
        machines: dict[str, list[HostObservation]] = {}
        for observed in observations.reached():
            if not observed.node:
                control = observed.fact(ControlFacts)
                machines.setdefault(control.boot if control else observed.host.name, []).append(observed)
        for together in machines.values():
            names = ", ".join(observed.host.name for observed in together)
            cpus = [set(observed.host.cpus) for observed in together]
            shared = len(together) > 1 and (not all(cpus) or sum(map(len, cpus)) > len(set().union(*cpus)))
            if shared:
                remedy = "give each processors of its own, key cpus"
                yield self.doubtful("", f"{names} are one machine, and share its processors", remedy)


check = Processors()
