"""Leases held by real processes: seen by others, named, freed however their holder ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_ipperf.agent.lease import Lease

ROOT = Path(__file__).parents[2]
HOLDER = """
import sys
from pytest_ipperf.agent.lease import Lease
lease = Lease(sys.argv[2], sys.argv[1])
print(lease.acquire(float(sys.argv[3])), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def name(request):
    """Not the lease of this machine, on which someone may measure just now."""
    return f"\0pytest-ipperf.test.{os.getpid()}.{request.node.name}"


@pytest.fixture
def lease_of(name):
    made = []

    def make(owner="us"):
        made.append(Lease(owner, name))
        return made[-1]

    yield make
    for lease in made:
        lease.release()


@pytest.fixture
def other(name):
    """Starts another process that asks for the lease and keeps what it gets; with what it was told."""
    started = []

    def start(owner="them", wait_s=0.0):
        # The name begins with a null byte, which no argument can.
        code = HOLDER.replace("sys.argv[1]", repr(name))
        process = subprocess.Popen(
            [sys.executable, "-c", code, "", owner, str(wait_s)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        started.append(process)
        assert process.stdout
        return process, process.stdout.readline().strip()

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_a_free_lease_is_ours_at_once(lease_of):
    lease = lease_of()
    assert lease.holder() == ""
    assert lease.acquire(0) == ""
    assert f"process {os.getpid()} of user {os.geteuid()}" in lease.holder()


def test_the_holder_is_named_by_process_user_and_command(lease_of, other):
    process, said = other()
    assert said == ""
    begun = time.monotonic()
    holder = lease_of().acquire(0)
    assert time.monotonic() - begun < 1
    assert holder.startswith(f"process {process.pid} of user {os.geteuid()}, running since ")
    assert f"({sys.executable} -c" in holder


def test_it_is_refused_after_the_wait_and_not_before(lease_of, other):
    other()
    begun = time.monotonic()
    assert lease_of().acquire(0.3) != ""
    assert 0.3 <= time.monotonic() - begun < 3


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_dead_holder_holds_nothing(lease_of, other, number):
    process, _ = other()
    process.send_signal(number)
    process.wait(10)
    assert lease_of().acquire(1) == ""


def test_one_who_waits_gets_it_when_it_is_free(lease_of, other):
    ours = lease_of()
    assert ours.acquire(0) == ""
    process, said = other(wait_s=0.0)
    assert f"process {os.getpid()} " in said
    ours.release()
    _, said = other(wait_s=5.0)
    assert said == ""
    assert process.poll() is None


def test_the_same_job_may_have_it_twice(lease_of, other):
    """Where two hosts of its testbed are one machine."""
    assert lease_of("job").acquire(0) == ""
    assert lease_of("job").acquire(0) == ""
    _, said = other("job")
    assert said == ""
    _, said = other("another")
    assert f"process {os.getpid()} " in said


def test_what_is_given_back_may_be_taken_again_and_again(lease_of):
    lease, second = lease_of("one"), lease_of("two")
    for _ in range(3):
        assert lease.acquire(0) == ""
        assert second.acquire(0) != ""
        lease.release()
        lease.release()
        assert second.acquire(0) == ""
        second.release()


def test_its_holder_is_told_however_often_it_is_asked(lease_of, other):
    """Those who ask are not attended to, so they pile up as long as it is held."""
    process, _ = other("job")
    for _ in range(300):
        assert f"process {process.pid} " in lease_of("another").acquire(0)
    # The same job asks under another name.
    for _ in range(300):
        assert lease_of("job").acquire(0) == ""


def test_another_network_namespace_is_another_host(lease_of, name, isolated):
    assert lease_of().acquire(0) == ""
    code = f"from pytest_ipperf.agent.lease import Lease; print(repr(Lease('other', {name!r}).acquire(0)))"
    assert isolated(code) == "''"


def test_a_holder_in_another_process_namespace_is_said_to_be_unseen(lease_of, name):
    assert lease_of().acquire(0) == ""
    code = f"from pytest_ipperf.agent.lease import Lease; print(Lease('other', {name!r}).acquire(0))"
    words = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--pid", "--fork"]
    done = subprocess.run(
        [*words, sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        pytest.skip(f"no rights for a process namespace ({done.stderr.strip()})")
    assert done.stdout.strip() == "a process that cannot be seen from here"
