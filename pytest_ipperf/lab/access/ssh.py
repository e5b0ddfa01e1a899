"""Ssh: a host reached by the user's own ssh, with the user's configuration, keys and jump hosts.

BatchMode prevents all questions at the terminal.
"""

from __future__ import annotations

import contextlib
import glob
import os
import pwd
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from pytest_ipperf.lab.access.base import RemoteAccessMethod, quoted

# ssh's own keep-alive messages would fall into runs, so they are off; the heartbeat replaces them.
_OPTIONS = ("-oBatchMode=yes", "-oConnectTimeout=10", "-oServerAliveInterval=0")
# The diagnosis quotes ssh's messages; the agent's connection is silent, as its messages would interrupt our output.
_LOG_ERRORS, _LOG_NOTHING = "-oLogLevel=ERROR", "-oLogLevel=QUIET"
_BRIEF = "-oConnectTimeout=4"
# Valid destinations after `ssh`; in particular nothing that ssh would read as an option.
_USER = r"(?:[A-Za-z0-9_][A-Za-z0-9_.:@%+-]*@)?"
_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
_IPV6 = r"[0-9A-Fa-f:.]+(?:%[A-Za-z0-9_.-]+)?"
_DESTINATION = re.compile(rf"{_USER}(?:{_NAME}|{_IPV6}|\[{_IPV6}\])")
_URI = re.compile(rf"ssh://({_USER}(?:{_NAME}|\[{_IPV6}\]))(?::(\d{{1,5}}))?/?", re.ASCII)
_PORTED = re.compile(rf"({_USER}(?:{_NAME}|\[{_IPV6}\])):\d{{1,5}}", re.ASCII)
_PYTHON = re.compile(r"[A-Za-z0-9_/][A-Za-z0-9_./+-]*")
_CHECK = (
    'import sys; sys.exit(sys.version_info < (3, 10) and "Python " + sys.version.split()[0]'
    ' + " is too old; 3.10 is needed")'
)
# For a changed host key the last line says no more than for an unknown host.
_CHANGED_KEY = re.compile(r"Host key for \S+ has changed\b")
_PORT = 22
_ANY = "ipperf.invalid"
# Keywords of ssh_config(5) that lead a name elsewhere, or make that conditional.
_REDIRECTING = re.compile(
    r"^\s*(?:hostname|port|proxyjump|proxycommand|match|canonical\w*)\b", re.IGNORECASE | re.MULTILINE
)
_INCLUDE = re.compile(r"^\s*include[\s=]+(.+)$", re.IGNORECASE | re.MULTILINE)
_DEEPEST = 16  # ssh's own limit of nested includes
_CONFIG = re.compile(r"[A-Za-z0-9_./~][A-Za-z0-9_./~+-]*")


class Ssh(RemoteAccessMethod):
    """Access by ssh.

    `ssh` is the destination, `python` the interpreter there (default `python3`), `ssh_config` a configuration file.
    """

    keys = frozenset({"ssh", "python", "ssh_config"})

    def trouble(self, settings: Mapping[str, str]) -> str:
        if "ssh" not in settings:
            return "key 'ssh' is missing; it is what you would type after `ssh`, such as user@host"
        if _PORTED.fullmatch(settings["ssh"]):
            return f"ssh = {settings['ssh']!r} has a port, which only a URI can have; write ssh://{settings['ssh']}"
        if settings.get("python", "").startswith("~"):  # the remote shell does not expand a quoted ~
            return f"python = {settings['python']!r} begins with ~, which is not expanded; give the full path"
        for key, forms, example in (
            ("ssh", (_DESTINATION, _URI), "user@host"),
            ("python", (_PYTHON,), "/usr/bin/python3"),
            ("ssh_config", (_CONFIG,), "/etc/lab/ssh_config"),
        ):
            value = settings.get(key)
            if value is not None and not any(form.fullmatch(value) for form in forms):
                return f"{key} = {value!r} is not of a form such as {example}"
        try:
            _config(settings)
        except RuntimeError:  # raised by expanduser for `~name/`
            return f"ssh_config = {settings['ssh_config']!r} is in the home of a user who does not exist here"
        return ""

    def machine(self, settings: Mapping[str, str]) -> str:
        """Name the machine to which ssh's configuration leads, as it may have several names for one machine."""
        return _endpoint(settings["ssh"], _config(settings))

    def spec(self, settings: Mapping[str, str], entry: Sequence[str]) -> Mapping[str, str | bool]:
        config = {"ssh_config": path} if (path := _config(settings)) else {}
        words = " ".join((*_OPTIONS, _LOG_NOTHING, *_target(settings["ssh"])))
        return {"ssh": words, "python": _python(settings, entry), **config}

    def command(self, settings: Mapping[str, str], entry: Sequence[str]) -> list[str]:
        return self.asking(settings, entry, _CHECK)

    def diagnosis(self, settings: Mapping[str, str], entry: Sequence[str]) -> str:
        """Return the error without our check code, which a program that is no Python repeats as a file name."""
        return super().diagnosis(settings, entry).replace(_CHECK, "...")

    def knock(self, settings: Mapping[str, str], entry: Sequence[str]) -> str:
        ssh, *others = self.command(settings, entry)
        return self._error_of([ssh, _BRIEF, *others]).replace(
            _CHECK, "..."
        )  # ssh uses the first of two ConnectTimeout options

    def _reason_line(self, lines: Sequence[str]) -> str:
        return next(filter(_CHANGED_KEY.match, lines), lines[-1])

    def asking(self, settings: Mapping[str, str], entry: Sequence[str], code: str) -> list[str]:
        remote_command = f"{_python(settings, entry)} -c {shlex.quote(code)}"
        return [
            "ssh",
            *_config_options(_config(settings)),
            *_OPTIONS,
            _LOG_ERRORS,
            *_target(settings["ssh"]),
            remote_command,
        ]


