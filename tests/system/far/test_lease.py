"""Two jobs on one testbed of real hosts: the second one is told who holds them, since when and from where."""

from __future__ import annotations

import os
import re
import signal
import time

import pytest

from tests.support.hosts.ssh_hosts import SUITE

LONG = SUITE.replace("[1, 10]", "[10]")


@pytest.mark.evidence
def test_who_comes_second_is_told_who_ordered_what_from_where_even_of_a_holder_that_was_stopped(farm):
    stands = farm()
    holder = stands.session("--testbed=bed1", "--design=paper", suite=LONG, env={"LOGNAME": "alice"})
    server = stands.hosts["server1"]
    end = time.monotonic() + 60
    while "pytest-ipperf.lease" not in server.run("cat", "/proc/net/unix") and time.monotonic() < end:
        time.sleep(0.05)
    os.killpg(holder.pid, signal.SIGSTOP)
    try:
        second = stands.session("--design=smoke", "--ipperf-wait=1s", suite=LONG, env={"LOGNAME": "bob"})
        said, _ = second.communicate(timeout=200)
    finally:
        os.killpg(holder.pid, signal.SIGCONT)
        holder.terminate()
        holder.communicate(timeout=200)
    held = r"held by process \d+ of user 0 since \d\d:\d\d:\d\d \(alice@\S+: pytest .*--testbed=bed1 .*\)"
    assert re.search(rf"waiting for host (client|server)1, which is {held}$", said, re.MULTILINE), said
    assert re.search(rf"host (client|server)1 is still {held} after 1 s; wait for it or end it", said), said
    assert stands.left() == []
