"""A session that is killed while it builds a lab with tunnels, and measures on it, leaves nothing of either."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from pytest_ipperf.agent.kernel import processes
from pytest_ipperf.agent.kernel.processes import tree
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.lab.inventory.model import AUTO
from pytest_ipperf.lab.netns.namespaces import unusable
from pytest_ipperf.lab.netns.veth import veth_pairs
from pytest_ipperf.lab.tunnels.backend_choice import lab_backend
from pytest_ipperf.servers.base import true_root

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
SPAN_S = 2.5
_RNG = random.Random("kill -9")
MOMENTS_S = [SPAN_S * (part + _RNG.random()) / 10 for part in range(10)]
"""Since a session's first process: one in each tenth of the time in which it builds its lab and begins to measure."""
PATIENCE_S = 60.0
OTHERS_S = 120.0
"""Longer than an epoch of any other test's session."""
LAB = BUILTIN["lab"]
TUNNELS = {device for path in LAB.paths.values() for device in path.devices.values()}
DEVICES = TUNNELS | {port.device for pair in veth_pairs(LAB) for port in pair}
SUITE = """
import pytest

@pytest.mark.http
@pytest.mark.levels(connections=[1, 10], payload=["10k"])
def test_http(measured, margin):
    assert measured.slowdown <= margin
"""
_OWN_NETWORK = ("unshare", "--net", "sh", "-c", 'PATH=$PATH:/usr/sbin:/sbin; ip link set lo up; exec "$@"', "sh")
_BPF, _PROG_GET_NEXT_ID, _PROG_GET_FD_BY_ID, _OBJ_GET_INFO_BY_FD = 321, 11, 13, 15
_NAME = slice(64, 80)  # of struct bpf_prog_info (linux/bpf.h)
_NAMESPACES = ("net", "mnt", "pid", "uts")


def eventually(condition, patience_s=PATIENCE_S):
    """Whether it comes to hold."""
    end = time.monotonic() + patience_s
    while not (held := condition()) and time.monotonic() < end:
        time.sleep(0.01)
    return held


# --- BPF programs -----------------------------------------------------------------------------------------------------


def bpf(command, words, size=16):
    """bpf(2): the attributes afterwards, or what it returned; OSError where it fails."""
    attributes = (ctypes.c_uint32 * size)(*words)
    libc = ctypes.CDLL(None, use_errno=True)
    returned = libc.syscall(_BPF, command, attributes, ctypes.sizeof(attributes))
    if returned < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return returned, list(attributes)


def programs():
    """The numbers of our BPF programs on this machine, of this and of other sessions."""
    found: set[int] = set()
    number = 0
    while True:
        try:
            number = bpf(_PROG_GET_NEXT_ID, [number])[1][1]
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise
            return found
        with contextlib.suppress(FileNotFoundError):  # it has gone meanwhile
            if program_name(number).startswith("ipperf"):
                found.add(number)


def program_name(number):
    handle = bpf(_PROG_GET_FD_BY_ID, [number])[0]
    try:
        reported = ctypes.create_string_buffer(128)
        address = ctypes.addressof(reported)
        bpf(_OBJ_GET_INFO_BY_FD, [handle, len(reported), address & 0xFFFFFFFF, address >> 32])
    finally:
        os.close(handle)
    return reported.raw[_NAME].rstrip(b"\0").decode()


def held(pids):
    """The BPF programs on which descriptors of these processes are open."""
    said = []
    for pid in pids:
        with contextlib.suppress(OSError):
            for each in Path(f"/proc/{pid}/fdinfo").iterdir():
                with contextlib.suppress(FileNotFoundError):  # one that is closed meanwhile
                    said.append(each.read_text())
    return {int(number) for each in said for number in re.findall(r"^prog_id:\s*(\d+)", each, re.MULTILINE)}


# --- sessions ---------------------------------------------------------------------------------------------------------


def namespaces(pids):
    """Those in which these processes are, by name and number."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            found |= {str(Path(f"/proc/{pid}/ns/{name}").readlink()) for name in _NAMESPACES}
    return found


def devices(pids):
    """The network devices that these processes see."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            found |= set(re.findall(r"^ *(\S+):", Path(f"/proc/{pid}/net/dev").read_text(), re.MULTILINE))
    return found


def runs(records):
    """How many runs all sessions have kept."""
    return sum(path.read_text().count('"event": "run"') for path in records.rglob("*.jsonl"))


def outside():
    """The devices of this machine's own network that may have come from a lab's: others get theirs meanwhile."""
    return {(number, name) for number, name in socket.if_nameindex() if name in DEVICES}


