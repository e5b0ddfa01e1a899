"""Leases held by real processes: seen by others, named, released however their holder ends."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.agent.host_state import lease as lease_module
from pytest_ipperf.agent.host_state.lease import Lease

ROOT = Path(__file__).parents[3]
HOLDER = """
import sys
from pytest_ipperf.agent.host_state.lease import Lease
lease = Lease(sys.argv[2], sys.argv[1])
print(lease.acquire(float(sys.argv[3])), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def name(request):
    """Return a name that is not the lease of this machine, on which someone may be measuring."""
    digest = hashlib.sha256(request.node.name.encode()).hexdigest()[:12]
    return f"\0pytest-ipperf.test.{os.getpid()}.{digest}"


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
    """Start another process that asks for the lease and keeps it if acquired; return it and the holder."""
    started = []

    def start(owner="them", wait_s=0.0):
        # The name begins with a null byte, which no argument can.
        code = HOLDER.replace("sys.argv[1]", repr(name)).replace("sys.argv[2]", repr(owner))
        process = subprocess.Popen(
            [sys.executable, "-c", code, "", "", str(wait_s)],
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
    holder = lease_of().acquire(0)
    assert process.poll() is None  # it was not waited for
    assert re.match(rf"process {process.pid} of user {os.geteuid()} since \d\d:\d\d:\d\d \(", holder)
    assert f"({sys.executable} -c" in holder


def test_it_is_told_since_when_it_is_held_and_not_since_when_the_process_runs(lease_of, monkeypatch):
    """The clock may have been set since."""
    awake_s, clock_s = lease_module._awake_s(), time.time()
    lease = lease_of()
    assert lease.acquire(0) == ""
    monkeypatch.setattr(lease_module, "_awake_s", lambda: awake_s + 3600)
    monkeypatch.setattr(time, "time", lambda: clock_s + 3600)
    took = [time.strftime("%H:%M:%S", time.localtime(clock_s + late)) for late in range(-1, 60)]
    assert lease.holder().partition(" since ")[2][:8] in took
    monkeypatch.setattr(lease_module, "_awake_s", lambda: awake_s + 86400)
    assert re.search(r" since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d \(", lease.holder())


def test_it_is_told_from_where_it_was_ordered_and_by_which_command(lease_of, other):
    process, _ = other("job\nme@desk: pytest -m 'smtp and not slow' --testbed=büro")
    assert lease_of().holder().startswith(f"process {process.pid} of user {os.geteuid()} since ")
    assert lease_of().holder().endswith(" (me@desk: pytest -m 'smtp and not slow' --testbed=büro)")


def test_of_a_holder_that_was_stopped_all_of_it_is_told(lease_of, other):
    process, _ = other("job\nme@desk: pytest")
    process.send_signal(signal.SIGSTOP)
    assert re.search(r" since \d\d:\d\d:\d\d \(me@desk: pytest\)$", lease_of().acquire(0))


def test_to_a_user_without_rights_all_of_it_is_told(lease_of, name, nobody):
    assert lease_of("job\nme@desk: pytest").acquire(0) == ""
    code = f"from pytest_ipperf.agent.host_state.lease import Lease; print(Lease('other', {name!r}).acquire(0))"
    asked = subprocess.run(nobody.argv(code), env=nobody.env, capture_output=True, text=True, check=False, cwd="/")
    assert (asked.returncode, asked.stderr) == (0, "")
    assert re.fullmatch(rf"process {os.getpid()} of user {os.geteuid()} since \S+ \(me@desk: pytest\)\n", asked.stdout)


def test_long_commands_are_cut_and_what_a_terminal_would_obey_is_left_out(lease_of):
    lease = lease_of("job\nme@desk: pytest \x1b[2J\r\n" + "ä" * 1000)
    assert lease.acquire(0) == ""
    holder = lease.holder().partition("(")[2]
    assert holder.startswith("me@desk: pytest  [2J  ää")
    assert holder.removesuffix(")").isprintable()
    assert holder.endswith("ä...)")
    assert len(holder) == 121


def test_what_another_process_pretends_to_tell_is_not_believed(lease_of, name, other):
    """Anybody can take a name."""
    process, _ = other("job\nme@desk: pytest")
    lies = []
    for piece in lease_module._pieces(name, "0\nthe kernel: it is yours"):
        lies.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        lies[-1].bind(piece)
        lies[-1].listen()
    holder = lease_of().holder()
    for lie in lies:
        lie.close()
    assert holder.startswith(f"process {process.pid} ")
    assert holder.endswith(" (me@desk: pytest)")


@pytest.fixture
def listening():
    """Yield sockets with names that anybody can take, with room for so many connections."""
    taken = []

    def listen(name, room=8):
        taken.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        taken[-1].bind(name)
        taken[-1].listen(room)

    yield listen
    for each in taken:
        each.close()


@pytest.mark.parametrize("since", ["inf", "-inf", "nan", "1e300", "1e12", "-1", "soon"])
def test_a_holder_that_lies_about_since_when_is_known_by_the_kernel(lease_of, name, listening, since):
    listening(name)
    for piece in lease_module._pieces(name, f"{since}\nthe kernel: it is yours"):
        listening(piece)
    holder = lease_of().acquire(0)
    assert re.match(rf"process {os.getpid()} of user {os.geteuid()}, running since \d\S+ \(\S+", holder)
    assert "yours" not in holder


def test_names_with_full_queues_keep_nobody_from_the_truth(lease_of, name, listening):
    asking = []
    for _ in range(8):
        (piece,) = lease_module._pieces(name, "0\nthe kernel")
        listening(piece, room=0)
        asking.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        asking[-1].connect(piece)
    assert lease_of("job\nme@desk: pytest").acquire(0) == ""
    holder = lease_of("another").acquire(0)
    for each in asking:
        each.close()
    assert holder.endswith(" (me@desk: pytest)")


def test_not_more_names_are_looked_at_than_there_is_time_for(lease_of, name, monkeypatch):
    asked = []
    monkeypatch.setattr(lease_module, "_ASKING_S", 0.0)
    assert lease_of("job\nme@desk: pytest").acquire(0) == ""
    peer = lease_module._peer

    def noted(each):
        asked.append(each)
        return peer(each)

    monkeypatch.setattr(lease_module, "_peer", noted)
    assert f"process {os.getpid()} of user {os.geteuid()}, running since " in lease_of("another").holder()
    assert asked == [name]


@given(st.text(max_size=300))
def test_whatever_is_told_is_a_line_and_names_fit(ordered):
    name = "\0pytest-ipperf.test"
    pieces = lease_module._pieces(name, f"1\n{ordered}")
    assert all(len(piece) < 108 for piece in pieces)
    assert "\n" not in lease_module._described((1, 0), 1.0, ordered)


def test_a_holder_that_tells_nothing_is_known_by_the_kernel(lease_of, name):
    """Earlier versions do not."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as old:
        old.bind(name)
        old.listen()
        holder = lease_of().acquire(0)
    assert re.match(rf"process {os.getpid()} of user {os.geteuid()}, running since \d\S+ \(\S+", holder)


def test_it_is_refused_after_the_wait_and_not_before(lease_of, other):
    other()
    begun = time.monotonic()
    assert lease_of().acquire(0.3) != ""
    assert time.monotonic() - begun >= 0.3


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_dead_holder_holds_nothing(lease_of, other, number):
    process, _ = other()
    process.send_signal(number)
    process.wait(60)
    assert lease_of().acquire(1) == ""


def test_one_who_waits_gets_it_when_it_is_free(lease_of, other):
    ours = lease_of()
    assert ours.acquire(0) == ""
    process, said = other(wait_s=0.0)
    assert f"process {os.getpid()} " in said
    ours.release()
    _, said = other(wait_s=60.0)
    assert said == ""
    assert process.poll() is None


def test_the_same_job_may_have_it_twice(lease_of, other):
    """Two hosts of its testbed may be one machine."""
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
    """The holder accepts no connections, so they accumulate while it holds the lease."""
    process, _ = other("job")
    for _ in range(300):
        assert f"process {process.pid} " in lease_of("another").acquire(0)
    # The same job asks under another name.
    for _ in range(300):
        assert lease_of("job").acquire(0) == ""


def test_another_network_namespace_is_another_host(lease_of, name, isolated):
    assert lease_of().acquire(0) == ""
    code = f"from pytest_ipperf.agent.host_state.lease import Lease; print(repr(Lease('other', {name!r}).acquire(0)))"
    assert isolated(code) == "''"


def test_a_holder_in_another_process_namespace_is_said_to_be_unseen(lease_of, name):
    assert lease_of("job\nme@desk: pytest").acquire(0) == ""
    code = f"from pytest_ipperf.agent.host_state.lease import Lease; print(Lease('other', {name!r}).acquire(0))"
    words = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--pid", "--fork"]
    done = subprocess.run(
        [*words, sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        pytest.skip(f"no rights for a process namespace ({done.stderr.strip()})")
    assert re.fullmatch(r"a process that cannot be seen from here since \S+ \(me@desk: pytest\)", done.stdout.strip())
