"""Small machines of which a farm is built: namespaces, private folders, Pythons without packages, keys."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

ADMIN, CLERK = "admin", "clerk"
"""Users of every host beside root: one who needs no password for sudo, and one who needs one."""

_PATIENCE_S, _KILLED_S = 10.0, 60.0
_SEARCHED = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
_NAMESPACES = ("--mount", "--pid", "--net", "--uts")
_UNSHARE = ("unshare", *_NAMESPACES, "--fork", "--kill-child", "--mount-proc")
_COMMON = """
hostname "$1"
mount -t tmpfs -o mode=755 farm /run
mkdir -m 755 /run/sshd /run/lock
for name in "$2"/etc/*; do if [ -e "$name" ]; then mount --bind "$name" "/etc/${name##*/}"; fi; done
"""
HOST = f"""{_COMMON}
mount --bind "$2/tmp" /tmp
echo up
read -r go
"$3" -D -E "$2/sshd.log" -f "$2/sshd_config" </dev/null >/dev/null 2>&1 &
cat
"""
"""Script of a host: name, folder and sshd are its arguments. The shell reaps orphans; the host outlives its sshd."""
OTHER = f"""{_COMMON}
echo up
read -r go
cat
"""
"""Script of a machine that is not a host: name and folder are its arguments."""
SSHD_CONFIG = """
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile none
# The default takes 50 ms of processor time.
KexAlgorithms curve25519-sha256
UsePAM no
StrictModes no
PasswordAuthentication no
PermitRootLogin prohibit-password
"""
"""Configuration of an sshd whose keys are all in one folder."""
_SUDOERS = f"""
Defaults env_reset, use_pty
Defaults secure_path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
root ALL=(ALL:ALL) ALL
{ADMIN} ALL=(ALL:ALL) NOPASSWD: ALL
{CLERK} ALL=(ALL:ALL) ALL
"""
TOLD = """
import json, sys
sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
from pytest_ipperf.agent.packages.installed import interpreter
print(json.dumps(interpreter()))
"""
"""Code by which an interpreter reports on itself as that of a host does; the project's folder is its argument."""
_ASKED = "import os, sys; print(*sys.version_info[:3], os.path.realpath(sys._base_executable))"


class Machine:
    """Namespaces that live as long as this process holds their pipe; the words of `before` precede their command."""

    def __init__(self, script: str, name: str, folder: Path, *arguments: str, before: Sequence[str] = ()) -> None:
        self.name = name
        self._holder = subprocess.Popen(
            [*before, *_UNSHARE, "sh", "-e", "-c", script, "sh", name, str(folder), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=_environment(),
            start_new_session=True,
        )
        self._depth = 2 if before else 1
        self.pid = 0

    @property
    def entry(self) -> list[str]:
        """Return the words that precede a command to run it there."""
        return ["nsenter", "--target", str(self.pid), *_NAMESPACES]

    def wait_up(self) -> None:
        """Wait until its mounts exist; then `pid` is its first process, as seen here."""
        assert self._holder.stdout
        assert self._holder.stderr
        if self._holder.stdout.readline() != "up\n":
            raise AssertionError(f"{self.name} does not come up: {self._holder.stderr.read()}")
        self.pid = self._holder.pid
        for _ in range(self._depth):
            (self.pid,) = children(self.pid)

    def go(self) -> None:
        """Let the script continue once the network is up; wait for its last process, which sends back what it reads."""
        assert self._holder.stdin
        assert self._holder.stdout
        assert self._holder.stderr
        self._holder.stdin.write("go\nlast\n")
        self._holder.stdin.flush()
        if self._holder.stdout.readline() != "last\n":
            raise AssertionError(f"{self.name} has ended: {self._holder.stderr.read()}")

    def network(self, script: str) -> None:
        """Run a script of sh in its network, in which processes have the same numbers as here."""
        said(["nsenter", "--target", str(self.pid), "--net", "sh", "-e"], script)

    def close(self) -> None:
        """End it with everything that runs there."""
        assert self._holder.stdin
        assert self._holder.stdout
        assert self._holder.stderr
        with contextlib.suppress(BrokenPipeError):
            self._holder.stdin.close()
        try:
            self._holder.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:  # even if something there is stopped, the end of the first process kills all
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid or self._holder.pid, 9)
            self._holder.wait(_KILLED_S)
        self._holder.stdout.close()
        self._holder.stderr.close()


