"""Offloads on the lab's ports: a real session finds their true effect, and one that only pretends is an error."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

import pytest_ipperf
from pytest_ipperf.lab.netns.namespaces import unusable
from pytest_ipperf.store import read_session

SUITE = (Path(pytest_ipperf.__file__).parents[1] / "suites/offload/test_offload.py").read_text()
# Every level is switched to that of `on`, whatever was asked for.
PRETENDING = """
from pytest_ipperf.core.portable.offload import offload_settings
from pytest_ipperf.lab.runs.offloads import HostOffloads
switch = HostOffloads._switch_device
def pretend(self, role, device, settings):
    switch(self, role, device, offload_settings("on"))
    return settings
HostOffloads._switch_device = pretend
"""
SMOKE = ("--testbed=lab", "--design=smoke", "--duration=500ms", "-p", "no:randomly")

pytestmark = pytest.mark.skipif(bool(unusable()), reason=f"the lab cannot be built: {unusable()}")


def test_merged_packets_are_seen_with_offloads_alone_and_the_stream_is_faster(pytester):
    pytester.makepyfile(SUITE)
    pytester.runpytest_subprocess(*SMOKE)
    (folder,) = (pytester.path / ".ipperf/runs").glob("2*")
    workload = read_session(folder).workloads["lab-tcp-c1-128k-vs_offload_off"]
    merged: dict[str, list[int]] = {"off": [], "on": []}
    throughput: dict[str, list[float]] = {"off": [], "on": []}
    for run in workload.runs:
        level = run["arm"].rpartition("_")[2]
        merged[level].append(sum(counts["out"] for counts in run["proof"]["merged"].values()))
        throughput[level].append(run["values"]["throughput"])
    assert len(merged["off"]) == len(merged["on"]) == 8
    assert not any(merged["off"])
    assert all(merged["on"])
    assert statistics.median(throughput["on"]) > 1.5 * statistics.median(throughput["off"])
    states = {
        (arm.rpartition("_")[2], on)
        for epoch in workload.epochs
        for arm, facts in epoch["paths"].items()
        for devices in facts["offloads"].values()
        for settings in devices.values()
        for on in settings.values()
    }
    assert states == {("off", False), ("on", True)}


def test_an_arm_whose_offloads_are_not_what_it_says_is_an_error(pytester):
    pytester.makeconftest(PRETENDING)
    pytester.makepyfile(SUITE)
    result = pytester.runpytest_subprocess(*SMOKE, "--ipver=6")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["*arm ipv6-offload_off is not what it is called*expected no packet larger than the MTU*"]
    )
