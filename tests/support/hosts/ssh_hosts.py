"""A farm: hosts as small machines behind real sshds, and the controller that measures with them.

A host has network, mount, pid and UTS namespaces of its own, and in them its own `/run`, `/tmp`, users, home, sshd and
Python without packages. A bridge joins all of them with the controller, and their sshds listen there and nowhere else:
198.19.0.0/24 and 2001:2:0:f0::/64. What is measured has links of its own, as those of the lab.

Each is held by a pipe: its first process reads from us, and when we go, however we go, it reads the end, exits, and the
kernel takes all processes and devices with it. The folder is removed by a process that outlives us.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_ipperf.agent.packages import cache
from pytest_ipperf.lab.netns import delay_line
from pytest_ipperf.lab.netns.namespaces import unusable
from pytest_ipperf.lab.netns.veth import _FORWARDING, _SYSCTLS
from tests.support.hosts import machines
from tests.support.hosts.machines import ADMIN, CLERK, Machine, bare_pythons, said
from tests.support.needs import lacking
from tests.support.sessions.forked_python import ForkedPython, run_python
from tests.support.sessions.project_settings import GLANCE, STRICT

ROOT = Path(__file__).parents[3]
CONTROL, CONTROL6 = "198.19.0", "2001:2:0:f0"
SUITE = """
    import pytest

    @pytest.mark.smtp
    @pytest.mark.levels(connections=[1, 10], payload=["1k"])
    def test_smtp(measured, margin):
        assert measured.slowdown <= margin
"""

# Files in a home that stay until `pytest-ipperf clean`.
_CACHE = ".cache"
_CACHED = f"home/{_CACHE}/{cache.NAME}"
_OF_AGENTS = b"pytest_ipperf/agent/"
# Two programs that fill a cache: the controller's, and that of a Python whose bytecode may be another.
_PACKS = """
from pytest_ipperf.agent.packages.cache import Cache
from pytest_ipperf.lab.agents.code_archive import code_archive, digests
for magic in digests():
    Cache().put(code_archive(magic))
print(digests()[b""], *(magic.hex() for magic in digests() if magic))
"""
_COMPILES = """
import importlib.util, sys
from pytest_ipperf.agent.packages.bytecode import compiled, in_zip_path
from pytest_ipperf.agent.packages.cache import Cache
(digest, packed), made = sys.argv[1:], importlib.util.MAGIC_NUMBER.hex()
if made != packed and Cache().get(digest, made) is None:
    Cache().put(compiled(Cache().get(digest), in_zip_path), digest, made)
"""
_archives: dict[str, bytes] = {}
"""Archives of the agents' code, by their names in a cache, which hosts have compiled for their Python."""
_PATIENCE_S = 60.0
_PROGRAM_S = 120.0
_GOES_S = 60.0
# The same path everywhere, since hosts have their own `/tmp`.
_PARENT = "/var/tmp"
_REMOVING = 'folder=$1; shift; "$@"; rm -rf "$folder" || { sleep 1; rm -rf "$folder"; }'
_SSHD = """
ListenAddress {control4}
ListenAddress {control6}
HostKey {folder}/host_key
AuthorizedKeysFile .ssh/authorized_keys
PidFile none
# The default takes 50 ms of processor time.
KexAlgorithms curve25519-sha256
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
SetEnv TMPDIR={folder}/tmp
"""
_SSH = """
Host {name}
    HostName {control4}
    User root
    IdentityFile {keys}/{name}
    UserKnownHostsFile {keys}/known_{name}
    HostKeyAlias {name}
"""
_SSH_ALL = """
Host *
    IdentitiesOnly yes
    IdentityAgent none
    StrictHostKeyChecking yes
    GlobalKnownHostsFile /dev/null
    ControlPath none
"""
_PORTS_OF_SSH = ":0016 "
_NEAR, _FAR = "near", "far"


