"""Memory and descriptors of processes."""

import contextlib
import subprocess
import sys

import pytest

from pytest_ipperf.agent.kernel.resources import Resources, resources_of

MIB = 2**20
# It takes pages of its own: malloc may hand out memory again that the process has freed, but not given back.
HOLDER = f"""
import mmap, os
print(flush=True)
input()
taken = mmap.mmap(-1, {32 * MIB}, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for at in range(0, {32 * MIB}, mmap.PAGESIZE):
    taken[at] = 1
opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(7)]
print(flush=True)
input()
"""


@pytest.fixture
def started():
    """Start processes that wait for a line, take memory and descriptors, and wait again."""
    with contextlib.ExitStack() as stack:

        def start():
            argv = [sys.executable, "-I", "-S", "-c", HOLDER]
            process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            stack.enter_context(process)
            stack.callback(process.kill)
            assert process.stdout is not None
            assert process.stdout.readline() == b"\n"
            return process

        yield start


def test_what_a_process_takes_and_opens_is_seen(started):
    holder = started()
    before = resources_of([holder.pid])
    holder.stdin.write(b"\n")
    holder.stdin.flush()
    assert holder.stdout.readline() == b"\n"
    after = resources_of([holder.pid])
    assert 31 * MIB < after.memory_bytes - before.memory_bytes < 40 * MIB
    assert after.descriptors - before.descriptors == 7


def test_processes_are_summed_and_those_that_are_gone_add_nothing(started):
    one, other = started(), started()
    each, both = [resources_of([process.pid]) for process in (one, other)], resources_of([one.pid, other.pid])
    assert both.memory_bytes == sum(found.memory_bytes for found in each)
    assert both.descriptors == sum(found.descriptors for found in each)
    assert min(found.memory_bytes for found in each) > MIB
    other.kill()
    other.wait()
    assert resources_of([one.pid, other.pid]) == each[0]
    assert resources_of([other.pid]) == Resources(memory_bytes=0, descriptors=0)
