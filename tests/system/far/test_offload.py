"""Offloads of hosts behind ssh, found in a mixed setting: switched, and put back also after the session was killed."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

import pytest_ipperf
from tests.support.needs import require

SUITE = (Path(pytest_ipperf.__file__).parents[1] / "suites/offload/test_offload.py").read_text()
ARGUMENTS = ("--design=glance", "--transport=native", "--duration=200ms", "-p", "no:randomly")
DEVICES = r"$(ip -o link | sed -n 's/^[0-9]*: \([^:@]*\).*/\1/p' | grep -v '^lo$')"
# TSO is not in force without checksums, and is wanted all the same; one of its features is not.
MIXED = f"""
for each in {DEVICES}; do
    for words in "tx-tcp6-segmentation off" "tx off" "gro off"; do ethtool -K $each $words >/dev/null; done
done
"""
SHOWN = f"for each in {DEVICES}; do ethtool -k $each; done"
_PATIENCE_S, _POLL_S = 60.0, 0.5


@pytest.fixture
def mixed(farm):
    """Return a farm with the mixed setting on all hosts, and a function for what ethtool shows of all of them."""
    require("ethtool")
    hosts = farm()
    for host in hosts.hosts.values():
        host.run("sh", "-ec", MIXED)
    return hosts, lambda: [host.run("sh", "-ec", SHOWN) for host in hosts.hosts.values()]


def test_hosts_have_their_own_setting_again(mixed):
    hosts, shown = mixed
    before = shown()
    process = hosts.session(*ARGUMENTS, suite=SUITE)
    output, _ = process.communicate(timeout=240)
    assert shown() == before, output
    runs = hosts.events("run")
    assert {run["arm"].rpartition("_")[2] for run in runs} == {"off", "on"}, output
    assert all(
        any(counts["out"] for counts in run["proof"]["merged"].values()) == run["arm"].endswith("_on") for run in runs
    )
    assert hosts.left() == []


def test_a_session_that_is_killed_leaves_them_as_they_were(mixed):
    hosts, shown = mixed
    before = shown()
    process = hosts.session(*ARGUMENTS, "--design=quick", suite=SUITE)  # so long that it has not ended by itself
    _until(lambda: len(hosts.events("run")) > 2)
    _until(lambda: shown() != before)
    assert process.poll() is None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    _until(lambda: shown() == before)


def _until(held):
    end = time.monotonic() + _PATIENCE_S
    while not held():
        assert time.monotonic() < end
        time.sleep(_POLL_S)