def _target(destination: str) -> list[str]:
    """Return the arguments for a destination; ssh accepts a literal IPv6 address only without brackets."""
    uri = _URI.fullmatch(destination)
    port = ["-p", uri[2]] if uri and uri[2] else []
    user, at, host = (uri[1] if uri else destination).rpartition("@")
    return [*port, f"{user}{at}{host.removeprefix('[').removesuffix(']')}"]


@cache
def _endpoint(destination: str, config: str) -> str:
    """Return host, port and proxies to which ssh's configuration leads; the destination itself if ssh does not say.

    Ssh is asked only if its configuration may lead elsewhere, because asking for ten thousand hosts would take minutes.
    """
    *option, who = _target(destination)
    port = int(option[1]) if option else _PORT
    if 0 < port < 65536 and shutil.which("ssh") and not _redirects(config):
        return f"ssh {who.rpartition('@')[2].lower()} port {port}"
    options = _ssh_options(destination, config)
    if "hostname" not in options:
        return f"ssh {destination}"
    by = "".join(f" by {options[key]}" for key in ("proxyjump", "proxycommand") if options.get(key, "none") != "none")
    return f"ssh {options['hostname'].lower()} port {options.get('port', _PORT)}{by}"


def _ssh_options(destination: str, config: str) -> dict[str, str]:
    """Return the options that ssh derives for a destination, by keyword; empty if ssh fails."""
    command = ["ssh", "-G", *_config_options(config), *_OPTIONS, *_target(destination)]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=10, check=False
        )
        return dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    return {}


@cache
def _redirects(config: str) -> bool:
    """Return whether ssh's configuration (that file, or the user's and the system's) may lead a name elsewhere."""
    home, system = Path(pwd.getpwuid(os.geteuid()).pw_dir, ".ssh"), Path("/etc/ssh")
    # Relative includes of a user's file are looked up in ~/.ssh, wherever that file is (ssh_config(5)).
    files = [(Path(config), home)] if config else [(home / "config", home), (system / "ssh_config", system)]
    if any(_has_redirect(path, folder) for path, folder in files if config or path.exists()):
        return True
    options = _ssh_options(_ANY, config)  # empty if ssh cannot read its configuration
    return (options.get("hostname"), options.get("port")) != (_ANY, str(_PORT))


def _has_redirect(path: Path, folder: Path, depth: int = 0) -> bool:
    """Return whether a file of ssh_config(5), or one that it includes, has such a keyword or cannot be read."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
        included = [word for line in _INCLUDE.findall(text) for word in shlex.split(line)]
    except (OSError, ValueError):
        return True
    if _REDIRECTING.search(text) or depth > _DEEPEST:
        return True
    patterns = (str(folder / Path(word).expanduser()) for word in included)
    files = (each for pattern in patterns for each in glob.glob(pattern))  # noqa: PTH207 - it may be an absolute one
    return any(_has_redirect(Path(each), folder, depth + 1) for each in files)


def _config_options(config: str) -> list[str]:
    return ["-F", config] if config else []


def _config(settings: Mapping[str, str]) -> str:
    """Return the file that replaces the user's own configuration; empty if there is none."""
    given = settings.get("ssh_config", "")
    return str(Path(given).expanduser()) if given else ""  # ssh leaves ~ to the shell


def _python(settings: Mapping[str, str], entry: Sequence[str]) -> str:
    """Return the command of the interpreter there, quoted for its shell."""
    return f"{quoted([*entry, settings.get('python', 'python3')])} -I"


access_method = Ssh()
