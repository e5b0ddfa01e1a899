"""Sessions over a farm of hosts behind real sshds that are put to trouble, testbed by testbed, and what came of each.

A session has a worker for each testbed, so that faults which do not disturb each other break at the same time. Its
journals tell when a fault is due, and when it was reported.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_ipperf.agent.kernel.processes import tree
from tests.support.hosts.ssh_hosts import Farm, FarmHost
from tests.support.sessions.project_settings import STRICT
from tests.system.trouble.rows import Row

PAYLOADS = [str(100 * n) for n in range(1, 10)]
"""They make the cells of a chain different, and of DNS nothing else."""

_SUITE = """
import dataclasses

import pytest

@pytest.fixture
def server_state(server_state):
    return dataclasses.replace(server_state, users=min(server_state.users, 10))
"""
_TEST = """
@pytest.mark.{protocol}
@pytest.mark.levels(connections=[{connections}], payload=["{payload}"])
def test_{protocol}_{connections}_{payload}(measured, margin):
    assert measured.slowdown <= margin
"""
_IN_ORDER = """
import pathlib
import time

import pytest

@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items):
    def kept():
        return [item for cell in {cells!r} for item in items if f"[{{cell}}-" in item.name]

    items[:] = kept()
    yield
    items[:] = kept()  # in the order of the chains

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    gate = pathlib.Path({folder!r}, "go", item.name.partition("[")[2].rpartition("-")[0])
    while not gate.exists():
        time.sleep(0.05)
