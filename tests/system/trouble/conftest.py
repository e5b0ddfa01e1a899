"""A pytest session that is put to trouble, and what came of it: the row of docs/faults.md.

It runs in a process of its own, on a copy of the package to which faulty servers are added as the house adds servers:
a file each. What breaks is real, and so is everything that meets it.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import pytest_ipperf
from pytest_ipperf.agent.kernel.processes import Process, survivors, tree
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.protocols.base import PHASES
from tests.support.sessions.forked_python import ForkedPython
from tests.support.sessions.project_settings import STRICT
from tests.system.trouble.rows import Row

PAIR = BUILTIN["pair"]
SUITE = """
    import dataclasses

    import pytest

    @pytest.fixture
    def server_state(server_state):
        return dataclasses.replace(server_state, users=min(server_state.users, 10))

    @pytest.mark.smtp
    def test_smtp(measured, margin):
        assert measured.slowdown <= margin

    @pytest.mark.http
    def test_http(measured, margin):
        assert measured.slowdown <= margin

    @pytest.mark.ftp
    def test_ftp(measured, margin):
        assert measured.slowdown <= margin

    @pytest.mark.imap
    def test_imap(measured, margin):
        assert measured.slowdown <= margin

    @pytest.mark.dns
    def test_dns(measured, margin):
        assert measured.slowdown <= margin
"""
Change = tuple[str, str, str]
"""A file of the package, a text there, and what is to stand in its place, each time."""

# No more than are asked for, as each is a file that every agent reads. What they do is in one file, as each session
# compiles it.
_SHELF = {
    **dict.fromkeys(("silent", "resets", "closes", "garbage"), ("ftp", "imap", "smtp")),
    "denies": ("imap",),
    "denies6": ("ftp",),
    "dies": ("imap",),
    "slow": ("smtp",),
    "tenth": ("smtp",),
    "tenth6": ("http",),
    "differs6": ("http",),
}
_FAULTY = Path(__file__).with_name("faulty.py")
_SERVER = """
import sys
from pytest_ipperf.agent import faulty

server = faulty.Faulty(__spec__.name)

if __name__ == "__main__":
    faulty.main(server.name, sys.argv[1:])