def _environment() -> dict[str, str]:
    return {**os.environ, "PATH": _SEARCHED}


def said(argv: Sequence[str], text: str = "") -> str:
    """Return the output of a command; raise AssertionError with its output if it fails."""
    done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=60, env=_environment(), check=False)
    assert done.returncode == 0, f"{' '.join(argv)}: {done.stderr} (exit status {done.returncode})"
    return done.stdout


def children(pid: int) -> list[int]:
    """Return the running child processes of a process, as seen here."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def sshd_program() -> str:
    """Return the path of sshd; empty if it is not installed."""
    return shutil.which("sshd", path=_SEARCHED) or ""


@cache
def bare_pythons() -> list[tuple[tuple[int, ...], str]]:
    """Return the interpreters of this machine from 3.10 on, by version."""
    named = [shutil.which(f"python3.{minor}") for minor in range(10, 15)]
    pyenv = sorted(map(str, Path.home().glob(".pyenv/versions/3.*/bin/python3")))
    found: dict[str, tuple[int, ...]] = {}
    for path in filter(None, ("/usr/bin/python3", *named, *pyenv, sys.executable)):
        with contextlib.suppress(OSError, ValueError):
            asked = subprocess.run([path, "-I", "-S", "-c", _ASKED], capture_output=True, text=True, check=False)
            *version, base = asked.stdout.split()
            numbers = tuple(map(int, version))
            # A host has its own `/tmp` and `/run`.
            if numbers >= (3, 10) and not base.startswith(("/tmp/", "/run/")):
                found.setdefault(base, numbers)
    return sorted((version, path) for path, version in found.items())


def make_bare(folder: Path, base: str) -> str:
    """Make an environment without packages, like `python -m venv --without-pip` but faster; return its interpreter."""
    (folder / "bin").mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text(f"home = {Path(base).parent}\ninclude-system-site-packages = false\n")
    (folder / "bin" / "python3").symlink_to(base)
    return str(folder / "bin" / "python3")


@cache
def keys(name: str) -> tuple[str, str]:
    """Return a private key and its public part, the same in every farm of a session."""
    with tempfile.TemporaryDirectory() as folder:
        key = Path(folder, "key")
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", key], check=True)
        return key.read_text(), key.with_suffix(".pub").read_text()


def make_etc(folder: Path, name: str, homes: dict[str, Path]) -> None:
    """Write the files of a machine that replace this one's: users, host name, sudo rules."""
    folder.mkdir()
    lines = [line.split(":") for line in Path("/etc/passwd").read_text().splitlines()]
    users = [":".join([*each[:5], str(homes["root"]), *each[6:]] if each[0] == "root" else each) for each in lines]
    group = Path("/etc/group").read_text()
    for number, user in enumerate((ADMIN, CLERK), start=4001):
        if user in homes:
            users.append(f"{user}:*:{number}:{number}::{homes[user]}:/bin/sh")
            group += f"{user}s:x:{number}:\n"  # with the name `admin`, sudo would leave a file in the home
            os.chown(homes[user], number, number)
    (folder / "passwd").write_text("\n".join(users) + "\n")
    (folder / "group").write_text(group)
    (folder / "hosts").write_text(f"127.0.0.1 localhost {name}\n::1 localhost {name}\n")
    if Path("/etc/sudoers").exists():
        (folder / "sudoers").write_text(_SUDOERS)
        (folder / "sudoers").chmod(0o440)
