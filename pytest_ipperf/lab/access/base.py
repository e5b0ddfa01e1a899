"""Base class of access methods: how to start a Python on a host, and why that may not work."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

SUDO = ("sudo", "-n", "--")
"""The words before a Python that is to be root's; sudo asks for nothing, or says that it would have to."""

_PATIENCE_S = 15.0
_NO_PASSWORD = "; give the user there a rule with NOPASSWD (sudoers), or take sudo = yes away"  # noqa: S105 - none is


class AccessMethod(ABC):
    """`settings` are the host's keys of `hosts.ini` that this way knows (`keys`).

    `entry` are words that stand before the Python there: what enters the host's namespaces, and what makes it root's.
    """

    keys: frozenset[str] = frozenset()
    in_inventory: bool = True
    """Whether `hosts.ini` may name it; the built-in lab's way is its own."""
    far: bool = False
    """Whether it leads to another machine: what the host leases and keeps is there, and words to it go by a network."""

    def trouble(self, settings: Mapping[str, str]) -> str:
        """What is wrong with the settings, as the end of a sentence; empty when nothing."""
        del settings
        return ""

    def machine(self, settings: Mapping[str, str]) -> str:
        """The machine behind the way, for the rule that nothing is measured on one twice at once."""
        del settings
        return "this machine"

    @abstractmethod
    def spec(self, settings: Mapping[str, str], entry: Sequence[str]) -> Mapping[str, str | bool]:
        """The attributes of an execnet specification.

        Not its text, in which `//` separates: a folder of the PATH may hold one.
        """

    @abstractmethod
    def command(self, settings: Mapping[str, str], entry: Sequence[str]) -> list[str]:
        """A short command that does what the gateway needs, to learn in the host's own words why it failed."""

    def diagnosis(self, settings: Mapping[str, str], entry: Sequence[str]) -> str:
        """What the host says when asked plainly; empty when the plain command works."""
        return self._said(self.command(settings, entry))

    def _said(self, command: Sequence[str]) -> str:
        """Why a command failed, in its own words; empty when it did not."""
        try:
            asked = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,  # so that all of it can be ended
            )
        except OSError as error:
            return str(error)
        with asked:
            try:
                printed, complained = asked.communicate(timeout=_PATIENCE_S)
            except subprocess.TimeoutExpired:
                os.killpg(asked.pid, signal.SIGKILL)
                return f"no answer in {_PATIENCE_S:g} s"
        lines = (complained or printed).strip().splitlines()
        said = f"{self._gist(lines) if lines else 'no message'} (exit status {asked.returncode})"
        if said.startswith("sudo: ") and "password" in said:
            said += _NO_PASSWORD
        return said if asked.returncode else ""

    def _gist(self, lines: Sequence[str]) -> str:
        """The line that says why, which is the last of most programs."""
        return lines[-1]


class RemoteAccessMethod(AccessMethod):
    """One that leads to another machine."""

    far = True

    @abstractmethod
    def asking(self, settings: Mapping[str, str], entry: Sequence[str], code: str) -> list[str]:
        """A command that runs Python code there."""

    @abstractmethod
    def knock(self, settings: Mapping[str, str], entry: Sequence[str]) -> str:
        """As `diagnosis`, with little patience: what is asked first of a host that was away a moment ago."""


def quoted(argv: Sequence[str]) -> str:
    """A command as execnet splits it again."""
    return " ".join(map(shlex.quote, argv))
