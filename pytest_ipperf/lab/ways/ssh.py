"""Ssh: a host that the user's own ssh reaches, with the user's own configuration, keys and jump hosts.

Nothing is asked at the terminal (BatchMode).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_ipperf.lab.ways.base import Way

# Without ssh's own questions to its server, which would come in the midst of runs; `lab/pulse.py` asks in its place.
_OPTIONS = ("-oBatchMode=yes", "-oConnectTimeout=10", "-oServerAliveInterval=0", "-oLogLevel=ERROR")
# What may stand after `ssh` as a destination; in particular nothing that ssh would read as an option.
_DESTINATION = re.compile(r"[A-Za-z0-9_\[][A-Za-z0-9_.:@%\[\]-]*")
_PYTHON = re.compile(r"[A-Za-z0-9_/][A-Za-z0-9_./+-]*")
_CHECK = (
    'import sys; sys.exit(sys.version_info < (3, 10) and "Python " + sys.version.split()[0]'
    ' + " is too old; 3.10 is needed")'
)
_CONFIG = re.compile(r"[A-Za-z0-9_./~+-]+")


class Ssh(Way):
    """`ssh` is the destination, `python` the interpreter there (default `python3`), `ssh_config` a configuration."""

    keys = frozenset({"ssh", "python", "ssh_config"})
    leased_by_agent = True

    def trouble(self, settings: Mapping[str, str]) -> str:
        if "ssh" not in settings:
            return "key 'ssh' is missing; it is what you would type after `ssh`, such as user@host"
        for key, form, example in (
            ("ssh", _DESTINATION, "user@host"),
            ("python", _PYTHON, "/usr/bin/python3"),
            ("ssh_config", _CONFIG, "/etc/lab/ssh_config"),
        ):
            value = settings.get(key)
            if value is not None and not form.fullmatch(value):
                return f"{key} = {value!r} is not of a form such as {example}"
        return ""

    def machine(self, settings: Mapping[str, str]) -> str:
        return f"ssh {settings['ssh']}"

    def spec(self, settings: Mapping[str, str], entry: Sequence[str]) -> Mapping[str, str | bool]:
        del entry
        config = {"ssh_config": _config(settings)} if "ssh_config" in settings else {}
        return {"ssh": " ".join((*_OPTIONS, settings["ssh"])), "python": f"{_python(settings)} -I", **config}

    def command(self, settings: Mapping[str, str], entry: Sequence[str]) -> list[str]:
        del entry
        return self.asking(settings, _CHECK)

    def asking(self, settings: Mapping[str, str], code: str) -> list[str]:
        config = ["-F", _config(settings)] if "ssh_config" in settings else []
        return ["ssh", *config, *_OPTIONS, settings["ssh"], f"{_python(settings)} -I -c {shlex.quote(code)}"]


def _config(settings: Mapping[str, str]) -> str:
    return str(Path(settings["ssh_config"]).expanduser())  # which ssh leaves to the shell


def _python(settings: Mapping[str, str]) -> str:
    return settings.get("python", "python3")


way = Ssh()