"""
_AGENT = r"^\S*python\S* -P (-u )?-c "
_HANGS_S = 400.0
_ROWS = pytest.StashKey[list[Row]]()


class Session:
    """An inner pytest on the lab, with a TMPDIR of its own that names its processes. Each line has the time it came."""

    def __init__(self, folder: Path, site: Path, argv: Sequence[str], entry: Sequence[str]) -> None:
        self.folder = folder
        self.tmp = folder / "tmp"
        self.tmp.mkdir(mode=0o755)
        self.lines: list[tuple[float, str]] = []
        self.broke_at = 0.0
        self._seen: dict[tuple[int, int], Process] = {}
        self._pinned: set[str] = set()
        pytests = ["-m", "pytest", "-p", "no:randomly", f"--testbed={PAIR.name}", "--transport=native"]
        env = {**os.environ, "PYTHONPATH": str(site), "TMPDIR": str(self.tmp)}
        streams: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        self._process: subprocess.Popen[str] | ForkedPython
        if entry:
            words = [*entry, sys.executable, *pytests, *argv]
            self._process = subprocess.Popen(words, cwd=folder, env=env, text=True, start_new_session=True, **streams)
        else:
            self._process = ForkedPython(
                [*pytests, *argv], cwd=folder, env=env, start_new_session=True, copy_of_package=True, **streams
            )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout
        with self._process.stdout as output:
            for line in output:
                self.lines.append((time.time(), line.rstrip("\n")))

    # --- putting it to trouble ----------------------------------------------------------------------------------------

    def wait_for_runs(self, number: int) -> None:
        """Until so many runs are in the journal."""
        end = time.monotonic() + _HANGS_S
        while len(self.events("run")) < number:
            assert self._process.poll() is None, self.text
            assert time.monotonic() < end, self.text
            time.sleep(0.02)
        self._observe()

    def victim(self, name: str) -> int:
        """The process of `client` or `server`, which are agents and told apart by their host, or of a server."""
        role = PAIR.roles.get(name)
        pattern = _AGENT if role else rf"^\S*python\S* -m pytest_ipperf\.servers\.{name} "
        found = sorted(pid for pid in self._own() if re.search(pattern, _command(pid)))
        return next(pid for pid in found if not role or _has(pid, role.ipv6))

    def parent(self, pid: int) -> int:
        """The process that started that one."""
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])

    def strike(self, pid: int, number: signal.Signals) -> None:
        """The fault begins, with a signal."""
        os.kill(pid, number)
        self.broke_at = time.time()

    # --- what came of it ----------------------------------------------------------------------------------------------

    def end(self) -> int:
        """Waits for its end; the exit status. A session that hangs is ended and fails the test."""
        end = time.monotonic() + _HANGS_S
        while self._process.poll() is None:
            self._observe()
            if time.monotonic() > end:
                self.kill()
                pytest.fail(f"the session hangs: {self.text}")
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(1)
        self._reader.join()
        return self._process.wait()

    def kill(self) -> None:
        """Ends all of it that still runs."""
        for pid in self._own() | ({self._process.pid} if self._process.poll() is None else set()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join()

    @property
    def text(self) -> str:
        """All that it said."""
        return "\n".join(line for _, line in self.lines)

    @property
    def outcome(self) -> str:
        """The counts of its last line, without what was deselected: `1 error`."""
        return ", ".join(re.findall(r"\d+ (?:passed|failed|errors?|inconclusive|unjudged)", self.lines[-1][1]))

    def find_report(self, pattern: str) -> tuple[str, float]:
        """The first line that has it, as a user would quote it, and how many seconds after the fault began it came.

        A fault that was there from the start began with its workload: the one that the line names, or the first.
        """
        found = next(((at, line.strip()) for at, line in self.lines if re.search(pattern, line)), None)
        assert found, f"nobody said {pattern}: {self.text}"
        at, line = found
        workloads = self.events("workload")
        began = next((event["at"] for event in workloads if event["workload"] in line), workloads[0]["at"])
        return line, at - (self.broke_at or began)

    def row(self, fault: str, report: str, seconds: float | None, outcome: str = "") -> Row:
        """What came of the fault, now that the session has ended: nothing may be left."""
        kept = self.kept_runs()
        named = [event["workload"] for event in self.events("workload") if event["workload"] in report]
        runs = [run for run in kept if run["workload"] in named] if named else kept
        left = self._left_s()
        assert left == []
        return Row(fault, report, seconds, outcome or self.outcome, len(runs))

    def events(self, kind: str) -> list[dict[str, Any]]:
        """What the journal has of that kind."""
        lines = [line for file in self._files("jsonl") for line in file.read_text().splitlines(keepends=True)]
        events = [json.loads(line) for line in lines if line.endswith("\n")]  # the last may be on its way
        return [event for event in events if event["event"] == kind]

    def kept_runs(self) -> list[dict[str, Any]]:
        """The runs of the journal, which is whole, and has the samples of each."""
        assert all(file.read_text().endswith("\n") for file in self._files("jsonl"))
        runs = self.events("run")
        samples = array("d", b"".join(file.read_bytes() for file in self._files("f64")))
        for run in runs:
            at = run["offset"] // samples.itemsize
            assert len(samples[at : at + run["rows"] * len(PHASES)]) == run["rows"] * len(PHASES)
            assert run["rows"] + sum(run["failed"].values()) == run["attempted"]
        return runs

    def _files(self, kind: str) -> list[Path]:
        return sorted(self.folder.glob(f"*/runs/*/*.{kind}"))

    def _left_s(self) -> list[str]:
        """Processes, folders and namespaces that are still there in the end."""
        end = time.monotonic() + 60
        while (found := self._left()) and time.monotonic() < end:
            time.sleep(0.1)
        return found

    def _left(self) -> list[str]:
        processes = {process.pid for process in survivors(list(self._seen.values()))} | self._own()
        return [
            *(f"process {_command(pid)}" for pid in processes),
            *(f"folder {entry.name}" for entry in self.tmp.iterdir()),
            *(f"namespace {name}" for name in self._pinned),
        ]

    def _observe(self) -> None:
        """Remembers its processes, and such of their namespaces as a mount would keep; others go with the last one."""
        below = [process for level in tree(self._process.pid) for process in level]
        self._seen |= {(process.pid, process.started_ticks): process for process in below}
        mounts = Path("/proc/self/mountinfo").read_text()
        self._pinned |= {name for process in below for name in _namespaces(process.pid) if f" {name} " in mounts}

    def _own(self) -> set[int]:
        """Processes that work in its TMPDIR, or have it in their environment or arguments."""
        found = set()
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                with contextlib.suppress(OSError):  # it may end while it is looked at
                    texts = [(entry / name).read_bytes().decode(errors="replace") for name in ("environ", "cmdline")]
                    if any(str(self.tmp) in text for text in (*texts, str((entry / "cwd").readlink()))):
                        found.add(int(entry.name))
        return found - {os.getpid()}


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    return ""


def _has(pid: int, ipv6: str) -> bool:
    """Whether that process is on the host with this address."""
    with contextlib.suppress(OSError):  # it may have ended
        return ipaddress.IPv6Address(ipv6).packed.hex() in Path(f"/proc/{pid}/net/if_inet6").read_text()
    return False


def _namespaces(pid: int) -> set[str]:
    with contextlib.suppress(OSError):
        return {str(Path(f"/proc/{pid}/ns/{kind}").readlink()) for kind in ("net", "mnt", "pid")}
    return set()


def _copied(folder: Path, changes: Sequence[Change]) -> Path:
    """A copy of the package with the faulty servers in its registry, and these changes."""
    package = folder / "pytest_ipperf"
    shutil.copytree(Path(pytest_ipperf.__file__).parent, package, ignore=shutil.ignore_patterns("*.pyc.*"))
    shutil.copy(_FAULTY, package / "agent")
    for fault, protocols in _SHELF.items():
        for protocol in protocols:
            (package / "servers" / f"{fault}_{protocol}.py").write_text(_SERVER)
    for name, old, new in changes:
        text = (package / name).read_text()
        assert old in text, f"{name} has no {old!r}"
        (package / name).write_text(text.replace(old, new))
    return folder


@pytest.fixture(scope="session")
def site_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Copies of the package, each made once."""

    @cache
    def made(*changes: Change) -> Path:
        return _copied(tmp_path_factory.mktemp("site"), changes)

    return made


@pytest.fixture
def session(pytester: pytest.Pytester, site_of: Callable[..., Path]) -> Iterator[Callable[..., Session]]:
    """Starts a session on a copy of the package with these changes; what still runs when the test ends is ended."""
    started: list[Session] = []

    def start(*argv: str, changes: Sequence[Change] = (), entry: Sequence[str] = ()) -> Session:
        pytester.makepyfile(SUITE)
        pytester.makepyprojecttoml(STRICT)
        started.append(Session(pytester.path, site_of(*changes), argv, entry))
        return started[-1]

    yield start
    for each in started:
        each.kill()


@pytest.fixture
def note(request: pytest.FixtureRequest, record_property: Callable[[str, object], None]) -> Callable[[Row], None]:
    """Keeps a row for the table at the end, and in a JUnit report."""

    def keep(row: Row) -> None:
        record_property("fault", str(row))
        request.config.stash.setdefault(_ROWS, []).append(row)

    return keep


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    rows = config.stash.get(_ROWS, [])
    if rows:
        terminalreporter.section("what is said of faults")
    for row in rows:
        terminalreporter.write_line(str(row))