"""
_HANGS_S = 400.0
_LOOK_S = 0.05
_LISTENER = re.compile(r": process \d+ sshd: \S*sshd .*\[listener\]")


@dataclass(frozen=True)
class Bed:
    """A testbed of the farm."""

    name: str
    client: FarmHost
    server: FarmHost

    def host(self, role: str) -> FarmHost:
        """`client` or `server`."""
        return self.client if role == "client" else self.server


def beds(farm: Farm) -> list[Bed]:
    """Those of a farm without routers, in order."""
    count = len(farm.hosts) // 2
    return [Bed(f"bed{n}", farm.hosts[f"client{n}"], farm.hosts[f"server{n}"]) for n in range(1, count + 1)]


def _nothing(inner: Inner, bed: Bed, cell: str) -> None:
    """What is broken from the start needs nobody beside the session."""


@dataclass(frozen=True)
class Trouble:
    """What breaks on a testbed, and the words that report it: a pattern with `CLIENT` and `SERVER` for the hosts.

    `before` breaks it before the cell is set up, and gives what mends it; `how` does when it has begun. With words, the
    cell is broken off by them, or where they are `beside`, that line stands beside its answer; without, nothing is said
    and it is measured. Nothing is known of a cell that never `ends`. The next one of the chain has to go on. What is
    `long` breaks in the long form alone.
    """

    name: str
    words: str
    how: Callable[[Inner, Bed, str], None] = _nothing
    before: Callable[[Farm, Bed], Callable[[], object]] | None = None
    protocol: str = "dns"
    connections: int = 1
    beside: bool = False
    ends: bool = True
    outcome: str = "error"
    long: bool = False

    def pattern(self, client: str = "client", server: str = "server") -> str:
        """The words as they have to be of hosts with these names."""
        return self.words.replace("CLIENT", client).replace("SERVER", server)


WELL = Trouble("", "", connections=5)
"""None, at the end of each chain."""


class Inner:
    """A session of the farm's controller on some of its testbeds, by `cells` such as `bed1-dns-c1`."""

    def __init__(self, farm: Farm, site: Path, cells: Sequence[str], *argv: str, gates: bool = False) -> None:
        self.farm = farm
        self.folder = farm.folder / f"struck-{time.monotonic_ns()}"
        self._gates = self.folder / "go"
        self._gates.mkdir(parents=True)
        self._seen = Path(f"/proc/{farm.controller.pid}/root{self.folder}")  # with what is mounted there
        (self.folder / "conftest.py").write_text(_IN_ORDER.format(cells=list(cells), folder=str(self.folder)))
        (self.folder / "test_suite.py").write_text(_SUITE + "".join(sorted(set(map(_test, cells)))))
        (self.folder / "pyproject.toml").write_text(STRICT)
        named = sorted({cell.partition("-")[0] for cell in cells})
        if not gates:
            for cell in cells:
                self.open(cell)
        self.lines: list[tuple[float, str]] = []
        self.broke_at: dict[str, float] = {}
        self._events: list[dict[str, Any]] = []
        self._changed = threading.Lock()
        self._offsets: dict[Path, int] = {}
        self.process = farm.session(
            f"--testbed={','.join(named)}", "--transport=native", *argv,
            cwd=self.folder,
            env={
                "PYTHONPATH": str(site), "MPLCONFIGDIR": str(self.folder), "PYTEST_DEBUG_TEMPROOT": str(self.folder),
            },
        )  # fmt: skip
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._read, self._follow)]
        for thread in self._threads:
            thread.start()

    # --- following it -------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        assert self.process.stdout
        with contextlib.suppress(ValueError):  # the farm has ended it and closed it
            for line in self.process.stdout:
                self.lines.append((time.time(), line.rstrip("\n")))

    def _follow(self) -> None:
        while self.process.poll() is None:
            self._look()
            time.sleep(_LOOK_S)
        self._look()

    def _look(self) -> None:
        found = []
        for path in self._seen.glob("*/runs/*/*.jsonl"):
            data = path.read_bytes()[self._offsets.get(path, 0) :]
            whole = data.rpartition(b"\n")[0]
            if whole:
                self._offsets[path] = self._offsets.get(path, 0) + len(whole) + 1
                found += [{**json.loads(line), "journal": path} for line in whole.splitlines()]
        with self._changed:
            self._events += found

    @property
    def text(self) -> str:
        """All that it said."""
        return "\n".join(line for _, line in self.lines)

    def events(self, kind: str, cell: str = "") -> list[dict[str, Any]]:
        """What the journals have of that kind, of one cell or of all."""
        with self._changed:
            return [each for each in self._events if each["event"] == kind and f"{_of(each)}-".startswith(cell)]

    def open(self, cell: str) -> None:
        """That cell may be set up."""
        (self._gates / cell).touch()

    def wait(self, cell: str, *kinds: str) -> None:
        """Until the journals have an event of one of these kinds of that cell."""
        self.wait_for(lambda: any(self.events(kind, cell) for kind in kinds), f"{' or '.join(kinds)} of {cell}")

    def wait_for(self, true: Callable[[], object], what: str) -> None:
        """Until that is so; an AssertionError when it does not come."""
        end = time.monotonic() + _HANGS_S
        while True:
            over = not any(thread.is_alive() for thread in self._threads)  # before: until then more may have come
            if true():
                return
            assert not over, f"the session ended without {what}"
            assert time.monotonic() < end, f"no {what} in {_HANGS_S:g} s"
            time.sleep(_LOOK_S)

    # --- putting it to trouble ----------------------------------------------------------------------------------------

    def begins(self, cell: str) -> None:
        """The fault begins now."""
        self.broke_at[cell] = time.time()

    def controllers(self, pattern: str) -> list[int]:
        """The session's processes on the controller whose command matches, the oldest first."""
        return matching(self.process.pid, pattern)

    def run_all(self, chains: Mapping[str, tuple[Bed, Sequence[tuple[str, Trouble]]]]) -> int:
        """Puts each testbed to its chain of troubles, in a thread of its own; the exit status."""
        with ThreadPoolExecutor(len(chains)) as pool:
            under_way = [pool.submit(self._run, bed, chain) for bed, chain in chains.values()]
            status = self.end()
        wrong = [str(error) for each in under_way if (error := each.exception())]
        assert not wrong, "\n".join([*wrong, self.text])
        return status

    def _run(self, bed: Bed, chain: Sequence[tuple[str, Trouble]]) -> None:
        try:
            for cell, trouble in chain:
                mend = trouble.before(self.farm, bed) if trouble.before else lambda: None
                self.open(cell)
                try:
                    trouble.how(self, bed, cell)
                    if trouble.ends:
                        self.wait(cell, "broken", "record")
                finally:
                    mend()
        finally:
            for cell, _ in chain:  # whatever went wrong here, the session comes to its end
                self.open(cell)

    def end(self) -> int:
        """Waits for its end; the exit status. A session that hangs is ended and fails the test."""
        try:
            status = self.process.wait(_HANGS_S)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            raise AssertionError(f"the session hangs: {self.text}") from None
        for thread in self._threads:
            thread.join()
        return status

    # --- what came of it ----------------------------------------------------------------------------------------------

    def find_report(self, pattern: str) -> tuple[float, re.Match[str]]:
        """When the first line came that has it, and where it has it."""
        found = next(((at, match) for at, line in self.lines if (match := re.search(pattern, line))), None)
        assert found, f"nobody said {pattern}: {self.text}"
        return found

    def row(self, trouble: Trouble, bed: Bed, cell: str) -> Row:
        """What came of the fault: it was reported while the session ran, and at its end, and no run is lost."""
        runs = self.kept_runs(cell)
        words = trouble.pattern(bed.client.name, bed.server.name)
        if trouble.ends and (trouble.beside or not words):
            assert self.events("record", cell), f"{trouble.name}: {self.text}"
        if not words:
            return Row(trouble.name, "nothing", None, trouble.outcome, len(runs))
        head = "" if trouble.beside else rf"broke off {cell} after (?P<done>\d+) of \d+ runs: "
        at, match = self.find_report(rf"^(?:\[gw\d+ bed\d+\] |  )?(?P<report>{head}{words})")
        if not trouble.beside:
            assert int(match["done"]) == len(runs), f"{match['report']}, and {len(runs)} are in the records"
            assert [line for _, line in self.lines if re.search(f"^{words}", line)]  # with the errors once more
        began = self.broke_at.get(cell) or self.events("workload", cell)[0]["at"]
        return Row(trouble.name, f"`{match['report']}`", at - began, trouble.outcome, len(runs))

    def kept_runs(self, cell: str) -> list[dict[str, Any]]:
        """The cell's runs; each has its samples, and what was attempted is accounted for."""
        runs = self.events("run", cell)
        size = struct.calcsize("d")
        for run in runs:
            whole = run["journal"].with_suffix(".f64").read_bytes()
            samples = whole[run["offset"] : run["offset"] + size * run["rows"] * len(run["columns"])]
            assert len(samples) == size * run["rows"] * len(run["columns"])
            assert run["rows"] + sum(run["failed"].values()) == run["attempted"]
        return runs


