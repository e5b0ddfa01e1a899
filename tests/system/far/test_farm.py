"""The farm itself: what its hosts are, and that nothing of it stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.support.hosts import machines
from tests.support.hosts.ssh_hosts import ROOT
from tests.support.needs import needs

LOOK = "import importlib.metadata as m, os; print(os.uname().nodename, len(list(m.distributions())), os.getcwd())"
KILLED = """
import contextlib, sys, time
from tests.support.hosts.ssh_hosts import Farm, places_of
with contextlib.ExitStack() as stack:
    stands = Farm(stack, places_of(1, 1, routed=False))
    print(stands.folder, *(host.pid for host in stands.hosts.values()), flush=True)
    time.sleep(1000)
"""


@needs("ping", "ss")
def test_hosts_are_machines_of_their_own(farm):
    stands = farm(testbeds=2, clients=2, routed=True)
    assert list(stands.hosts) == [
        *("client1", "client1b", "router1", "server1"),
        *("client2", "client2b", "router2", "server2"),
    ]
    for host in stands.hosts.values():
        words = ["env", "-u", "PYTHONPATH", "ssh", "-F", str(stands.ssh_config), host.name, host.python, "-I", "-c"]
        reported = machines.said([*stands.entry, *words, f"'{LOOK}'"])
        assert reported.split() == [host.name, "0", str(host.home)]
        assert host.run(host.python, "-V").split() == ["Python", host.python_version]
        listening = host.run("sh", "-c", "ss -Htln | awk '{print $4}'").split()
        assert sorted(listening) == sorted([f"{host.control4}:22", f"[{host.control6}]:22"])
    for bed in "12":
        pythons = {host.python_version for host in stands.hosts.values() if bed in host.name}
        assert len(pythons) == min(4, len(machines.bare_pythons()))
    for client, server in (("client1", "server1"), ("client1b", "server1"), ("client2b", "server2")):
        for address, headers in ((stands.hosts[server].ipv4, 28), (stands.hosts[server].ipv6, 48)):
            stands.hosts[client].run("ping", "-c1", "-W20", "-Mdo", f"-s{1500 - headers}", address)
    assert stands.left() == []


def test_what_is_left_is_told(farm):
    stands = farm()
    leave = "sleep 1000 <&- >&- 2>&- & ip link add spare0 type veth; touch /tmp/x ~/y; mkdir -p ~/.cache/z"
    stands.hosts["client1"].run("sh", "-c", leave)
    *others, process = stands._left()
    assert others == ["client1: device spare0@veth0", "client1: device veth0@spare0", "client1: file /tmp/x",
                      "client1: file ~/y"]  # fmt: skip
    assert process.startswith("client1: process ")
    assert process.endswith(" sleep 1000")


def test_nothing_stays_of_a_farm_whose_owner_is_killed(farm):
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True, env=env) as owner:
        assert owner.stdout
        folder, *pids = owner.stdout.readline().split()
        owner.send_signal(signal.SIGKILL)
    traces = [Path(folder), *(Path(f"/proc/{pid}") for pid in pids)]
    end = time.monotonic() + 60
    while any(trace.exists() for trace in traces) and time.monotonic() < end:
        time.sleep(0.05)
    assert not [trace for trace in traces if trace.exists()]
