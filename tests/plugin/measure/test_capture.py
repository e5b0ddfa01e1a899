"""--ipperf-capture for real: tcpdump reads the files of a session."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest

from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.lab.inventory.model import AUTO
from pytest_ipperf.lab.netns.namespaces import unusable
from pytest_ipperf.lab.tunnels.backend_choice import lab_backend

SUITE = """
import pytest

@pytest.mark.http
@pytest.mark.levels(connections=[2], payload=["1k"])
def test_http(measured):
    pass
"""


@pytest.fixture
def transports():
    """Return the transports that this machine can have in the unshaped lab."""
    if why := unusable():
        pytest.skip(f"the lab cannot be built here: {why}")
    if os.geteuid() != 0 or not shutil.which("tcpdump"):
        pytest.skip("tcpdump runs as root, and has to be installed (Debian: apt-get install tcpdump)")
    return ["native", "tunnel", "isatap"] if lab_backend(BUILTIN["lab"], AUTO)[0] else ["native"]


def packets(file):
    done = subprocess.run(["tcpdump", "-nr", file], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_the_first_packets_of_each_run_are_in_a_file_for_each_arm_and_host(pytester, transports):
    pytester.makepyfile(SUITE)
    result = pytester.runpytest_subprocess(
        "--testbed=lab", "--design=smoke", f"--transport={','.join(transports)}", "--ipperf-capture=5",
        "--ipperf-server=embedded", "-p", "no:randomly",
    )  # fmt: skip
    folder = next(iter(pytester.path.glob(".ipperf/runs/*/captures")))
    result.stdout.fnmatch_lines([f"captures: {folder}"])
    arms = ["ipv4", "ipv6", *(f"ipv6-{each}" for each in transports[1:])]
    hosts = ["client", "router", "server"]
    names = {f"lab-http-c2-1k-{arm}-{host}.pcap" for arm in arms for host in hosts}
    assert {file.name for file in folder.iterdir()} == names
    for arm in arms:
        found = {host: packets(folder / f"lab-http-c2-1k-{arm}-{host}.pcap") for host in hosts}
        # Two epochs, each with a warm-up and a block.
        assert {host: len(lines) for host, lines in found.items()} == dict.fromkeys(hosts, 20)
        # Neighbour discovery may add packets.
        tunnelled = {host: all(re.search(r" IP 198\.18\.[\d. >]+: IP6 | ARP, | ICMP6, ", line) for line in lines)
                     for host, lines in found.items()}  # fmt: skip
        carriers = {"ipv6-tunnel": {"client", "router", "server"}, "ipv6-isatap": {"client", "router"}}
        assert {host for host, yes in tunnelled.items() if yes} == carriers.get(arm, set())


@pytest.mark.parametrize("value", ["-1", "many", "10001"])
def test_a_number_that_makes_no_sense_is_a_usage_error(pytester, value):
    result = pytester.runpytest_subprocess(f"--ipperf-capture={value}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*--ipperf-capture: '{value}' is not a number of packets from 0 to 10000"])
