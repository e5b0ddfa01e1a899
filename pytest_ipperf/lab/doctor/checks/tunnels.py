"""Tunnels: which backend would carry the testbed's tunnels, and whether the hosts' own tunnel devices exist."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_ipperf.agent.facts.rights import RightsFacts
from pytest_ipperf.agent.facts.tunnels import TunnelFacts
from pytest_ipperf.lab.doctor.checks.base import Check, Finding, as_root
from pytest_ipperf.lab.doctor.observations import ObservedTestbed
from pytest_ipperf.lab.inventory.model import Testbed
from pytest_ipperf.lab.tunnels.backend_choice import lab_backend


class Tunnels(Check):
    """Backends and existing devices of testbeds with tunnelled arms."""

    topic = "tunnels"
    rank = 35

    def of_testbed(self, observations: ObservedTestbed) -> Iterator[Finding]:
        """Check each host, or a lab as a whole."""
        if observations.testbed.is_lab:
            yield from self._of_lab(observations.testbed)
            return
        for observed in observations.reached():
            facts, rights, host = observed.fact(TunnelFacts), observed.fact(RightsFacts), observed.host.name
            if not facts:
                continue
            admin = bool(rights and rights.admin)
            ends = [role for path in observations.testbed.paths.values() for role in path.ends]
            for backend, why in facts.cannot.items():
                if not set(ends) & set(observed.roles):
                    continue
                if why:
                    other = "load the module sit there, or remove keys tunnel and isatap"
                    remedy = other if admin else as_root(observed.host)
                    yield self.wrong(host, f"backend {backend} cannot: {why}", remedy)
                elif not admin:
                    yield self.wrong(host, "its agent may not make tunnels", as_root(observed.host))
                else:
                    yield self.well(host, f"backend {backend} can carry them")
            for device, why in facts.existing.items():
                if why:
                    yield self.wrong(host, why, "make it, or correct the key in the inventory")
                else:
                    yield self.well(host, f"device {device} is there, with its address")

    def _of_lab(self, testbed: Testbed) -> Iterator[Finding]:
        if not testbed.paths:
            return
        name, why = lab_backend(testbed, "")
        if why:
            yield self.doubtful("", f"nothing can carry tunnels here: {why}", "measure natively, or as root")
        else:
            yield self.well("", f"carried by backend {name}")


check = Tunnels()
