"""Hosts without packages, with Pythons of several versions, used by whole suites and by the library client."""

from __future__ import annotations

import re
import shutil
import sys
from importlib.metadata import version

import pytest

from pytest_ipperf.agent.tunnels.backends import BACKENDS
from pytest_ipperf.plugin.measure.outcome import NOTHING_DECIDED
from tests.support.hosts.machines import bare_pythons
from tests.support.hosts.ssh_hosts import ROOT

SUITE = (ROOT / "suites" / "response_time" / "test_response_time.py").read_text()
PROTOCOLS = {"smtp", "http", "ftp", "imap", "dns"}
TUNNELS = {"tunnel": "2001:2:0:41::/64", "isatap": "2001:2:0:5e::/64 2001:2:0:12::/64"}
ARMS = ("ipv4", "ipv6", "ipv6-tunnel", "ipv6-isatap")
REAL = {"smtp": "postfix", "http": "apache", "ftp": "proftpd", "imap": "dovecot", "dns": "bind"}
PROGRAMS = {"postfix": "postfix", "apache": "apache2", "proftpd": "proftpd", "dovecot": "dovecot", "bind": "named"}
LIBRARY = """
    import pytest

    @pytest.mark.{protocol}
    def test_it(measured, margin):
        assert measured.slowdown <= margin
"""


def suite_of_three(farm, *argv, keys, arms=("ipv4", "ipv6")):
    """What a session said that measured the whole suite at one level over three hosts, and left nothing there."""
    stands = farm(routed=True, keys=keys)
    hosts = stands.hosts.values()
    assert len({host.python_version for host in hosts}) == min(3, len(bare_pythons()))
    process = stands.session("--design=glance", "--connections=10", *argv, suite=SUITE)
    said, _ = process.communicate(timeout=400)
    assert process.returncode == (1 if " error" in said.splitlines()[-1] else NOTHING_DECIDED), said
    assert stands.left() == []
    runs = stands.events("run")
    assert {(run["workload"].split("-")[1], run["arm"]) for run in runs} == {(p, a) for p in PROTOCOLS for a in arms}
    for run in runs:
        assert (run["contradictions"], run["failed"], run["proof"]["control"]) == ([], {}, 0), run
        # What is measured never goes over the control network.
        assert all(re.match(r"198\.18\.1\.1$|2001:2:0:(11|12|41)::", peer) for peer in run["proof"]["peers"]), run
    assert len(runs) == len(PROTOCOLS) * len(arms) * 2
    return said


def carried():
    """The arms that a farm can have here beside the native ones, and by which backend; none."""
    return next((name for name in ("kernel", "ebpf") if not BACKENDS[name].missing()), "")


def check_programs(said, runs):
    """The hosts' own server programs served, as far as they are installed, in so many runs of each workload."""
    for protocol, name in REAL.items():
        if shutil.which(PROGRAMS[name], path="/usr/sbin:/usr/bin"):
            assert re.search(rf"measured bed1-{protocol}-c10-\S+: {runs} runs in .*, server {name} ", said), said


def test_the_whole_suite_runs_on_three_hosts_with_bare_pythons(farm):
    said = suite_of_three(farm, keys={})
    assert "5 unjudged" in said
    check_programs(said, 4)


@pytest.mark.evidence
def test_the_whole_suite_runs_there_over_all_arms(farm):
    backend = carried()
    if not backend:
        pytest.skip("nothing here can carry a tunnel between hosts")
    said = suite_of_three(farm, keys={**TUNNELS, "backend": backend}, arms=ARMS)
    assert "15 unjudged" in said
    check_programs(said, 8)


@pytest.mark.evidence
def test_the_whole_suite_runs_with_embedded_servers_whose_packages_are_sent(farm):
    said = suite_of_three(farm, "--ipperf-server=embedded", keys={})
    assert "5 unjudged" in said
    for name in ("aiosmtpd", "aiohttp", "pyftpdlib", "imapd", "nameserver"):
        assert re.search(rf"server {name} .*\(embedded\)", said), said


@pytest.mark.evidence
def test_arms_that_nothing_can_carry_are_told_and_the_others_measured(farm):
    if carried() == "kernel":
        pytest.skip("the kernel here has a driver for tunnels")
    said = suite_of_three(farm, keys=TUNNELS)
    for arm in ("tunnel", "isatap"):
        assert f"ipperf: arm ipv6-{arm}: nothing can carry {arm} on testbed bed1 (kernel: " in said
    assert "10 errors, 5 unjudged" in said


@pytest.mark.parametrize(
    ("protocol", "package"),
    [("smtp", "aiosmtplib"), pytest.param("http", "aiohttp", marks=pytest.mark.evidence)],
)
def test_bare_hosts_are_measured_by_the_library_client(farm, protocol, package):
    """Neither of them has a package: both are sent what they need, and it goes with them."""
    pythons = bare_pythons()
    # aiohttp's dependencies, and aiosmtpd's, have left Python 3.10 behind; aiosmtplib has none.
    oldest, newest = (
        next((each for each in pythons if protocol == "smtp" or each[0] > (3, 11)), pythons[-1]),
        pythons[-1],
    )
    client, server = (oldest, newest) if protocol == "smtp" else (newest, oldest)
    stands = farm(pythons={"client1": client[1], "server1": server[1]})
    words = ("--client=library", "--ipperf-server=embedded", "--design=glance", "--connections=20")
    process = stands.session(*words, suite=LIBRARY.format(protocol=protocol))
    said, _ = process.communicate(timeout=200)
    assert process.returncode == NOTHING_DECIDED, said
    assert stands.left() == []
    runs = stands.events("run")
    assert len(runs) == 4
    pure = " (pure Python)" if package == "aiohttp" and client[0][:2] != sys.version_info[:2] else ""
    for run in runs:
        assert (run["contradictions"], run["failed"]) == ([], {})
        assert run["proof"]["client"] == f"{package} {version(package)}{pure}"
        assert set(run["proof"]["peers"]) <= {"198.18.0.2", "2001:2:0:10::2"}
    name = {"smtp": "aiosmtpd", "http": "aiohttp"}[protocol]
    assert re.search(rf"server {name} {version(name)}.*\(embedded\).*client library", said), said
