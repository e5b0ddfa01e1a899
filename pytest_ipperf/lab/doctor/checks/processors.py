"""Processors: those that hosts are bound to, their frequency, and what else runs on them."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_ipperf.lab.doctor.checks.base import Check, Finding
from pytest_ipperf.lab.doctor.observations import HostObservation, ObservedTestbed

_IDLE, _BUSY = 0.9, 0.1


class Processors(Check):
    """A run tells nothing of a machine that was busy with something else."""

    topic = "processors"
    rank = 40

    def of_host(self, seen: HostObservation) -> Iterator[Finding]:
        """Those of key `cpus`, their governor, and the load."""
        told, name = seen.fact("load"), seen.host.name
        if not told:
            return
        if lacking := sorted(set(seen.host.cpus) - set(told["allowed"])):
            may = ", ".join(map(str, told["allowed"]))
            said = f"key cpus names {', '.join(map(str, lacking))}, and it may use {may}"
            yield self.wrong(name, said, "correct the key")
        slow = [each for each in told["governors"] if each != "performance"]
        if slow:
            remedy = "cpupower frequency-set -g performance"
            yield self.doubtful(name, f"their frequency goes up and down (governor {', '.join(slow)})", remedy)
        said = f"{len(told['cpus'])}, {100 * told['idle']:.0f} % idle over half a second, load {told['load']:.1f}"
        if told["idle"] < _IDLE:
            by = ""
            if told["busiest"] and told["busiest"][2] > _BUSY:
                pid, what, share = told["busiest"]
                by = f"; {what} (process {pid}) takes {100 * share:.0f} % of one"
            yield self.doubtful(name, f"{said}{by}", "end what runs there, or wait; figures of busy hosts are theirs")
        else:
            yield self.well(name, said)

    def of_testbed(self, found: ObservedTestbed) -> Iterator[Finding]:
        """Hosts that are one machine."""
        machines: dict[str, list[HostObservation]] = {}
        for seen in found.hosts():
            if not seen.node:
                machines.setdefault(seen.fact("control").get("boot", seen.host.name), []).append(seen)
        for together in machines.values():
            names = ", ".join(seen.host.name for seen in together)
            cpus = [set(seen.host.cpus) for seen in together]
            shared = len(together) > 1 and (not all(cpus) or sum(map(len, cpus)) > len(set().union(*cpus)))
            if shared:
                remedy = "give each processors of its own, key cpus"
                yield self.doubtful("", f"{names} are one machine, and share its processors", remedy)


check = Processors()
