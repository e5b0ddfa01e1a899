"""The testbed itself: its arms, and what it shares with others."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.lab.doctor.checks.base import Check, Finding
from pytest_ipperf.lab.doctor.observations import ObservedTestbed
from pytest_ipperf.lab.tunnels.backend_choice import lab_backend
from pytest_ipperf.transports import TRANSPORTS


class TheTestbed(Check):
    """Arms and conflicts of the testbed, from the inventory and the backends of a lab's tunnels."""

    topic = "testbed"
    rank = 90

    def of_testbed(self, observations: ObservedTestbed) -> Iterator[Finding]:
        """Report the arms that it can have, and testbeds that are never measured at the same time."""
        testbed = observations.testbed
        arms = sorted(
            (Arm(ipver, name) for name in TRANSPORTS for ipver in (4, 6) if ipver == 6 or name == "native"),
            key=lambda arm: TRANSPORTS[arm.transport].rank,
        )
        # The check `tunnels` says why no backend can carry a lab's tunnels.
        without = set(testbed.paths) if testbed.is_lab and testbed.paths and lab_backend(testbed, "")[1] else set()
        has = [str(arm) for arm in arms if not testbed.lacks(arm) and arm.transport not in without]
        if len(has) > 1:
            yield self.well("", f"arms {', '.join(has)}")
        else:
            why = next(filter(None, map(testbed.lacks, arms)))
            yield self.wrong("", f"nothing to compare: {why}", "give its hosts addresses of both IP versions")
        for name, shared in observations.others.items():
            yield self.well("", f"never measured while {name} is: both have {shared}")


check = TheTestbed()
