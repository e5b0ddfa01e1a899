"""Leftovers: marks, private folders and journals of measurements that did not end in order."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_ipperf.lab.agents.shutdown import remedy
from pytest_ipperf.lab.doctor.checks.base import Check, Finding
from pytest_ipperf.lab.doctor.observations import HostObservation, ObservedTestbed

_HOLDS = {True: "still so", False: "no longer so", None: "a person has to look"}


class Leftovers(Check):
    """Nothing is measured on a host with a mark."""

    topic = "left"
    rank = 3

    def findings(self, found: ObservedTestbed) -> Iterator[Finding]:
        """With the words that clear a mark of this testbed, also of what is marked only now."""
        clear = remedy(found.testbed.name)
        for seen in found.hosts():
            if not seen.node:
                yield from self._of(seen, clear)
        for said in found.staying:
            yield self.wrong("", f"this examination could not remove everything: {said}", clear)

    def _of(self, seen: HostObservation, clear: str) -> Iterator[Finding]:
        told, name, bad = seen.fact("leftovers"), seen.host.name, False
        for said in seen.done:
            yield self.well(name, said)
        for mark in told.get("marks", ()):
            for note in mark["notes"]:
                bad = True
                by = f"marked by user {mark['user']}, so nothing is measured there"
                yield self.wrong(name, f"{note['said']} ({_HOLDS[note['holds']]}; {by})", clear)
        for folder in told.get("folders", ()):
            bad = True
            yield self.doubtful(name, f"{folder} is left and cannot be removed", "look who has it busy, then remove it")
        for journal in told.get("journals", ()):
            bad = True
            said = f"the journal {journal} tells of changes that a guardian has not undone yet"
            yield self.doubtful(name, said, "it does so at the end of its measurement, or the next agent does")
        if told and not bad and not seen.done:
            yield self.well(name, "nothing")


check = Leftovers()
