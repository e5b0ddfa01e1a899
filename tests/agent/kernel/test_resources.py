"""Memory and descriptors of processes."""

import os
import subprocess
import sys

from pytest_ipperf.agent.kernel.resources import Resources, resources_of

MIB = 2**20


def test_what_a_process_takes_and_opens_is_seen():
    before = resources_of([os.getpid()])
    taken = bytearray(os.urandom(32 * MIB))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(7)]
    try:
        after = resources_of([os.getpid()])
    finally:
        for each in opened:
            os.close(each)
    assert 31 * MIB < after.memory_bytes - before.memory_bytes < 40 * MIB
    assert after.descriptors - before.descriptors == 7
    assert len(taken) == 32 * MIB


def test_processes_are_summed_and_those_that_are_gone_add_nothing():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        one, both = resources_of([os.getpid()]), resources_of([os.getpid(), other.pid])
        other.communicate(b"\n")
    assert both.memory_bytes > one.memory_bytes
    assert both.descriptors > one.descriptors
    assert resources_of([other.pid]) == Resources(memory_bytes=0, descriptors=0)
