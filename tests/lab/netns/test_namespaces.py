"""The built-in lab for real: up as root and as any user, and gone however its owner ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.lab.netns import namespaces as lab

# Builds labs, tells all about them as one line of JSON, and keeps them until its standard input ends.
BUILDS = """
import json, socket, subprocess, sys, time
from contextlib import ExitStack
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.lab.netns.namespaces import namespaces

def inside(entry, *argv):
    return subprocess.run([*entry, *argv], capture_output=True, text=True, check=True, cwd="/").stdout

ECHO = '''
import socket, sys
with socket.create_server((sys.argv[1], 20000), family=socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET) as s:
    print(flush=True)
    s.accept()[0].sendall(b"hello")
'''
ASK = 'import socket, sys; print(socket.create_connection((sys.argv[1], 20000), 5).recv(9).decode())'

def reached(entries, address):
    server = [*entries["server"], sys.executable, "-c", ECHO, address]
    with subprocess.Popen(server, stdout=subprocess.PIPE, cwd="/") as echo:
        echo.stdout.readline()
        return inside(entries["client"], sys.executable, "-c", ASK, address).strip()

def settled(entry):
    # Once the kernel has taken note of its addresses, for which it may have asked whether others have them.
    end = time.monotonic() + 30
    while True:
        (device,) = json.loads(inside(entry, "ip", "-j", "addr", "show", "eth0"))
        if not any(a.get("tentative") for a in device["addr_info"]) or time.monotonic() > end:
            return device

def asked_for_duplicates(entry):
    counters = dict(line.split() for line in inside(entry, "cat", "/proc/net/snmp6").splitlines())
    return int(counters["Icmp6OutNeighborSolicits"])

def lab_facts(entries, took):
    found = {"took": took, "folder": next(w for w in entries["client"] if w.startswith("TMPDIR=")).split("=")[1]}
    for name, entry in entries.items():
        device = settled(entry)
        found[name] = {
            "addresses": sorted(a["local"] for a in device["addr_info"] if a["scope"] == "global"),
            "tentative": [a["local"] for a in device["addr_info"] if a.get("tentative")],
            "asked_for_duplicates": asked_for_duplicates(entry),
            "mtu": device["mtu"],
            "hostname": inside(entry, "uname", "-n").strip(),
            "devices": sorted(d["ifname"] for d in json.loads(inside(entry, "ip", "-j", "link"))),
            "scratch": inside(entry, "sh", "-c", 'echo x > "$TMPDIR/$$" && stat -f -c %T "$TMPDIR"').strip(),
            "net": inside(entry, "readlink", "/proc/self/ns/net").strip(),
        }
    found["reached"] = [reached(entries, a) for a in ("198.18.0.2", "2001:2:0:10::2")]
    return found

with ExitStack() as stack:
    labs = []
    for _ in range(int(sys.argv[1])):
        begun = time.monotonic()
        entries = stack.enter_context(namespaces(BUILTIN["pair"]))
        labs.append((entries, time.monotonic() - begun))
    print(json.dumps([lab_facts(*each) for each in labs]), flush=True)
    sys.stdin.read()
