"""Access: whether an agent can be started, and how long that and a call take."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from pytest_ipperf.agent.facts.control import ControlFacts
from pytest_ipperf.lab.access import ACCESS_METHODS
from pytest_ipperf.lab.doctor.checks.base import Check, Finding
from pytest_ipperf.lab.doctor.observations import HostObservation, ObservedTestbed
from pytest_ipperf.lab.inventory.model import Host

_SLOW_S = 0.25
_OF_SSH = "255"
_REMEDIES = {
    r"\(exit status 126\)": "{user} may not run it: correct key python, or its rights there",
    r"\bsudo: (command )?not found": "install sudo there, or remove sudo = yes",
    r"^sudo: .*: command not found": "install Python 3.10 or later there, or correct key python",
    r"\(exit status 127\)": "install Python 3.10 or later there, or name it in key python",
    r"is too old": "install Python 3.10 or later there and name it in key python",
    r"must be a Python": "correct key python; see what it is: {python}",
    r"^sudo: ": "make `sudo -n true` work there, or remove sudo = yes",
    r"Permission denied \(": "put your public key into authorized_keys there, or name the right user in key ssh",
    r"Host key for \S+ has changed": "find out why; if it was set up anew, forget the old key (ssh-keygen -R), and "
    "accept the new one by plain ssh: {plain}",
    r"Host key verification failed": "compare its host key, then accept it by plain ssh: {plain}",
    r"Could not resolve": "correct the name in key ssh, or in your ssh configuration",
    r"Connection refused": "start sshd there, or correct the port",
    r"Can't open user config file": "correct key ssh_config",
    r"(?i)bad (configuration option|owner or permissions)": "correct your ssh configuration, or key ssh_config",
    r"timed out": "see whether it is up, and whether a firewall drops ssh: {plain}",
    r"No route to host": "see whether it is up, and whether there is a route to it: {plain}",
    r"Network is unreachable": "give this machine a route to it, or correct key ssh or ssh_config: {plain}",
    r"no answer in": "see whether it is up, and try plain ssh: {plain}",
}
"""Remedies by a pattern of the error; `plain` and `python` are commands for the user to type."""


class WayIn(Check):
    """Access is checked first, as nothing else of a host can be checked without it."""

    topic = "access"
    rank = 0

    def findings(self, observations: ObservedTestbed) -> Iterator[Finding]:
        """Check every host, including those without an agent."""
        for observed in observations.hosts.values():
            if observed.trouble:
                yield self.wrong(observed.host.name, *_error_and_remedy(observed))
                continue
            if not observed.node:
                yield from self._answering(observed)
            for name, why in observed.facts.troubles.items():
                said = f"its {name} could not be examined: {why}"
                yield self.doubtful(observed.host.name, said, "correct that, and run the doctor again")

    def _answering(self, observed: HostObservation) -> Iterator[Finding]:
        about = observed.fact(ControlFacts)
        system = f"Python {about.python}, Linux {about.kernel} {about.machine}" if about else "Python ?, Linux ?"
        said = f"{observed.host.way}, an agent in {observed.start_s:.1f} s, a call in {1000 * observed.call_s:.1f} ms"
        if observed.call_s > _SLOW_S:
            yield self.doubtful(
                observed.host.name, f"{said}; {system}", "each run takes many of them: use a faster connection"
            )
        else:
            yield self.well(observed.host.name, f"{said}; {system}")


def _error_and_remedy(observed: HostObservation) -> tuple[str, str]:
    """Return the error and its remedy."""
    said, semicolon, remedy = observed.trouble.partition("; ")
    if semicolon and said.startswith("sudo: "):
        return said, remedy  # the way knows it already
    if observed.host.way != "ssh":
        by_hand = "try it by hand"
        words = {"plain": by_hand, "python": by_hand, "user": "its user"}
    else:
        words = {
            "plain": _ssh_line(observed.host, "true"),
            "python": _ssh_line(observed.host, _python(observed.host), "--version"),
        }
        words["user"] = _user(observed.host)
        status = re.search(r"\(exit status (\d+)\)", observed.trouble)
        by_hand = f"try it by hand: {words['plain']}"
        if status and status[1] != _OF_SSH:
            by_hand = f"correct key python, if that is no Python: {words['python']}"
    remedy = next((each for form, each in _REMEDIES.items() if re.search(form, observed.trouble)), "")
    return observed.trouble, remedy.format(**words) if remedy else by_hand


def _ssh_line(host: Host, *words: str) -> str:
    """Return the command line that runs these words there by ssh."""
    *before, _ = ACCESS_METHODS[host.way].command(host.settings, ())
    return " ".join((shlex.join(word for word in before if not word.startswith("-o")), *words))


def _python(host: Host) -> str:
    return host.settings.get("python", "python3")


def _user(host: Host) -> str:
    name = host.settings["ssh"].removeprefix("ssh://").rpartition("@")[0]
    return f"user {name}" if name else "its user"


check = WayIn()
