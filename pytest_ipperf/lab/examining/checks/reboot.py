"""Reboot: whether the command of key `reboot` is there."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from pytest_ipperf.lab.examining.checks.base import Check, Finding
from pytest_ipperf.lab.examining.seen import Seen


class Reboot(Check):
    """It is not run."""

    topic = "reboot"
    rank = 56

    def of_host(self, seen: Seen) -> Iterator[Finding]:
        """Only where there is such a key."""
        if not seen.host.reboot:
            return
        program = shlex.split(seen.host.reboot)[0]
        found = seen.fact("servers").get("programs", {}).get(program)
        if found:
            yield self.well(seen.host.name, f"{found} is there")
        else:
            yield self.wrong(seen.host.name, f"key reboot: there is no program {program}", "correct the key")


check = Reboot()
