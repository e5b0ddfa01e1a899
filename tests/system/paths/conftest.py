"""Labs with all four paths, one for each backend, and what was done on their wires.

A backend that works here carries the tunnels of a lab of namespaces; `userspace` also for a user without rights. Where
this kernel has no sit driver, User Mode Linux has: there the same tests run once, in a pytest of their own, and what
came of each is told here in its name.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_ipperf.agent.tunnels.backends import BACKENDS, preferred
from tests.support.hosts.uml_guest import Guest, Told, in_guest, missing
from tests.support.hosts.users import User
from tests.support.needs import require

HERE = Path(__file__).parent
SEARCH = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
_CAPTURE_S, _GUEST_S = 60, 240.0
TESTBED = "lab.100mbit"  # as a backend may need a rate
KERNEL, AS_NOBODY = "kernel", "userspace as nobody"
CARRIERS = (*preferred(), *([AS_NOBODY] if os.geteuid() == 0 else []))  # who is not root is as nobody anyway


@dataclass(frozen=True)
class Paths:
    """A lab with all four paths: by role, the words that enter a node."""

    user: User
    entries: Mapping[str, Sequence[str]]

    def run(self, role: str, *argv: str, timeout_s: float = 100) -> str:
        """What a command in a node has said, however it ended."""
        done = subprocess.run(
            [*self.user.words, *self.entries[role], *argv], env={"PATH": SEARCH, "LC_ALL": "C"}, cwd="/", text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout_s, check=False,
        )  # fmt: skip
        return done.stdout

    def source(self, file: str) -> str:
        """A program of this folder, whose file may be out of the user's reach."""
        return (HERE / file).read_text()

    @contextlib.contextmanager
    def started(self, role: str, *argv: str, ready: str) -> Iterator[subprocess.Popen[str]]:
        """A command in a node that has said that it is ready; it ends by itself, or with the lab."""
        with self._heard([*self.user.words, *self.entries[role], *argv], ready) as process:
            yield process

    @contextlib.contextmanager
    def captured(self, role: str, device: str, count: int, *condition: str) -> Iterator[list[str]]:
        """What tcpdump says of the first packets of a node's device; the list is filled when the context ends.

        It is run by root from outside, as it drops rights that only root has.
        """
        if os.geteuid() != 0:
            pytest.skip("tcpdump captures for root alone in a lab's nodes")
        require("tcpdump")
        entry = self.entries[role]
        target = entry[entry.index("--target") + 1]
        argv = ["nsenter", "--target", target, "--net", "timeout", str(_CAPTURE_S), "tcpdump", "-Z", "root", "-n",
                "-vv", "--immediate-mode", "-i", device, "-c", str(count), *condition]  # fmt: skip
        found: list[str] = []
        with self._heard(argv, "listening on") as process:
            yield found
            assert process.stdout
            said = process.stdout.read()
        # A packet is a line, and those that belong to it are indented.
        found += [each for each in re.split(r"\n(?=\S)", said) if re.match(r"[\d:.]+ IP", each)]

    @contextlib.contextmanager
    def _heard(self, argv: Sequence[str], ready: str) -> Iterator[subprocess.Popen[str]]:
        with subprocess.Popen(
            argv, env={"PATH": SEARCH, "LC_ALL": "C"}, cwd="/", text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as process:  # fmt: skip
            assert process.stdout
            try:
                while ready not in (line := process.stdout.readline()):
                    assert line, f"{argv[-1]} ended before it was ready"
                yield process
            finally:
                process.kill()


@contextlib.contextmanager
def live_lab(backend: str, user: User, *bare: str) -> Iterator[Paths]:
    """A lab whose tunnels that backend carries, but for hosts in these roles; skips where it cannot."""
    require("ping", "iperf3")
    with subprocess.Popen(
        [*user.words, user.python, "-c", (HERE / "owner.py").read_text(), backend, TESTBED, *bare],
        env={**os.environ, "PATH": SEARCH, "PYTHONPATH": user.env["PYTHONPATH"]}, cwd="/", text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as owner:  # fmt: skip
        assert owner.stdout
        assert owner.stderr
        try:
            line = owner.stdout.readline()
            reported: dict[str, Any] = json.loads(line) if line else {"trouble": owner.stderr.read()}
            if "missing" in reported:
                pytest.skip(f"this cannot carry tunnels here: {reported['missing']}")
            assert not reported["trouble"], reported["trouble"]
            assert set(reported["backends"].values()) == {backend}
            yield Paths(user, reported["entries"])
        finally:
            _, said = owner.communicate()
    assert not said
    assert not owner.returncode


class Elsewhere:
    """What came of the tests of a module in the guest, by name."""

    def __init__(self, reported: Sequence[Told]) -> None:
        self._told = {each.name.rpartition("::")[2]: each for each in reported}

    def judge(self, item: pytest.Function) -> None:
        """As the item of that name ended there."""
        found = self._told[item.name]
        if found.outcome == "skipped":
            pytest.skip(found.why)
        if found.outcome != "passed":
            pytest.fail(f"in User Mode Linux:\n{found.why}", pytrace=False)


@pytest.fixture(scope="module")
def elsewhere(request: pytest.FixtureRequest) -> Iterator[Callable[[], Elsewhere]]:
    """Gives what came of the module's tests in a guest, which runs them beside those of other backends."""
    asked = any(item.path == request.path and _by_kernel(item) for item in request.session.items)
    if not asked or in_guest() or not BACKENDS[KERNEL].missing():
        yield lambda: pytest.fail("there is nothing elsewhere")
    elif why := missing():
        yield lambda: pytest.skip(why)
    else:
        with Guest() as guest:
            # Without what other tests need: importing it takes there longer than all else.
            needed = ["-p", "tests.support.needs", "-p", "tests.support.hosts.users", f"--confcutdir={HERE}"]
            reported = guest.begin_pytest(str(request.path), "-k", KERNEL, *needed)
            yield lambda: Elsewhere(reported(_GUEST_S))


@pytest.fixture(scope="module", params=CARRIERS)
def paths(request: pytest.FixtureRequest, elsewhere: Callable[[], Elsewhere]) -> Iterator[Paths | Elsewhere]:
    """A lab for each backend."""
    if request.param == KERNEL and not in_guest() and BACKENDS[KERNEL].missing():
        yield elsewhere()
        return
    user: User = request.getfixturevalue("nobody" if request.param == AS_NOBODY else "me")
    with live_lab(request.param.split()[0], user) as lab:
        yield lab


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever the order, the guest's tests are told last, as they take longest and need not be waited for."""
    places = [place for place, item in enumerate(items) if item.path.parent == HERE]
    modules: dict[Path, list[pytest.Item]] = {}
    for place in places:
        modules.setdefault(items[place].path, []).append(items[place])
    ordered = [item for each in modules.values() for item in sorted(each, key=_by_kernel)]
    for place, item in zip(places, ordered, strict=True):
        items[place] = item


def _by_kernel(item: pytest.Item) -> bool:
    return f"[{KERNEL}" in item.name


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    found = pyfuncitem.funcargs.get("paths")
    if isinstance(found, Elsewhere):
        found.judge(pyfuncitem)
        return True
    return None