def _test(cell: str) -> str:
    _, protocol, connections, payload = cell.split("-")
    return _TEST.format(protocol=protocol, connections=connections.removeprefix("c"), payload=payload)


def _of(event: dict[str, Any]) -> str:
    return str(event.get("workload") or event.get("cell") or "")


def left(farm: Farm) -> list[str]:
    """What is left on the farm; a listening sshd that had to be started anew is not."""
    return farm.left(but=_LISTENER)


# --- the processes of a machine ---------------------------------------------------------------------------------------


def inside(pid: int) -> Iterator[tuple[int, int, str]]:
    """Number, parent and command of each process of the machine with that first one, the oldest first."""
    below = [process for level in tree(pid) for process in level if process.alive]
    for process in sorted(below, key=lambda each: (each.started_ticks, each.pid)):
        with contextlib.suppress(OSError):  # it may end while it is looked at
            yield (
                process.pid,
                process.parent,
                Path(f"/proc/{process.pid}/cmdline").read_text().replace("\0", " ").strip(),
            )


def every(pid: int, pattern: str) -> list[int]:
    """Those whose command matches."""
    return [number for number, _, command in inside(pid) if re.search(pattern, command)]


def matching(pid: int, pattern: str) -> list[int]:
    """Those whose command matches and whose parent's does not, as a process that has forked has its child's command."""
    found = {number: parent for number, parent, command in inside(pid) if re.search(pattern, command)}
    return [number for number, parent in found.items() if parent not in found]


def agents(host: FarmHost) -> list[int]:
    """The agents on a host."""
    return matching(host.pid, r"^\S*python\S* -I\b.* -c ")


def sessions(host: FarmHost) -> list[int]:
    """The processes of sshd that hold a connection."""
    return matching(host.pid, r"^sshd: \S+@notty")


def listeners(host: FarmHost) -> list[int]:
    """The one that listens."""
    return matching(host.pid, r"^sshd: .*\[listener\]|^\S*sshd -D ")
