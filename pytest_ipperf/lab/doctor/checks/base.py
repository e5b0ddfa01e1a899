"""What a check makes of what was seen: findings, each a sentence and, unless all is well, what to do."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from pytest_ipperf.lab.doctor.observations import HostObservation, ObservedTestbed
from pytest_ipperf.lab.inventory.model import Host


class Grade(enum.Enum):
    """How bad it is: measured can be with what is doubtful, and not with what is wrong."""

    WELL = "well"
    DOUBTFUL = "doubtful"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`subject` is a host's name, two of them, or empty for the testbed as a whole; `remedy` is what to do."""

    grade: Grade
    subject: str
    topic: str
    said: str
    remedy: str = ""


class Check:
    """A host is looked at by `of_host`, and the testbed as a whole by `of_testbed`; whichever there is to say."""

    topic: str
    """What its findings are about, in a word or two."""
    rank: int = 50
    """Its place among the others, the smallest first."""
    of_nodes: bool = False
    """Whether it looks at nodes too, which share all but their network with this machine."""

    def findings(self, found: ObservedTestbed) -> Iterator[Finding]:
        """All of its findings."""
        for observed in found.reached():
            if self.of_nodes or not observed.node:
                yield from self.of_host(observed)
        yield from self.of_testbed(found)

    def of_host(self, observed: HostObservation) -> Iterator[Finding]:
        """Of one host that has an agent."""
        del observed
        return iter(())

    def of_testbed(self, found: ObservedTestbed) -> Iterator[Finding]:
        """Of what is between hosts."""
        del found
        return iter(())

    def well(self, subject: str, said: str) -> Finding:
        """Nothing to do."""
        return Finding(grade=Grade.WELL, subject=subject, topic=self.topic, said=said)

    def doubtful(self, subject: str, said: str, remedy: str) -> Finding:
        """It can be measured so, and may show in the figures."""
        return Finding(grade=Grade.DOUBTFUL, subject=subject, topic=self.topic, said=said, remedy=remedy)

    def wrong(self, subject: str, said: str, remedy: str) -> Finding:
        """It cannot be measured so, or not all of it."""
        return Finding(grade=Grade.WRONG, subject=subject, topic=self.topic, said=said, remedy=remedy)


def as_root(host: Host) -> str:
    """How its agent becomes root's, as a remedy."""
    if host.way == "ssh":
        return "sudo = yes, or another user in key ssh"
    return "run as root, or sudo = yes in hosts.ini"
