"""Leftovers: marks, private folders and undo logs of measurements that did not end in order."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_ipperf.agent.facts.leftovers import LeftoverFacts
from pytest_ipperf.lab.agents.shutdown import remedy
from pytest_ipperf.lab.doctor.checks.base import Check, Finding
from pytest_ipperf.lab.doctor.observations import HostObservation, ObservedTestbed

_HOLDS = {True: "still so", False: "no longer so", None: "check by hand"}


class Leftovers(Check):
    """Leftovers of earlier measurements; nothing is measured on a host with a mark."""

    topic = "left"
    rank = 3

    def findings(self, observations: ObservedTestbed) -> Iterator[Finding]:
        """Report leftovers, with the command that clears a mark of this testbed, also for a mark made just now."""
        clear = remedy(observations.testbed.name)
        for observed in observations.reached():
            if not observed.node:
                yield from self._of(observed, clear)
        for said in observations.leftovers:
            yield self.wrong("", f"this examination could not remove everything: {said}", clear)

    def _of(self, observed: HostObservation, clear: str) -> Iterator[Finding]:
        facts, name, bad = observed.fact(LeftoverFacts), observed.host.name, False
        for said in observed.repairs:
            yield self.well(name, said)
        if not facts:
            return
        for mark in facts.marks:
            for note in mark.notes:
                bad = True
                by = f"marked by user {mark.user}, so nothing is measured there"
                yield self.wrong(name, f"{note.said} ({_HOLDS[note.holds]}; {by})", clear)
        for folder in facts.folders:
            bad = True
            yield self.doubtful(
                name, f"{folder} is left and cannot be removed", "find out what uses it, then remove it"
            )
        for path in facts.undo_logs:
            bad = True
            said = f"the undo log {path} tells of changes that a rollback helper has not undone yet"
            yield self.doubtful(name, said, "it does so at the end of its measurement, or the next agent does")
        if not bad and not observed.repairs:
            yield self.well(name, "nothing")


check = Leftovers()