@dataclass(frozen=True, slots=True, kw_only=True)
class FarmHost:
    """A host. `pid` is its first process, as seen here; `entry` are the words that enter it.

    `home` (root's) and `tmp`, which is its `/tmp` too, have the same paths there and here. `device` is on the measured
    link, at a router on the clients' one; `control_device` on the other.
    """

    name: str
    pid: int
    entry: list[str]
    control4: str
    control6: str
    ipv4: str
    ipv6: str
    home: Path
    tmp: Path
    python: str
    python_version: str
    control_device: str = "control"
    device: str = "eth0"

    def run(self, *argv: str, text: str = "") -> str:
        """Return the output of a command that runs there as root; raise AssertionError if it fails."""
        return said([*self.entry, *argv], text)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """The place of a host: its testbed, counted from 0, its links, its number on them, and the router's, if any."""

    name: str
    bed: int
    role: str
    number: int
    links: tuple[str, ...]
    router: int = 0

    def address(self, link: str) -> tuple[str, str]:
        net4, net6 = _networks(self.bed, link)
        return f"{net4}.{self.number}", f"{net6}::{self.number}"

    def routes(self) -> list[tuple[str, str]]:
        """Return networks with the gateway of each."""
        if not self.router:
            return []
        (mine,) = self.links
        there4, there6 = _networks(self.bed, _FAR if mine == _NEAR else _NEAR)
        mine4, mine6 = _networks(self.bed, mine)
        return [(f"{there4}.0/24", f"{mine4}.{self.router}"), (f"{there6}::/64", f"{mine6}::{self.router}")]


def _networks(bed: int, link: str) -> tuple[str, str]:
    """Return the prefixes of a testbed's link, without a host's number; the first testbed has those of the lab."""
    far = link == _FAR
    return f"198.18.{2 * bed + far}", f"2001:2:0:{bed + 1 if bed else ''}{10 + far}"


def places_of(testbeds: int, clients: int, *, routed: bool) -> list[_Place]:
    """Return the places of the hosts of a farm."""
    return list(_places(testbeds, clients, routed=routed))


def _places(testbeds: int, clients: int, *, routed: bool) -> Iterator[_Place]:
    for bed in range(testbeds):
        router = 2 if routed else 0
        for each in range(clients):
            more = chr(ord("a") + each) if each else ""
            yield _Place(name=f"client{bed + 1}{more}", bed=bed, role="client", number=10 + each if each else 1,
                         links=(_NEAR,), router=router)  # fmt: skip
        if routed:
            yield _Place(name=f"router{bed + 1}", bed=bed, role="router", number=2, links=(_NEAR, _FAR))
            yield _Place(name=f"server{bed + 1}", bed=bed, role="server", number=1, links=(_FAR,), router=router)
        else:
            yield _Place(name=f"server{bed + 1}", bed=bed, role="server", number=2, links=(_NEAR,))