"""
WHY_NOT = "from pytest_ipperf.lab.netns.namespaces import unusable; print(unusable())"


class Owner:
    """A process that has built labs."""

    def __init__(self, user, processes, count):
        asked = subprocess.run(user.argv(WHY_NOT), env=user.env, capture_output=True, text=True, check=True, cwd="/")
        if asked.stdout.strip():
            pytest.skip(f"the lab cannot be built here: {asked.stdout.strip()}")
        self.process = subprocess.Popen(
            user.argv(BUILDS, str(count)), env=user.env, cwd="/", start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout
        line = self.process.stdout.readline()
        processes.below(self.process.pid)
        if not line:
            raise AssertionError(self.process.communicate()[1])
        self.labs = json.loads(line)

    def ended(self):
        """Return its exit status and last output, once its input has ended or it was killed."""
        _, said = self.process.communicate(timeout=100)
        return self.process.returncode, said


@pytest.fixture(params=["me", "nobody"])
def user(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def owner_of(user, processes):
    made = []

    def make(count=1):
        made.append(Owner(user, processes, count))
        return made[-1]

    yield make
    for owner in made:
        owner.process.kill()
        owner.process.communicate()


def still_there(owner, processes):
    """Return what is left of the labs: processes and folders."""
    left = processes.left()
    end = time.monotonic() + 20
    while (folders := [found["folder"] for found in owner.labs if Path(found["folder"]).exists()]) and (
        time.monotonic() < end
    ):
        time.sleep(0.01)
    return left + folders


def test_both_hosts_are_there_with_their_addresses_and_reach_each_other(owner_of, processes, record_property):
    owner = owner_of()
    (found,) = owner.labs
    print(f"built in {found['took']:.2f} s")  # noqa: T201 - for who asks with -s
    record_property("lab_built_in_s", found["took"])
    for role, number in (("client", 1), ("server", 2)):
        host = found[role]
        assert host["addresses"] == [f"198.18.0.{number}", f"2001:2:0:10::{number}"]
        assert host["tentative"] == []
        assert host["asked_for_duplicates"] == 0
        assert host["mtu"] == 1500
        assert host["hostname"] == role
        assert {"eth0", "lo"} <= set(host["devices"])
        assert host["scratch"] == "tmpfs"
    assert found["client"]["net"] != found["server"]["net"]
    assert found["reached"] == ["hello", "hello"]
    # The scratch folder is the lab's alone: from outside, an empty folder is all there is.
    assert list(Path(found["folder"]).iterdir()) == []
    assert owner.ended() == (0, "")
    assert still_there(owner, processes) == []


def test_two_labs_stand_at_once_and_know_nothing_of_each_other(owner_of, processes):
    owner = owner_of(2)
    one, two = owner.labs
    assert one["reached"] == two["reached"] == ["hello", "hello"]
    assert len({found[role]["net"] for found in owner.labs for role in ("client", "server")}) == 4
    assert one["folder"] != two["folder"]
    assert owner.ended() == (0, "")
    assert still_there(owner, processes) == []


@pytest.mark.parametrize("whole_group", [False, True], ids=["the owner", "the owner's process group"])
def test_nothing_is_left_when_its_owner_is_killed(owner_of, processes, whole_group):
    devices = set(socket.if_nameindex())
    owner = owner_of()
    if whole_group:
        os.killpg(owner.process.pid, signal.SIGKILL)
    else:
        owner.process.kill()
    owner.process.wait()
    assert still_there(owner, processes) == []
    assert set(socket.if_nameindex()) <= devices


def test_a_ctrl_c_takes_it_down_in_order(owner_of, processes):
    owner = owner_of()
    os.killpg(owner.process.pid, signal.SIGINT)
    status, said = owner.ended()
    assert status != 0
    assert said.strip().endswith("KeyboardInterrupt")
    assert still_there(owner, processes) == []


@pytest.fixture
def usable():
    if why := lab.unusable():
        pytest.skip(f"the lab cannot be built here: {why}")


@pytest.fixture
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def refused():
    with pytest.raises(LabError) as caught, lab.namespaces(BUILTIN["pair"]):
        pass
    return str(caught.value)


@pytest.mark.usefixtures("usable", "_own_folder")
@pytest.mark.parametrize(
    ("init", "sentence"),
    [
        ("echo broken >&2; exit 1", "the lab did not come up: broken"),
        ("exit 1", "the lab did not come up: no message"),
        ("exec cat", "the lab did not come up in 1 s"),
        # Its first process does not listen, so that it has to be killed.
        ("exec sleep 1000", "the lab did not come up in 1 s"),
    ],
)
def test_a_lab_that_does_not_come_up_is_one_sentence_and_leaves_nothing(
    monkeypatch, processes, tmp_path, init, sentence
):
    monkeypatch.setattr(lab, "_INIT", init)
    monkeypatch.setattr(lab, "_TIMEOUT_S", 1.0 if sentence.endswith(" in 1 s") else 60.0)
    end = lab._end
    monkeypatch.setattr(lab, "_end", lambda holder: (processes.below(holder.pid), end(holder)))
    assert refused() == sentence
    assert processes.left() == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("usable", "_own_folder")
def test_a_command_that_fails_inside_is_told_in_its_own_words(monkeypatch, tmp_path):
    long = "a-name-longer-than-fifteen"
    line = f"link set {long} up\n"
    monkeypatch.setattr(lab, "create_veths", lambda _, __, run: run("client", ["ip", "-batch", "-"], line))
    sentence = refused()
    assert sentence.startswith("the lab did not come up: ")
    assert long in sentence
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("program", "package"),
    [("ip", "iproute2"), ("tc", "iproute2"), ("unshare", "util-linux"), ("nsenter", "util-linux")],
)
def test_a_missing_program_is_named_with_its_package(monkeypatch, tmp_path, program, package):
    for name in {"ip", "tc", "unshare", "nsenter"} - {program}:
        (tmp_path / name).symlink_to(shutil.which("true") or "")
    monkeypatch.setattr(lab, "_PATH", str(tmp_path))
    why = f"program {program!r} is not installed (Debian: apt-get install {package})"
    assert lab._way_to_root.__wrapped__() == (False, why)


def test_missing_rights_are_told_and_what_needs_none(monkeypatch, tmp_path):
    for name in ("ip", "tc", "unshare", "nsenter"):
        (tmp_path / name).write_text("#!/bin/sh\necho unshare: Operation not permitted >&2\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(lab, "_PATH", str(tmp_path))
    found = lab._way_to_root.__wrapped__()
    assert found == (False, "no rights for namespaces (unshare: Operation not permitted)")
    monkeypatch.setattr(lab, "_way_to_root", lambda: found)
    assert lab.unusable() == found[1]
    assert refused() == f"testbed pair: cannot be built here: {found[1]}; --testbed=loopback needs no namespaces"


@pytest.mark.usefixtures("usable")
def test_a_path_of_any_form_is_handed_on(monkeypatch):
    monkeypatch.setattr(lab, "_PATH", f"/opt//bin:/a b:{lab._PATH}")
    with lab.namespaces(BUILTIN["pair"]) as entries:
        done = subprocess.run(
            [*entries["client"], "sh", "-c", 'echo "$PATH"'], capture_output=True, text=True, check=True
        )
    assert done.stdout.startswith("/opt//bin:/a b:")
