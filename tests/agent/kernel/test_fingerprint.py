"""Fingerprint of this host, compared with other sources."""

from __future__ import annotations

import ast
import os
import platform
import socket
from pathlib import Path

from pytest_ipperf.agent.kernel.fingerprint import fingerprint

# ETHTOOL_STSO, ETHTOOL_SGSO and ETHTOOL_SGRO of linux/ethtool.h: the same ioctl that reads them.
SWITCH = """
import array, fcntl, socket, struct
from pytest_ipperf.agent.kernel.fingerprint import fingerprint
def switch(command, value):
    asked = array.array("I", [command, value])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, 0x8946, struct.pack("16sP", b"one", asked.buffer_info()[0]) + bytes(16))
before = fingerprint("one")["offloads"]
for command in (0x1F, 0x24, 0x2C):
    switch(command, 0)
print([before, fingerprint("one")["offloads"]])
"""


def test_it_tells_what_this_host_is():
    found = fingerprint("lo")
    assert found["kernel"] == platform.release()
    assert found["machine"] == platform.machine()
    assert found["python"] == platform.python_version()
    assert found["cpus"] == os.cpu_count()
    assert found["cpus_allowed"] == sorted(os.sched_getaffinity(0))
    assert found["cpu"]
    assert found["device"] == "lo"


def test_it_is_the_same_every_time():
    assert fingerprint("lo") == fingerprint("lo")


def test_settings_are_told_by_their_names_and_those_that_are_missing_too(monkeypatch):
    monkeypatch.setattr(
        "pytest_ipperf.agent.kernel.fingerprint._SYSCTLS", ("net/ipv4/ip_local_port_range", "net/no/such")
    )
    low, high = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    assert fingerprint("lo")["sysctl"] == {"net.ipv4.ip_local_port_range": f"{low} {high}", "net.no.such": "not there"}


def test_a_device_that_does_not_exist_has_no_offloads():
    for device in ("no-such-device", ""):
        assert fingerprint(device)["offloads"] == {}


def test_every_device_of_this_host_can_be_asked():
    for _, device in socket.if_nameindex():
        assert all(isinstance(value, bool) for value in fingerprint(device)["offloads"].values())


def test_an_offload_that_is_switched_off_is_seen(isolated):
    printed = isolated(SWITCH, "ip link add one type veth peer name two")
    before, after = ast.literal_eval(printed.splitlines()[-1])
    assert {"tso", "gso"} <= {name for name, on in before.items() if on}
    assert not after["tso"]
    assert not after["gso"]
    assert not after["gro"]
    assert after["tx-checksum"] == before["tx-checksum"]
