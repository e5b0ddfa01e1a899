"""Testbeds of real hosts under xdist, measured: at the same time, one after the other, and never two on one host."""

from __future__ import annotations

import itertools

import pytest

from pytest_ipperf.plugin.measure.outcome import NOTHING_DECIDED

SUITE = """
    import pytest

    @pytest.mark.http
    @pytest.mark.levels(connections=[1, 10, 100], payload=["1k"])
    def test_http(measured, margin):
        assert measured.slowdown <= margin
"""
ALSO = """
[testbed also]
client = alpha
server = beta

[host alpha]
way = ssh
ssh = alpha
ssh_config = {config}
python = {client.python}
ipv4 = {client.ipv4}
ipv6 = {client.ipv6}

[host beta]
way = ssh
ssh = root@{server.control6}
ssh_config = {config}
python = {server.python}
ipv4 = {server.ipv4}
ipv6 = {server.ipv6}
"""


def spans(stands):
    """By testbed, when its measurements of a workload began and when the last run of each was kept."""
    found: dict[str, dict[str, list[float]]] = {}
    for event in sorted(stands.events("workload") + stands.events("run"), key=lambda each: each["at"]):
        found.setdefault(event["workload"].split("-")[0], {}).setdefault(event["workload"], []).append(event["at"])
    return {bed: sorted((min(times), max(times)) for times in each.values()) for bed, each in found.items()}


def overlap(one, other):
    """Whether any two of these spans have a moment in common."""
    return any(a[0] < b[1] and b[0] < a[1] for a, b in itertools.product(one, other))


def measured(stands, *argv, number):
    process = stands.session("--design=smoke", "-n", "auto", *argv, suite=SUITE)
    said, _ = process.communicate(timeout=300)
    assert process.returncode == NOTHING_DECIDED, said
    assert f"{number} unjudged" in said
    assert stands.left() == []
    runs = stands.events("run")
    assert len(runs) == 8 * number
    assert all((run["contradictions"], run["failed"], run["proof"]["control"]) == ([], {}, 0) for run in runs), runs
    return said


def test_two_testbeds_are_measured_at_the_same_time_and_two_names_of_one_never(farm):
    """The third testbed has the hosts of the first by other names, which only ssh's configuration tells."""
    stands = farm(testbeds=2)
    client, server = stands.hosts["client1"], stands.hosts["server1"]
    keys = stands.folder / "controller" / "keys"
    names = f"Host alpha\n    HostName {client.control4}\n    HostKeyAlias client1\n    IdentityFile {keys}/client1\n"
    names += f"    UserKnownHostsFile {keys}/known_client1\n    User root\n"
    names += f"Host server1 {server.control6}\n    HostName {server.control6}\n    HostKeyAlias server1\n"
    names += f"    IdentityFile {keys}/server1\n    UserKnownHostsFile {keys}/known_server1\n"
    stands.ssh_config.write_text(names + stands.ssh_config.read_text())
    also = ALSO.format(config=stands.ssh_config, client=client, server=server)
    stands.inventory.write_text(stands.inventory.read_text() + also)
    said = measured(stands, "--testbed=bed1,bed2,also", "--connections=10", number=3)
    assert "ipperf: 2 workers measure side by side: about " in said
    found = spans(stands)
    assert set(found) == {"bed1", "bed2", "also"}
    assert overlap(found["bed1"] + found["also"], found["bed2"]), found
    assert not overlap(found["bed1"], found["also"]), found
    peers = {run["workload"].split("-")[0]: set(run["proof"]["peers"]) for run in stands.events("run")}
    assert peers["bed1"] | peers["also"] <= {"198.18.0.2", "2001:2:0:10::2"}
    assert peers["bed2"] <= {"198.18.2.2", "2001:2:0:210::2"}


@pytest.mark.evidence
def test_testbeds_of_one_domain_are_measured_one_after_the_other(farm):
    stands = farm(testbeds=2, domain="floor1")
    said = measured(stands, "--connections=1", number=2)
    assert "side by side" not in said
    found = spans(stands)
    assert set(found) == {"bed1", "bed2"}
    assert not overlap(found["bed1"], found["bed2"]), found
