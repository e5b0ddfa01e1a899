"""Base classes of checks and their findings: a sentence each and, unless all is well, a remedy."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from pytest_ipperf.lab.doctor.observations import HostObservation, ObservedTestbed
from pytest_ipperf.lab.inventory.model import Host


class Grade(enum.Enum):
    """Severity of a finding; doubtful ones allow measuring, wrong ones do not."""

    WELL = "well"
    DOUBTFUL = "doubtful"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding: `subject` is a host, a pair of hosts, or empty for the testbed; `remedy` says what to do."""

    grade: Grade
    subject: str
    topic: str
    said: str
    remedy: str = ""


class Check:
    """A check of each host (`of_host`), of the testbed as a whole (`of_testbed`), or of both."""

    topic: str
    """Topic of the findings, in a word or two."""
    rank: int = 50
    """Position among the checks, smallest first."""
    of_nodes: bool = False
    """True if nodes of a lab are checked too, which share everything but their network with this machine."""

    def findings(self, observations: ObservedTestbed) -> Iterator[Finding]:
        """Iterate over all findings."""
        for observed in observations.reached():
            if self.of_nodes or not observed.node:
                yield from self.of_host(observed)
        yield from self.of_testbed(observations)

    def of_host(self, observed: HostObservation) -> Iterator[Finding]:
        """Check one host that has an agent."""
        del observed
        return iter(())

    def of_testbed(self, observations: ObservedTestbed) -> Iterator[Finding]:
        """Check what lies between hosts."""
        del observations
        return iter(())

    def well(self, subject: str, said: str) -> Finding:
        """Make a finding that needs no action."""
        return Finding(grade=Grade.WELL, subject=subject, topic=self.topic, said=said)

    def doubtful(self, subject: str, said: str, remedy: str) -> Finding:
        """Make a finding that allows measuring but may affect the figures."""
        return Finding(grade=Grade.DOUBTFUL, subject=subject, topic=self.topic, said=said, remedy=remedy)

    def wrong(self, subject: str, said: str, remedy: str) -> Finding:
        """Make a finding that prevents measuring, wholly or in part."""
        return Finding(grade=Grade.WRONG, subject=subject, topic=self.topic, said=said, remedy=remedy)


def as_root(host: Host) -> str:
    """Return the remedy that gives the host's agent the rights of root."""
    if host.way == "ssh":
        return "sudo = yes, or another user in key ssh"
    return "run as root, or sudo = yes in hosts.ini"
