"""MTU: packets of the device's MTU must arrive unfragmented, and packets one byte larger must not."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_ipperf.lab.doctor.checks.base import Check, Finding
from pytest_ipperf.lab.doctor.observations import ObservedTestbed


class Mtu(Check):
    """Path MTU by the don't-fragment probe, in each direction."""

    topic = "MTU"
    rank = 65

    def of_testbed(self, observations: ObservedTestbed) -> Iterator[Finding]:
        """Report one finding for each path, and one if the hosts' MTUs differ."""
        for path in observations.reachability:
            if not path.fits:
                continue
            subject, fits = f"{path.here} -> {path.there}", min(path.fits)
            more = path.fits[max(path.fits)]
            if path.fits[fits] == "no answer":
                said = f"IPv{path.ipver}: packets of {fits} bytes are lost on the path without an error (a black hole)"
                yield self.wrong(subject, said, "give all hosts on the path the same MTU, or let ICMP through")
            elif path.fits[fits] == "too big":
                said = f"IPv{path.ipver}: packets of {fits} bytes are refused here"
                yield self.wrong(subject, said, "find the MTU of the path: ip route get, tracepath")
            elif more == "yes":
                said = f"IPv{path.ipver}: {fits + 1} bytes arrive unfragmented, more than the MTU"
                yield self.wrong(subject, said, "a device on the path reassembles fragments; remove it from the path")
            else:
                yield self.well(subject, f"IPv{path.ipver}: {fits} bytes arrive unfragmented, {fits + 1} are refused")
        yield from self._differing(observations)

    def _differing(self, observations: ObservedTestbed) -> Iterator[Finding]:
        sizes = {path.here: path.mtu for path in observations.reachability if path.mtu}
        if len(set(sizes.values())) > 1:
            listed = ", ".join(f"{name} {mtu}" for name, mtu in sizes.items())
            yield self.doubtful("", f"the hosts' devices have different MTUs: {listed}", "give them one")


check = Mtu()
