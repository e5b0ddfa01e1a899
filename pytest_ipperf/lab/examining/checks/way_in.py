"""The way in: whether an agent can be started, and how long that and an order take."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_ipperf.lab.examining.checks.base import Check, Finding
from pytest_ipperf.lab.examining.seen import Examined, Seen

_SLOW_S = 0.25
_REMEDIES = {
    "Permission denied (": "put your public key into authorized_keys there, or name the right user in key ssh",
    "Host key verification failed": "compare its host key, then accept it by plain ssh (ssh-keygen -R for an old one)",
    "Could not resolve": "correct the name in key ssh, or in your ssh configuration",
    "Connection refused": "start sshd there, or correct the port",
    "is too old": "install Python 3.10 or later there and name it in key python",
    "(exit status 127)": "install Python 3.10 or later there, or name it in key python",
    "sudo: ": "see to it that `sudo -n true` works there, or take sudo = yes away",
    "timed out": "see whether it is up, and whether a firewall drops what comes for ssh",
    "No route to host": "see whether it is up, and whether there is a route to it",
    "no answer in": "see whether it is up; plain ssh tells more",
}


class WayIn(Check):
    """Without it nothing else of a host is known."""

    topic = "way in"
    rank = 0

    def findings(self, found: Examined) -> Iterator[Finding]:
        """Of hosts without an agent too."""
        for seen in found.seen.values():
            name = seen.host.name
            if seen.trouble:
                remedy = next((each for said, each in _REMEDIES.items() if said in seen.trouble), "try it by hand")
                yield self.wrong(name, seen.trouble, remedy)
            elif not seen.node:
                yield from self._answering(seen)

    def _answering(self, seen: Seen) -> Iterator[Finding]:
        about = seen.fact("control")
        system = (
            f"Python {about.get('python', '?')}, Linux {about.get('kernel', '?')} {about.get('machine', '')}".strip()
        )
        said = f"{seen.host.way}, an agent in {seen.start_s:.1f} s, an order in {1000 * seen.order_s:.1f} ms"
        if seen.order_s > _SLOW_S:
            yield self.doubtful(
                seen.host.name, f"{said}; {system}", "each run takes many of them: look for a nearer way"
            )
        else:
            yield self.well(seen.host.name, f"{said}; {system}")


check = WayIn()
