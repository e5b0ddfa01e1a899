"""The guest machine has a kernel of its own with the real driver, returns the results of tests, and leaves nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from pytest_ipperf.agent.kernel.processes import survivors, tree
from tests.support.hosts import uml_guest
from tests.support.hosts.uml_guest import ROOT, SEARCH, Guest, missing
from tests.support.pings import ping, whole

_TESTS = """
    from pathlib import Path
    import pytest

    def test_passes():
        assert Path("/sys/module/sit").is_dir()

    def test_fails():
        assert not "as asked"

    def test_is_skipped():
        pytest.skip("as asked")
"""
# Makes the kernel refuse ptrace (101) to this process and its children (seccomp(2)), then checks it.
_FORBIDDEN = """
import ctypes, struct
from tests.support.hosts.uml_guest import missing
steps = [(0x20, 0, 0, 0), (0x15, 0, 1, 101), (0x06, 0, 0, 0x50001), (0x06, 0, 0, 0x7FFF0000)]
program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
prctl = ctypes.CDLL(None).prctl
assert prctl(38, 1, 0, 0, 0) == prctl(22, 2, struct.pack("HL", len(steps), ctypes.addressof(program))) == 0
print(missing())
"""
_OWNER = """
import sys
from tests.support.hosts.uml_guest import Guest
guest = Guest()
print(guest.folder, guest._process.pid, flush=True)
guest.sh("sleep 0.5")
"""


def _go(condition, limit_s=60.0):
    """Wait until a condition holds; return whether it does."""
    end = time.monotonic() + limit_s
    while not (held := condition()) and time.monotonic() < end:
        time.sleep(0.02)
    return held


def _below(pid):
    return [process for level in tree(pid) for process in level]


@pytest.mark.parametrize(
    ("there", "why"),
    [
        ([], "linux.uml is not installed (Debian: apt-get install user-mode-linux)"),
        (["linux.uml"], "busybox is not installed (Debian: apt-get install busybox-static)"),
    ],
)
def test_what_is_missing_for_it_is_told(monkeypatch, tmp_path, there, why):
    for program in there:
        (tmp_path / program).symlink_to("/bin/true")
    monkeypatch.setattr(uml_guest, "SEARCH", str(tmp_path))
    assert uml_guest.missing() == why


def test_where_ptrace_is_forbidden_it_is_told():
    if why := missing():
        pytest.skip(why)
    done = subprocess.run([sys.executable, "-c", _FORBIDDEN], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "ptrace, by which User Mode Linux runs its processes, is forbidden here\n"


def test_its_kernel_has_the_driver_that_this_one_may_lack(uml):
    made = uml.sh(
        "ip link add s type sit mode ip6ip isatap local 198.18.0.1 ttl 64 && ip link set s up && ip -6 addr show s"
    )
    assert made.returncode == 0, made.stderr
    assert "inet6 fe80::5efe:c612:1/64" in made.stdout


def test_status_and_words_of_a_command_come_back(uml):
    done = uml.run(["sh", "-c", 'printf "%s\\n" "$0"; echo "b c" >&2; exit 7', "a  'b"])
    assert (done.returncode, done.stdout, done.stderr) == (7, "a  'b\n", "b c\n")


def test_much_of_it_does_too(uml):
    assert len(uml.sh("head -c 3000000 /dev/zero | tr '\\0' x").stdout) == 3_000_000


def test_it_can_write_nothing_but_what_is_shared(uml, tmp_path):
    done = uml.sh(f"touch {tmp_path}/a || echo x > {uml.folder}/b; touch /dev/shm/c")
    assert "Read-only file system" in done.stderr
    assert list(tmp_path.iterdir()) == []
    assert (uml.folder / "b").read_text() == "x\n"
    assert not Path("/dev/shm/c").exists()


def test_tests_run_in_it_and_what_came_of_each_comes_back(uml):
    (uml.folder / "test_inner.py").write_text(textwrap.dedent(_TESTS))
    reported = uml.pytest(f"{uml.folder}/test_inner.py", "--noconftest", f"--config-file={ROOT}/pyproject.toml")
    assert [(each.name.rpartition("::")[2], each.outcome, each.why.partition("\n")[0]) for each in reported] == [
        ("test_passes", "passed", ""),
        ("test_fails", "failed", "AssertionError: assert not 'as asked'"),
        ("test_is_skipped", "skipped", "as asked"),
    ]


@pytest.fixture
def network():
    """Yield the words that enter a network namespace with a tap device."""
    if why := missing():
        pytest.skip(why)
    up = "ip tuntap add eth0 mode tap && ip addr add 198.18.0.2/24 dev eth0 && ip link set eth0 up && echo up && cat"
    with subprocess.Popen(
        ["unshare", "--net", "sh", "-c", up],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={"PATH": SEARCH}, text=True,
    ) as holder:  # fmt: skip
        assert holder.stdin
        assert holder.stdout
        assert holder.stderr
        if holder.stdout.readline() != "up\n":
            pytest.skip(f"no tap device can be had here: {holder.stderr.read().strip()}")
        yield ["nsenter", "--target", str(holder.pid), "--net"]
        holder.stdin.close()


def test_it_is_a_peer_on_the_wire(network):
    with Guest(["vec0:transport=tap,ifname=eth0,depth=128,gro=1"], network) as machine:
        assert not machine.sh("ip addr add 198.18.0.1/24 dev vec0; ip link set vec0 up").returncode
        done = machine.run(ping("198.18.0.2", count=2))
        assert whole(done.stdout, 2), done.stdout + done.stderr


def test_nothing_is_left_of_one_that_does_not_hear():
    if why := missing():
        pytest.skip(why)
    with Guest() as machine:
        folder, processes = machine.folder, _below(machine._process.pid)
        with pytest.raises(AssertionError, match=r"silent for 0\.2 s"):
            machine.sh("exec sleep 1000", 0.2)
    assert len(processes) > 5
    assert survivors(processes) == []
    assert not folder.exists()


def test_nothing_is_left_of_one_whose_owner_is_killed():
    if why := missing():
        pytest.skip(why)
    with subprocess.Popen(
        [sys.executable, "-c", _OWNER],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, *sys.path)))},
    ) as owner:
        assert owner.stdout
        folder, pid = owner.stdout.readline().split()
        processes = _below(int(pid))
        owner.send_signal(signal.SIGKILL)
    assert len(processes) > 5
    assert _go(lambda: not survivors(processes))
    assert _go(lambda: not Path(folder).exists())