def _pythons(places: Sequence[_Place]) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return a Python for each host: within a testbed as many versions as there are, the newest for the server."""
    found = bare_pythons()
    given = {}
    for bed in {place.bed for place in places}:
        newest = found[-1 - bed % len(found)]
        others = [each for each in found if each != newest] or found
        at = bed
        for place in (each for each in places if each.bed == bed):
            if place.role == "server":
                given[place.name] = newest
            else:
                given[place.name] = others[at % len(others)]
                at += 1
    return given


class Farm:
    """A running farm; the fixture `farm` builds and removes it."""

    def __init__(
        self,
        stack: contextlib.ExitStack,
        places: Sequence[_Place],
        domain: str = "",
        keys: Mapping[str, str] | None = None,
        pythons: Mapping[str, str] | None = None,
        *,
        control_delay_s: float = 0.0,
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="pytest-ipperf-farm-", dir=_PARENT))
        self.folder.chmod(0o755)
        self._stack = stack
        self._places = places
        self._control_delay_s = control_delay_s
        self._python = _pythons(places) | {name: _asked(path) for name, path in (pythons or {}).items()}
        self.controller = self._controller()
        self._switch = self._machine(Machine(machines.OTHER, "switch", self.folder / "switch"))
        self._machines = {place.name: self._host(place) for place in places}
        for machine in (self.controller, self._switch, *self._machines.values()):
            machine.wait_up()
        self._lay()
        self.entry = self._with_home(self.controller)
        for machine in self._machines.values():
            machine.go()
        self.hosts = {place.name: self._known(place) for place in places}
        self.ssh_config = self.folder / "ssh_config"
        self.ssh_config.write_text("".join(self._ssh_config(host) for host in self.hosts.values()) + _SSH_ALL)
        self.inventory = self.folder / "hosts.ini"
        self.inventory.write_text(self._inventory(domain, keys or {}))
        self._sessions = 0
        self._stack.callback(self._keep_archives)
        self.mark()

    # --- building ---------------------------------------------------------------------------------------------------

    def _machine(self, machine: Machine) -> Machine:
        self._stack.callback(machine.close)
        return machine

    def _controller(self) -> Machine:
        folder = self._folder("controller", {"root", ADMIN})
        (folder / "keys").mkdir(mode=0o700)
        before = ["sh", "-c", _REMOVING, "sh", str(self.folder)]
        return self._machine(Machine(machines.OTHER, "controller", folder, before=before))

    def _folder(self, name: str, users: set[str]) -> Path:
        """Make the private folder of a machine, with its users."""
        folder = self.folder / name
        folder.mkdir(mode=0o755)
        homes = {user: folder / ("home" if user == "root" else user) for user in users}
        for home in homes.values():
            (home / ".ssh").mkdir(parents=True, mode=0o755)
            if name != "controller":
                (home / ".ssh" / "authorized_keys").write_text(machines.keys(f"user {name}")[1])
        (folder / "tmp").mkdir()
        (folder / "tmp").chmod(0o1777)
        machines.make_etc(folder / "etc", name, homes)
        return folder

    def _host(self, place: _Place) -> Machine:
        folder = self._folder(place.name, {"root", ADMIN, CLERK})
        self._give_archives(folder)
        machines.make_bare(folder / "python", self._python[place.name][1])
        private, public = machines.keys(f"host {place.name}")
        control4, control6 = self._control(place)
        _write(folder / "host_key", private)
        (folder / "sshd_config").write_text(_SSHD.format(folder=folder, control4=control4, control6=control6))
        keys = self.folder / "controller" / "keys"
        _write(keys / place.name, machines.keys(f"user {place.name}")[0])
        _write(keys / f"known_{place.name}", f"{place.name} {public}")
        return self._machine(Machine(machines.HOST, place.name, folder, machines.sshd_program()))

    @staticmethod
    def _give_archives(folder: Path) -> None:
        """Fill the host's cache with what the hosts of earlier farms have compiled, as any but a first session does."""
        kept = folder / _CACHED
        kept.mkdir(parents=True, exist_ok=True)
        for each in (kept, kept.parent):
            each.chmod(0o700)
        for name, data in _archives.items():
            (kept / name).write_bytes(data)
            (kept / name).chmod(0o600)

    def give_code(self, copy: Path) -> None:
        """Fill the hosts' caches with the agents' code of a copy of the package, compiled once for each Python."""
        home = self.folder / "compiled"
        home.mkdir()
        env = {**os.environ, "HOME": str(home), "XDG_CACHE_HOME": "", "PYTHONPATH": str(copy)}
        packed = run_python(["-c", _PACKS], cwd=home, env=env, copy_of_package=True)
        assert packed.returncode == 0, packed.stderr
        for python in {base for _, base in self._python.values()}:
            subprocess.run([python, "-S", "-c", _COMPILES, *packed.stdout.split()], cwd=home, env=env, check=True)
        for entry in (home / _CACHE / cache.NAME).iterdir():
            _archives[entry.name] = entry.read_bytes()
        for name in self.hosts:
            self._give_archives(self.folder / name)

    def _keep_archives(self) -> None:
        for host in self.hosts.values():
            for entry in (host.home.parent / _CACHED).glob("[0-9a-f]*-[0-9a-f]*"):
                if entry.name not in _archives and _OF_AGENTS in (data := entry.read_bytes()):
                    _archives[entry.name] = data

    def _control(self, place: _Place) -> tuple[str, str]:
        number = 11 + self._places.index(place)
        return f"{CONTROL}.{number}", f"{CONTROL6}::{number}"

    def _lay(self) -> None:
        """Lay bridges in the switch, with a port of every host on each of its links and on the control network."""
        links = sorted({f"{place.bed}-{link}" for place in self._places for link in place.links})
        batch = [
            f"link add {bridge} type bridge mcast_snooping 0\nlink set {bridge} up" for bridge in ("control", *links)
        ]
        for place in self._places:
            batch += self._cable(self._machines[place.name], "control", "control")
            for at, link in enumerate(place.links):
                batch += self._cable(self._machines[place.name], f"eth{at}", f"{place.bed}-{link}")
        if not self._control_delay_s:
            batch += self._cable(self.controller, "control", "control")
        self._switch.network(_batch(batch))
        if self._control_delay_s:
            self._lay_delayed_control()
        self.controller.network(_sysctls(_SYSCTLS) + _batch(_up("control", f"{CONTROL}.1", f"{CONTROL6}::1")))
        for place in self._places:
            lines = _up("control", *self._control(place))
            for at, link in enumerate(place.links):
                lines += _up(f"eth{at}", *place.address(link))
            lines += [f"route add {network} via {hop}" for network, hop in place.routes()]
            sysctls = _SYSCTLS | (_FORWARDING if place.role == "router" else {})
            self._machines[place.name].network(_sysctls(sysctls) + _batch(lines))

    def _lay_delayed_control(self) -> None:
        """Join the controller and the switch by a line that delays frames in both directions."""
        ends = (str(self.controller.pid), "control", str(self._switch.pid), "delayed")
        argv = ["unshare", "--net", sys.executable, "-I", "-S", delay_line.__file__, str(self._control_delay_s), *ends]
        # The process that stays behind is ended with its session.
        line = subprocess.Popen(argv, start_new_session=True)
        self._stack.callback(_killed_session, line.pid)
        if line.wait(_PATIENCE_S):
            raise AssertionError("there is no delay line to the controller")
        self._switch.network("ip link set delayed master control up\n")

    @staticmethod
    def _cable(machine: Machine, device: str, bridge: str) -> list[str]:
        port = f"p{machine.pid}-{device[-1]}"
        return [
            f"link add {port} type veth peer name {device} netns {machine.pid}",
            f"link set {port} master {bridge} up",
        ]

    def _known(self, place: _Place) -> FarmHost:
        machine, folder = self._machines[place.name], self.folder / place.name
        control4, control6 = self._control(place)
        ipv4, ipv6 = place.address(place.links[0])
        _await_sshd(machine, folder)
        return FarmHost(
            name=place.name,
            pid=machine.pid,
            entry=self._with_home(machine),
            control4=control4,
            control6=control6,
            ipv4=ipv4,
            ipv6=ipv6,
            home=folder / "home",
            tmp=folder / "tmp",
            python=str(folder / "python" / "bin" / "python3"),
            python_version=".".join(map(str, self._python[place.name][0])),
        )

    def _with_home(self, machine: Machine, *options: str) -> list[str]:
        folder = self.folder / machine.name
        # A machine has its own `/run`, with its dirty marks.
        return [*machine.entry, "env", "--unset=IPPERF_RUN", *options, f"HOME={folder}/home", f"TMPDIR={folder}/tmp"]

    def _ssh_config(self, host: FarmHost) -> str:
        return _SSH.format(name=host.name, control4=host.control4, keys=self.folder / "controller" / "keys")

    def _inventory(self, domain: str, keys: Mapping[str, str]) -> str:
        text = ""
        for bed in sorted({place.bed for place in self._places}):
            roles: dict[str, list[str]] = {}
            for place in self._places:
                if place.bed == bed:
                    roles.setdefault(place.role, []).append(place.name)
            lines = {**{role: ", ".join(names) for role, names in roles.items()}, **keys}
            lines |= {"domain": domain} if domain else {}
            text += _section(f"testbed bed{bed + 1}", lines)
        for host in self.hosts.values():
            lines = {"way": "ssh", "ssh": host.name, "ssh_config": str(self.ssh_config), "python": host.python}
            text += _section(f"host {host.name}", lines | {"ipv4": host.ipv4, "ipv6": host.ipv6})
        return text

    # --- use --------------------------------------------------------------------------------------------------------

    def change(self, name: str, **keys: str) -> None:
        """Change keys of a host in the inventory; an empty value removes one."""
        before, head, after = self.inventory.read_text().partition(f"[host {name}]\n")
        assert head, name
        own, gap, rest = after.partition("\n\n")
        lines = dict(line.split(" = ", 1) for line in own.splitlines()) | keys
        reported = "\n".join(f"{key} = {value}" for key, value in lines.items() if value)
        self.inventory.write_text(f"{before}{head}{reported}{gap}{rest}")

    def session(
        self, *argv: str, suite: str = SUITE, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> ForkedPython:
        """Run an inner pytest as the controller, on all testbeds unless the arguments name some.

        What it says, errors too, is to be read from `stdout`. A `cwd` has its suite already; in others there is the
        design of GLANCE too. With a PYTHONPATH in `env` it imports the package from there.
        """
        if cwd is None:
            self._sessions += 1
            cwd = self.folder / f"session-{self._sessions}"
            cwd.mkdir()
            (cwd / "test_suite.py").write_text(textwrap.dedent(suite))
            (cwd / "pyproject.toml").write_text(STRICT)
            (cwd / "conftest.py").write_text(GLANCE)
        beds = ",".join(sorted({f"bed{place.bed + 1}" for place in self._places}))
        named = [] if any(word.startswith("--testbed") for word in argv) else [f"--testbed={beds}"]
        words = ["-m", "pytest", "-p", "no:randomly", f"--ipperf-hosts={self.inventory}", *named, *argv]
        process = self._forked(words, cwd=cwd, env=env or {}, stderr=subprocess.STDOUT, start_new_session=True)
        self._stack.callback(_ended, process)
        return process

    def events(self, kind: str) -> list[dict[str, Any]]:
        """Return the events of a kind in the journals of all sessions, in the order of time.

        A line without its end may be on its way.
        """
        files = self.folder.glob("session-*/.ipperf/runs/*/*.jsonl")
        lines = [line for file in files for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]
        reported = [event for event in map(json.loads, lines) if event["event"] == kind]
        return sorted(reported, key=lambda event: event["at"])

    def _forked(self, words: Sequence[str], *, cwd: Path, env: Mapping[str, str], **options: Any) -> ForkedPython:
        """Start a program of our own Python as the controller, whose output is to be read from `stdout`."""
        folder = self.folder / self.controller.name
        own = {"HOME": f"{folder}/home", "TMPDIR": f"{folder}/tmp", "PYTHONPATH": str(ROOT), **env}
        others = {name: value for name, value in os.environ.items() if name != "IPPERF_RUN"}
        copy = "PYTHONPATH" in env
        return ForkedPython(
            words, cwd=cwd, env=others | own, machine=self.controller.pid, copy_of_package=copy,
            stdout=subprocess.PIPE, **options,
        )  # fmt: skip

    def program(self, *words: str) -> tuple[int, str, str]:
        """Return the exit status, the output and the errors of a program of our own Python, run as the controller."""
        with self._forked(words, cwd=self.folder, env={}, stderr=subprocess.PIPE) as process:
            try:
                output, errors = process.communicate(_PROGRAM_S)
            finally:
                process.kill()
        assert process.returncode is not None
        return process.returncode, output, errors

    def python(self, code: str) -> str:
        """Return the output of code run by our own Python as the controller; raise AssertionError if it fails."""
        status, output, errors = self.program("-c", code)
        assert status == 0, errors
        return output

    @property
    def _all(self) -> dict[str, Machine]:
        return {"controller": self.controller, **self._machines}

    def mark(self) -> None:
        """Take everything that is now on the machines as their own, for `left`."""
        self._before = {name: self._state(name) for name in self._all}

    def left(self, but: re.Pattern[str] | None = None) -> list[str]:
        """Return what is on the machines now and was not at `mark`, except `but`; wait for what is about to end."""
        end = time.monotonic() + _GOES_S
        while (found := [each for each in self._left() if not (but and but.search(each))]) and time.monotonic() < end:
            time.sleep(0.1)
        return found

    def _left(self) -> list[str]:
        return [f"{name}: {each}" for name in self._all for each in sorted(self._state(name) - self._before[name])]

    def _state(self, name: str) -> set[str]:
        """Return the processes, files, devices with addresses and routes, and pinned namespaces of a machine."""
        machine, folder = self._all[name], self.folder / name
        proc = Path(f"/proc/{machine.pid}")
        found = {f"process {pid} {words}" for pid, words in _processes(machine.pid).items()}
        # Other programs leave files on the controller: pytest's workers, matplotlib, pip.
        found |= {f"file /tmp/{each.name}" for each in (folder / "tmp").iterdir() if each.name != "pytest-of-root"}
        for user, home in {"": "home", ADMIN: ADMIN, CLERK: CLERK}.items() if name in self._machines else ():
            found |= {f"file ~{user}/{each.name}" for each in (folder / home).iterdir() if each.name != _CACHE}
        found |= {f"file /run/{each.name}" for each in (proc / "root" / "run").iterdir() if each.name != "sudo"}
        run = proc / "root" / "run" / "pytest-ipperf"
        if run.is_dir():  # a lock file may stay in it
            found -= set() if any(run.iterdir()) else {"file /run/pytest-ipperf"}
        for line in (proc / "mountinfo").read_text().splitlines():
            if " - nsfs " in line or "ipperf" in line.partition(" - ")[2]:
                found.add(f"mount {line.split()[4]}")
        return found | _network(machine)


def _network(machine: Machine) -> set[str]:
    """Return the devices, addresses and routes of a machine, without link-local ones, which the kernel adds itself."""
    asked = "ip -brief link\nip -oneline address | grep -v fe80\nip -4 route\nip -6 route | grep -v fe80"
    reported = said(["nsenter", "--target", str(machine.pid), "--net", "sh", "-c", asked])
    lines = [line.split() for line in reported.splitlines()]
    return {f"device {words[0]}" if "<" in words[-1] else f"network {' '.join(words)}" for words in lines if words}


def _processes(pid: int) -> dict[int, str]:
    """Return the live processes of a machine by their numbers here, without its own."""
    namespace = Path(f"/proc/{pid}/ns/pid").readlink()
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):  # it may end meanwhile
                if (entry / "ns" / "pid").readlink() == namespace and " Z " not in (entry / "stat").read_text():
                    found[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ").strip()
    return found


def _await_sshd(machine: Machine, folder: Path) -> None:
    """Wait until the host's sshd listens and has its final name."""
    end = time.monotonic() + _PATIENCE_S
    while time.monotonic() < end:
        both = [Path(f"/proc/{machine.pid}/net/{name}").read_text() for name in ("tcp", "tcp6")]
        named = any("[listener]" in words for words in _processes(machine.pid).values())
        if named and all(_PORTS_OF_SSH in text for text in both):
            return
        time.sleep(0.01)
    raise AssertionError(f"{machine.name}: sshd does not listen: {(folder / 'sshd.log').read_text()}")


def _asked(path: str) -> tuple[tuple[int, ...], str]:
    return next(each for each in bare_pythons() if each[1] == os.path.realpath(path))


def _write(path: Path, secret: str) -> None:
    path.touch(mode=0o600)
    path.write_text(secret)


def _section(head: str, keys: Mapping[str, str]) -> str:
    return f"[{head}]\n" + "".join(f"{key} = {value}\n" for key, value in keys.items()) + "\n"


def _sysctls(values: Mapping[str, str]) -> str:
    return "".join(f"echo {value} > /proc/sys/{name}\n" for name, value in values.items())


def _up(device: str, ipv4: str, ipv6: str) -> list[str]:
    return [f"link set {device} up", f"addr add {ipv4}/24 dev {device}", f"addr add {ipv6}/64 dev {device} nodad"]


def _batch(lines: Sequence[str]) -> str:
    text = "\n".join(["link set lo up", *lines])
    return f"ip -batch - <<'END'\n{text}\nEND\n"


def _killed_session(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, 9)


def _ended(process: subprocess.Popen[str] | ForkedPython) -> None:
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
    process.wait(_PATIENCE_S)
    if process.stdout:
        process.stdout.close()


def trouble() -> str:
    """Return why no farm can be built here; empty if one can."""
    if os.geteuid() != 0:
        return "a farm of hosts needs root"
    if why := unusable():
        return f"a farm of hosts cannot stand: {why}"
    if absent := lacking("ssh", "ssh-keygen", "sshd"):
        return absent
    return "" if bare_pythons() else "no Python here that hosts with a /tmp of their own can run"


@pytest.fixture
def farm() -> Iterator[Callable[..., Farm]]:
    """Return a function that builds farms: `farm(testbeds=1, clients=1, routed=False, domain="")`, until the test ends.

    `keys` go into every testbed's section. `pythons` are interpreters of `bare_pythons()` that hosts are to have.
    """
    if why := trouble():
        pytest.skip(why)
    with contextlib.ExitStack() as stack:

        def made(
            testbeds: int = 1,
            clients: int = 1,
            *,
            routed: bool = False,
            domain: str = "",
            keys: Mapping[str, str] | None = None,
            pythons: Mapping[str, str] | None = None,
        ) -> Farm:
            return Farm(stack, places_of(testbeds, clients, routed=routed), domain, keys, pythons)

        yield made
