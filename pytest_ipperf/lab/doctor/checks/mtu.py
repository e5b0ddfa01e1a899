"""MTU: packets of the device's MTU must arrive unfragmented, and packets one byte larger must not."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_ipperf.lab.doctor.checks.base import Check, Finding
from pytest_ipperf.lab.doctor.observations import ObservedTestbed


class Mtu(Check):
    """Path MTU by the don't-fragment probe, in each direction."""

    topic = "MTU"
    rank = 65

    def of_testbed(self, found: ObservedTestbed) -> Iterator[Finding]:
        """Report one finding for each path, and one if the hosts' MTUs differ."""
        for way in found.reachability:
            if not way.fits:
                continue
            subject, fits = f"{way.here} -> {way.there}", min(way.fits)
            more = way.fits[max(way.fits)]
            if way.fits[fits] == "no answer":
                said = f"IPv{way.ipver}: packets of {fits} bytes are lost on the way, and nobody says so (a black hole)"
                yield self.wrong(subject, said, "give all agents of the way one MTU, or let ICMP through")
            elif way.fits[fits] == "too big":
                said = f"IPv{way.ipver}: packets of {fits} bytes are refused here"
                yield self.wrong(subject, said, "see what MTU the way has: ip route get, tracepath")
            elif more == "yes":
                said = f"IPv{way.ipver}: {fits + 1} bytes arrive unfragmented, more than the MTU"
                yield self.wrong(subject, said, "somebody on the way puts fragments together; take it out of the way")
            else:
                yield self.well(subject, f"IPv{way.ipver}: {fits} bytes arrive unfragmented, {fits + 1} are refused")
        yield from self._differing(found)

    def _differing(self, found: ObservedTestbed) -> Iterator[Finding]:
        sizes = {way.here: way.mtu for way in found.reachability if way.mtu}
        if len(set(sizes.values())) > 1:
            listed = ", ".join(f"{name} {mtu}" for name, mtu in sizes.items())
            yield self.doubtful("", f"the hosts' devices have different MTUs: {listed}", "give them one")


check = Mtu()
