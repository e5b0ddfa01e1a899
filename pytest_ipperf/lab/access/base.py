"""Base class of access methods: how to start a Python on a host, and how to find out why that fails."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

SUDO = ("sudo", "-n", "--")
"""Command prefix that starts a Python as root; with `-n` sudo fails instead of asking for a password."""

_PATIENCE_S = 15.0
_NO_PASSWORD = "; give the user there a rule with NOPASSWD (sudoers), or remove sudo = yes"  # noqa: S105 - none is


class AccessMethod(ABC):
    """A way to start a Python on a host.

    `settings` are the host's keys of `hosts.ini` that this method knows (`keys`). `entry` is a command prefix for the
    Python there: it enters the host's namespaces or makes it root.
    """

    keys: frozenset[str] = frozenset()
    in_inventory: bool = True
    """False if `hosts.ini` may not name it, as for the built-in lab's own method."""
    far: bool = False
    """True if it leads to another machine, which keeps its own leases and caches and is reached over a network."""

    def trouble(self, settings: Mapping[str, str]) -> str:
        """Return the error in the settings, as the end of a sentence; empty if there is none."""
        del settings
        return ""

    def machine(self, settings: Mapping[str, str]) -> str:
        """Name the machine behind the settings, on which two measurements must not run at once."""
        del settings
        return "this machine"

    @abstractmethod
    def spec(self, settings: Mapping[str, str], entry: Sequence[str]) -> Mapping[str, str | bool]:
        """Return the attributes of an execnet specification.

        They are not in execnet's text form, which `//` separates: a directory in PATH may contain that.
        """

    @abstractmethod
    def command(self, settings: Mapping[str, str], entry: Sequence[str]) -> list[str]:
        """Return a short command that does what the gateway needs, so that its output says why the gateway failed."""

    def diagnosis(self, settings: Mapping[str, str], entry: Sequence[str]) -> str:
        """Return the error message of the plain command; empty if it works."""
        return self._error_of(self.command(settings, entry))

    def _error_of(self, command: Sequence[str]) -> str:
        """Return the last error message of a command; empty if it succeeded."""
        try:
            process = subprocess.Popen(
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
        with process:
            try:
                stdout, stderr = process.communicate(timeout=_PATIENCE_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return f"no answer in {_PATIENCE_S:g} s"
        lines = (stderr or stdout).strip().splitlines()
        error_text = f"{self._reason_line(lines) if lines else 'no message'} (exit status {process.returncode})"
        if error_text.startswith("sudo: ") and "password" in error_text:
            error_text += _NO_PASSWORD
        return error_text if process.returncode else ""

    def _reason_line(self, lines: Sequence[str]) -> str:
        """Return the line that gives the reason, which is the last one of most programs."""
        return lines[-1]


class RemoteAccessMethod(AccessMethod):
    """An access method that leads to another machine."""

    far = True

    @abstractmethod
    def asking(self, settings: Mapping[str, str], entry: Sequence[str], code: str) -> list[str]:
        """Return a command that runs Python code there."""

    @abstractmethod
    def knock(self, settings: Mapping[str, str], entry: Sequence[str]) -> str:
        """Return the same as `diagnosis` with a short time-out, for a host that may not be up again yet."""


def quoted(argv: Sequence[str]) -> str:
    """Join a command so that execnet splits it into the same words."""
    return " ".join(map(shlex.quote, argv))
