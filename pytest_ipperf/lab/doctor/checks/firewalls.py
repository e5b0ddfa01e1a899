"""Firewalls: whether a port of the servers' range can be reached from the other end by TCP and UDP."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_ipperf.lab.doctor.checks.base import Check, Finding
from pytest_ipperf.lab.doctor.observations import ObservedTestbed, Reachability


class Firewalls(Check):
    """Reachability of ports between server and clients, in each direction."""

    topic = "reach"
    rank = 60

    def of_testbed(self, observations: ObservedTestbed) -> Iterator[Finding]:
        """Report one finding for each path."""
        for path in observations.reachability:
            subject = f"{path.here} -> {path.there}"
            low_high = "-".join(map(str, observations.hosts[path.there].host.ports))
            if path.trouble:
                yield self.wrong(subject, f"IPv{path.ipver}: {path.trouble}", "correct that before anything else")
            elif said := _blocked_text(path):
                remedy = f"open {low_high} of {path.there} to {path.here}, for TCP and UDP, in firewalls on the path"
                yield self.wrong(subject, f"IPv{path.ipver}: {said} from a port of {low_high}", remedy)
            else:
                yield self.well(subject, f"IPv{path.ipver}: a port of {low_high} answers by TCP and UDP")
        if busy := next((each for each in observations.hosts.values() if each.busy_with), None):
            remedy = "run the doctor again later: its probes would disturb it"
            yield self.doubtful("", f"the paths were not probed, as somebody is measuring on {busy.host.name}", remedy)


def _blocked_text(path: Reachability) -> str:
    blocked = [f"{said} by {name}" for name, said in (("TCP", path.tcp), ("UDP", path.udp)) if said]
    return " and ".join(blocked)


check = Firewalls()
