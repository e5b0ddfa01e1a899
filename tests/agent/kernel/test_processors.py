"""Processors of a process and of what it starts, on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_ipperf.agent.kernel.processors import Processors
from pytest_ipperf.core.portable.errors import LabError

ALL = sorted(os.sched_getaffinity(0))
ONE = ALL[:1]
# Has processes with threads, each of which says when it has all of them.
MANY = """
import os, threading, time
for _ in range(20):
    threading.Thread(target=time.sleep, args=(30,), daemon=True).start()
    if os.fork() == 0:
        threading.Thread(target=time.sleep, args=(30,), daemon=True).start()
        os.write(1, b"up\\n")
        time.sleep(30)
        os._exit(0)
os.write(1, b"up\\n")
time.sleep(30)
"""
needs_two = pytest.mark.skipif(len(ALL) < 2, reason="this machine has one processor")


@pytest.fixture
def processors() -> Iterator[Processors]:
    yield Processors()
    os.sched_setaffinity(0, ALL)


def tasks(group: int) -> list[int]:
    """Return the processes of a group."""
    found = []
    for pid in [int(each.name) for each in Path("/proc").iterdir() if each.name.isdecimal()]:
        try:
            if os.getpgid(pid) == group:
                found.append(pid)
        except ProcessLookupError:
            continue
    return found


def held(pid: int) -> list[list[int]]:
    return [sorted(os.sched_getaffinity(int(each.name))) for each in Path("/proc", str(pid), "task").iterdir()]


@needs_two
def test_only_those_that_are_allowed_are_bound(processors):
    assert processors.bind([*ONE, 4095]) == ONE
    assert processors.bind([4095]) == ONE
    assert processors.bind(ALL) == ONE


@needs_two
def test_unbound_is_as_before_the_first_binding_and_what_is_started_there_stays_so(processors):
    processors.bind(ONE)
    with processors.unbound():
        assert sorted(os.sched_getaffinity(0)) == ALL
        started = subprocess.Popen(["sleep", "30"])
    with started:
        assert (sorted(os.sched_getaffinity(0)), held(started.pid)) == (ONE, [ALL])
        started.kill()


@needs_two
def test_processors_with_another_memory_stay_out(processors, monkeypatch):
    monkeypatch.setattr("pytest_ipperf.agent.kernel.processors._node", lambda cpu: f"node{cpu}")
    processors.bind(ONE)
    with processors.unbound():
        assert sorted(os.sched_getaffinity(0)) == ONE


@needs_two
def test_all_threads_of_all_processes_are_bound(processors):
    argv = [sys.executable, "-c", MANY]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, start_new_session=True) as many:
        try:
            assert many.stdout
            assert [many.stdout.readline() for _ in range(21)] == 21 * ["up\n"]
            found = tasks(many.pid)
            assert len(found) == 21
            processors.bind(ONE)
            processors.bind_others(lambda: found)
            assert [held(pid) for pid in found] == [[ONE] * len(held(pid)) for pid in found]
        finally:
            os.killpg(many.pid, 9)


@needs_two
def test_what_has_ended_needs_no_processor_and_what_cannot_be_bound_is_an_error(processors, monkeypatch):
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    processors.bind(ONE)
    processors.bind_others(lambda: [ended.pid])
    with processors.unbound():
        held_elsewhere = subprocess.Popen(["sleep", "30"])
    with held_elsewhere:
        monkeypatch.setattr(os, "sched_setaffinity", lambda *_: None)
        with pytest.raises(
            LabError, match=rf"^process {held_elsewhere.pid} cannot be bound to the processors {ONE[0]}$"
        ):
            processors.bind_others(lambda: [held_elsewhere.pid])
        monkeypatch.undo()
        held_elsewhere.kill()
