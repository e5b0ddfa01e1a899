"""Reboot: whether the programs of key `reboot` exist, including the one that sudo is to run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath

from pytest_ipperf.agent.facts.rights import RightsFacts
from pytest_ipperf.agent.facts.servers import ServerFacts
from pytest_ipperf.lab.doctor.checks.base import Check, Finding
from pytest_ipperf.lab.doctor.observations import HostObservation

_VALUED = re.compile(
    r"-[A-Za-z]*[CDRTUghprtu]|"
    r"--(close-from|chdir|chroot|command-timeout|other-user|group|host|prompt|role|type|user)"
)
"""Options of sudo(8) whose value is the next word."""


class Reboot(Check):
    """Programs of key `reboot`, which are looked up and not run."""

    topic = "reboot"
    rank = 56

    def of_host(self, observed: HostObservation) -> Iterator[Finding]:
        """Check a host that has the key."""
        servers, rights, name = observed.fact(ServerFacts), observed.fact(RightsFacts), observed.host.name
        if not observed.host.reboot or not servers:
            return
        installed = servers.programs
        for place, program in enumerate(wanted := programs(observed.host.reboot)):
            if installed.get(program):
                continue
            if place and "/" in program and not (rights and rights.root):
                said = f"key reboot: this user can see no program {program}, but sudo may find one"
                yield self.doubtful(name, said, f"try it there: sudo -n -l {shlex.quote(program)}")
            else:
                yield self.wrong(name, f"key reboot: there is no program {program}", "correct the key")
            return
        yield self.well(
            name, f"{' and '.join(installed[each] for each in wanted)} {'are' if wanted[1:] else 'is'} there"
        )


def programs(command: str) -> list[str]:
    """Return the programs that a command needs: its first word, and the program that sudo is to run."""
    first, *words = shlex.split(command) or [""]
    if PurePosixPath(first).name != "sudo":
        return [first] if first else []
    while words and (words[0].startswith("-") or "=" in words[0]):
        option = words.pop(0)
        if option == "--":
            break
        if _VALUED.fullmatch(option):
            del words[:1]
    return [first, *words[:1]]


check = Reboot()
