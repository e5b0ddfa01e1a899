"""Limits of segments, on a device of a namespace."""

from __future__ import annotations


def test_a_limit_of_segments_is_the_device_s(isolated):
    code = """
import json, subprocess
from pytest_ipperf.agent.kernel.gso import limit_segments
def limit(device):
    shown = subprocess.run(["ip", "-d", "-j", "link", "show", device], capture_output=True, check=True).stdout
    return json.loads(shown)[0]["gso_max_segs"]
subprocess.run("ip link add one type veth peer name two", shell=True, check=True)
before = limit("one"), limit("two")
limit_segments("one", 1)
print(before[0] > 1, limit("one"), limit("two") == before[1])
"""
    assert isolated(code) == "True 1 True"