def everybody():
    return [int(each.name) for each in Path("/proc").iterdir() if each.name.isdecimal()]


class Sessions:
    """Where they are begun: in a network namespace and with a folder for temporary files of their own."""

    def __init__(self, folder):
        self.temporary, self.records = folder / "tmp", folder / ".ipperf"
        self.temporary.mkdir()
        folder.chmod(0o755)  # a server's user has to find its pages
        (folder / "test_any.py").write_text(SUITE)
        (folder / "pytest.ini").write_text("")
        argv = [*_OWN_NETWORK, sys.executable, str(HERE / "sessions.py"), "--design=smoke", "--testbed=lab",
                "--transport=tunnel,isatap", "-p", "no:randomly", "-p", "no:cacheprovider"]  # fmt: skip
        self._process = subprocess.Popen(
            argv, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "TMPDIR": str(self.temporary), "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        self.pid = self._process.pid

    def begin(self):
        """The process of a new session, as soon as it has started another one."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        pid = int(self._process.stdout.readline())
        assert eventually(lambda: len(tree(pid)) > 1), self.said()
        return pid

    def below(self):
        """The processes of sessions, also of those that are gone themselves."""
        return [process.pid for level in tree(self.pid)[1:] for process in level if process.alive]

    def around(self):
        """Devices and routes where sessions begin, without those that the sit driver brings into all namespaces."""
        words = ["nsenter", "--target", str(self.pid), "--net", "sh", "-c"]
        asked = "PATH=$PATH:/usr/sbin:/sbin; ip -o link; ip route show table all; ip -6 route show table all"
        said = subprocess.run([*words, asked], capture_output=True, text=True, check=True).stdout
        return [line for line in said.splitlines() if "sit0" not in line]

    def said(self):
        """The last words of the sessions."""
        return (self.records.parent / "log").read_text()[-4000:]

    def close(self):
        for pid in self.below():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.communicate()


@pytest.fixture(scope="module")
def sessions():
    if why := unusable():
        pytest.skip(f"the lab cannot be built here: {why}")
    if not true_root():
        pytest.skip("only root sees all that could be left")
    if why := lab_backend(LAB, AUTO)[1]:
        pytest.skip(f"nothing can carry tunnels here: {why}")
    with tempfile.TemporaryDirectory(prefix="pytest-ipperf-killed-") as folder:
        made = Sessions(Path(folder))
        yield made
        made.close()


def nothing_is_left(sessions, come):
    """Begins a session, kills it when `come` says so, and looks; one that has ended before leaves nothing either."""
    before, others = outside(), programs()
    session = sessions.begin()
    try:
        around = sessions.around()
        come()
        below, everything = sessions.below(), processes._processes()
        inside, loaded = namespaces(below) - namespaces([sessions.pid]), held(below)
        # Now, as the numbers of namespaces that have gone are given to new ones.
        members = [each for each in everything if inside & namespaces([each.pid])]
    finally:
        if session in sessions.below():
            with contextlib.suppress(ProcessLookupError):
                os.kill(session, signal.SIGKILL)
    assert eventually(lambda: not sessions.below()), [
        Path(f"/proc/{pid}/cmdline").read_bytes() for pid in sessions.below()
    ]
    assert eventually(lambda: not list(sessions.temporary.iterdir())), list(sessions.temporary.iterdir())
    assert eventually(lambda: not processes.survivors(members)), processes.survivors(members)
    assert eventually(lambda: not loaded & programs())
    # Filters of tc hold programs without a descriptor. Those of other sessions end with their epochs; what this one has
    # left would stay.
    left = programs() - others - held(everybody())
    assert eventually(lambda: not left & programs(), OTHERS_S), left & programs()
    assert eventually(lambda: sessions.around() == around), sessions.around()
    assert outside() <= before


@pytest.mark.parametrize("moment_s", MOMENTS_S, ids=lambda each: f"after {each:.2f} s")
def test_nothing_is_left_of_a_session_that_is_killed(sessions, moment_s):
    nothing_is_left(sessions, lambda: time.sleep(moment_s))


def test_nothing_is_left_of_one_whose_tunnels_stand(sessions):
    def come():
        assert eventually(lambda: devices(sessions.below()) >= TUNNELS), sessions.said()

    nothing_is_left(sessions, come)


def test_nothing_is_left_of_one_that_measures(sessions):
    before = runs(sessions.records)

    def come():
        assert eventually(lambda: runs(sessions.records) > before), sessions.said()

    nothing_is_left(sessions, come)
