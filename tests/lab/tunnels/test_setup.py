"""Tunnelled arms on live labs: each takes its path, and a wrong path is reported."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import subprocess

import pytest

from pytest_ipperf.agent.tunnels.backends import preferred
from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.core.measurement.path_proof import path_violations
from pytest_ipperf.core.portable.workload_kind import LEAN
from pytest_ipperf.lab.epoch.live_testbed import live_testbed
from pytest_ipperf.lab.inventory.builtin import BUILTIN, lab, with_rate
from pytest_ipperf.lab.inventory.model import AUTO, Links
from pytest_ipperf.lab.inventory.testbeds import _LONGEST_DELAY_S
from pytest_ipperf.lab.netns.namespaces import unusable
from pytest_ipperf.lab.runs import path_facts as proving
from pytest_ipperf.lab.runs.path_facts import expected_path, path_facts
from pytest_ipperf.lab.tunnels import backend_choice, setup
from pytest_ipperf.lab.tunnels.backend_choice import lab_backend

ARMS = [Arm(4, "native"), Arm(6, "native"), Arm(6, "tunnel"), Arm(6, "isatap")]
TRANSPORTS = ("tunnel", "isatap")


def lab_named(name):
    """Return the lab, with a rate if its tunnels need one."""
    if why := unusable():
        pytest.skip(f"the lab cannot be built here: {why}")
    testbed = BUILTIN[name]
    return testbed if lab_backend(testbed, AUTO)[0] else with_rate(f"{name}.100mbit", BUILTIN)


@pytest.mark.parametrize("own", ["auto", "kernel", "ebpf", "userspace"])
def test_auto_means_one_thing_wherever_it_is_written(own):
    far = lab("far", 3, backend=own)
    office = dataclasses.replace(BUILTIN["loopback"], name="office", backend=own)
    for testbed, auto in ((far, preferred()), (office, ("kernel",))):
        assert backend_choice.candidates(testbed, AUTO) == auto
        assert backend_choice.candidates(testbed, "") == (auto if own == AUTO else (own,))
        assert backend_choice.candidates(testbed, "ebpf") == ("ebpf",)


@pytest.fixture
def up():
    """Set up labs with all their tunnels; return the live testbed and the command prefix for each node."""
    with contextlib.ExitStack() as stack:

        def put(testbed, **options):
            owner = f"test {os.getpid()}"
            return stack.enter_context(
                live_testbed(testbed, owner, 1.0, lambda _: None, transports=TRANSPORTS, **options)
            )

        yield put


def workload(testbed, connections=10):
    return Workload(testbed=testbed.name, protocol="http", client=LEAN, connections=connections, payload_bytes=10240)


def command(live, role, text):
    """Run a shell command in a node, by the prefix of its agent."""
    argv = live._agents[role]._entry
    subprocess.run([*argv[: argv.index("env")], "sh", "-ec", text], check=True)


def inside(live, role, *lines):
    """Run `ip` commands in a node."""
    command(live, role, "\n".join(f"ip {line}" for line in lines))


def measured(live, arm, service, work):
    assert live.prove(arm, service, work)["contradictions"] == []
    result = live.run(arm, service, work, bursts=2, deadline_s=10.0)
    assert (result.data.failed, result.violations) == ({}, ())
    return result.proof


@pytest.mark.parametrize("name", ["lab", "pair"])
def test_all_four_paths_stand_at_once_and_each_is_proven(up, name):
    testbed = lab_named(name)
    live, work = up(testbed), workload(testbed)
    assert live.tunnels.trouble == {}
    assert set(live.tunnels.backends.values()) == {lab_backend(testbed, AUTO)[0]}
    service = live.serve(work, "embedded")
    for arm in ARMS * 2:
        proof = measured(live, arm, service, work)
        carriers = testbed.path(arm).carriers
        assert list(proof["peers"]) == [testbed.path(arm).server]
        for role, counts in proof["protocol41"].items():
            if role not in carriers:
                assert counts == {"in": 0, "out": 0}
        if carriers:
            assert proof["protocol41"][carriers[0]]["out"] >= proof["packets"]["ipv6"]


def test_the_server_behind_the_isatap_router_sees_native_ipv6(up):
    testbed = lab_named("lab")
    live, work = up(testbed), workload(testbed)
    service = live.serve(work, "embedded")
    differences: list[int] = []
    # The hosts are read one after another, and a packet between two readings is counted at one of them.
    while len(differences) < 10 and 0 not in differences:
        counts = measured(live, ARMS[3], service, work)["protocol41"]
        assert counts["server"] == {"in": 0, "out": 0}
        differences.append(counts["router"]["in"] - counts["client"]["out"])
        if live.tunnels.backends["isatap"] == "kernel":  # which leaves cutting up segments to the port
            assert differences[-1] >= 0
            return
    assert differences[-1] == 0, differences


def test_a_tunnel_whose_routes_lead_straight_to_the_native_path_is_invalid_in_words(up):
    testbed = lab_named("lab")
    live, work = up(testbed), workload(testbed)
    service = live.serve(work, "embedded")
    server = testbed.paths["tunnel"].server
    inside(live, "client", f"route add {server}/128 via {testbed.router.ipv6} dev eth0")
    inside(live, "router", f"route add {server}/128 via {testbed.server.ipv6} dev eth1")
    # The answers still come by the tunnel, so every connection completes: only the proof tells.
    assert live.prove(ARMS[2], service, work)["contradictions"] == [
        "expected a route by the tunnel device ipperf-6in4 at the client, seen device eth0"
    ]
    result = live.run(ARMS[2], service, work, bursts=2, deadline_s=10.0)
    assert (result.data.failed, result.data.row_count) == ({}, 20)
    sent = result.proof["packets"]["ipv6"]
    assert result.violations == (
        f"expected no IPv6 packet outside the tunnel at the client, seen {sent} sent and 0 received",
        "expected at least 60 packets of protocol 41 sent by the client, seen 0",
        "expected at least 60 packets of protocol 41 received by the server, seen 0",
    )


def test_answers_that_come_back_outside_the_tunnel_are_invalid_in_words(up):
    testbed = lab_named("lab")
    live, work = up(testbed), workload(testbed)
    service = live.serve(work, "embedded")
    client, server = testbed.paths["tunnel"].client, testbed.paths["tunnel"].server
    inside(live, "server", f"route add {client}/128 from {server} via 2001:2:0:11::2")
    inside(live, "router", f"route add {client}/128 via {testbed.client.ipv6} dev eth0")
    result = live.run(ARMS[2], service, work, bursts=2, deadline_s=10.0)
    assert (result.data.failed, result.data.row_count) == ({}, 20)
    received = result.proof["bare_ipv6"]["in"]
    assert received >= 40
    assert result.violations == (
        f"expected no IPv6 packet outside the tunnel at the client, seen 0 sent and {received} received",
        "expected at least 40 packets of protocol 41 received by the client, seen 0",
        "expected at least 40 packets of protocol 41 sent by the server, seen 0",
    )


def test_a_native_arm_that_goes_through_the_tunnel_is_invalid_in_words(up):
    testbed = lab_named("lab")
    live, work = up(testbed), workload(testbed)
    service = live.serve(work, "embedded")
    inside(live, "client", f"route add {testbed.server.ipv6}/128 dev ipperf-6in4")
    assert live.prove(ARMS[1], service, work)["contradictions"] == [
        "expected a native route at the client, seen device ipperf-6in4 of type tunnel"
    ]
    result = live.run(ARMS[1], service, work, bursts=1, deadline_s=10.0)
    reported = [each for each in result.violations if each.startswith("expected no packet of protocol 41 at the ")]
    assert {each.split(",")[0].rsplit(" ", 1)[1] for each in reported} == {"client", "router", "server"}


# By the wrong path: the arm, what makes it and what unmakes it at a host, and the sentence.
WRONG = {
    "answers of a source by another route": (
        2,
        "server",
        "ip -6 route add 2001:2:0:41::1 from 2001:2:0:41::2 via 2001:2:0:11::2",
        "ip -6 route del 2001:2:0:41::1 from 2001:2:0:41::2 via 2001:2:0:11::2",
        "expected a route by the tunnel device ipperf-6in4 at the server, seen device eth0",
    ),
    "requests of a source by another route": (
        1,
        "client",
        "ip -6 rule add from 2001:2:0:10::1 lookup 7; ip -6 route add default dev ipperf-6in4 table 7",
        "ip -6 rule del from 2001:2:0:10::1 lookup 7",
        "expected a native route at the client, seen device ipperf-6in4 of type tunnel",
    ),
    "answers by another route of the router": (
        3,
        "router",
        "ip -6 route add 2001:2:0:5e::/64 via 2001:2:0:10::1 table 7; ip -6 rule add iif eth1 lookup 7",
        "ip -6 rule del iif eth1 lookup 7",
        "expected a route by the tunnel device ipperf-isatap at the router, seen device eth0",
    ),
    "requests by another route of the router": (
        1,
        "router",
        "ip -6 route add 2001:2:0:11::/64 dev eth1 advmss 500 table 7; ip -6 rule add iif eth0 lookup 7",
        "ip -6 rule del iif eth0 lookup 7",
        "expected a segment size of 1440 for the route at the router towards the server, seen 500",
    ),
    "a route with a small MTU there": (
        2,
        "client",
        "ip -6 route add 2001:2:0:41::2 dev ipperf-6in4 mtu 1300",
        "ip -6 route del 2001:2:0:41::2",
        "expected an MTU of 1480 for the route at the client, seen 1300",
    ),
    "a route with a small MTU back": (
        0,
        "server",
        "ip route add 198.18.0.1/32 via 198.18.1.2 mtu lock 1000",
        "ip route del 198.18.0.1/32",
        "expected an MTU of 1500 for the route at the server, seen 1000",
    ),
    "a route with a small MTU of a tunnel's packets": (
        2,
        "router",
        "ip route add 198.18.0.1/32 dev eth0 mtu lock 1300",
        "ip route del 198.18.0.1/32",
        "expected an MTU of 1480 for the route at the router, seen 1300",
    ),
    "a device with a small MTU for IPv6": (
        1,
        "server",
        "echo 1300 > /proc/sys/net/ipv6/conf/eth0/mtu",
        "echo 1500 > /proc/sys/net/ipv6/conf/eth0/mtu",
        "expected an MTU of 1500 for the route at the server, seen 1300",
    ),
    "a route with small segments": (
        1,
        "client",
        "ip -6 route add 2001:2:0:11::1 via 2001:2:0:10::2 advmss 500",
        "ip -6 route del 2001:2:0:11::1",
        "expected a segment size of 1440 for the route at the client, seen 500",
    ),
    "a black hole on the way back": (
        3,
        "router",
        # ld len; jgt 1450, drop, pass
        "tc filter add dev eth0 egress bpf da bytecode '4,128 0 0 0,37 0 1 1450,6 0 0 2,6 0 0 4294967295'",
        "tc filter del dev eth0 egress",
        "expected 'yes' for a packet of 1480 bytes with don't-fragment from the server, seen 'no answer'",
    ),
    "a port that has lost its rate": (
        0,
        "router",
        "tc qdisc del dev eth1 root",
        "tc qdisc add dev eth1 root tbf rate 100mbit burst 16384 limit 1514000",
        "expected 100 Mbit/s at the router's eth1, seen no limit",
    ),
}  # fmt: skip


def test_every_wrong_path_is_told_in_words(up, monkeypatch):
    """Wrong routes by source, rule or incoming device; reduced packet sizes; and the reverse path."""
    if why := unusable():
        pytest.skip(f"the lab cannot be built here: {why}")
    testbed = with_rate("lab.100mbit", BUILTIN)
    assert testbed
    live, work = up(testbed), workload(testbed)
    service = live.serve(work, "embedded")
    # So that what leaves the tunnel gets through all the same.
    inside(live, "router", "-6 route add 2001:2:0:41::1 via 2001:2:0:10::1")
    command(live, "router", "tc qdisc add dev eth0 clsact 2> /dev/null || true")
    facts = functools.partial(path_facts, testbed, live._agents, resolver_port=service.resolver_port, name="a.test")

    def reported(arm):
        found = path_violations(expected_path(testbed, arm, (3, 2)), facts(arm=arm))
        return [sentence.replace("type sit", "type tunnel") for sentence in found]  # by the kernel's own driver

    tries = proving._TRIES
    assert [reported(arm) for arm in ARMS] == [[], [], [], []]
    for what, (number, role, made, unmade, sentence) in WRONG.items():
        command(live, role, made)
        # What is not answered is asked for once more only; what is, as often as a busy machine may need.
        monkeypatch.setattr(proving, "_TRIES", 2 if "no answer" in sentence else tries)
        assert reported(ARMS[number]) == [sentence], what
        command(live, role, unmade)
        for host in ("client", "server"):  # which a router may have told of an MTU
            command(live, host, "ip -6 route flush cache; ip route flush cache")
    monkeypatch.setattr(proving, "_TRIES", tries)
    assert [reported(arm) for arm in ARMS] == [[], [], [], []]


def test_the_longest_delay_is_no_silence_although_all_look_for_their_neighbours():
    if why := unusable():
        pytest.skip(f"the lab cannot be built here: {why}")
    testbed, arm = lab("far", 3, Links(delay_s=_LONGEST_DELAY_S)), ARMS[1]
    with live_testbed(testbed, f"test {os.getpid()}", 1.0, lambda _: None) as live:
        work = workload(testbed)
        facts = live.prove(arm, live.serve(work, "embedded"), work)
    assert (facts["contradictions"], list(facts["back"].values())) == ([], ["yes", "too big"])


def test_the_way_back_is_as_wide_as_the_tunnel_and_no_wider(up):
    """Behind the ISATAP router the server may send larger packets, which the router reports as too big."""
    testbed = lab_named("lab")
    live, work = up(testbed), workload(testbed)
    service = live.serve(work, "embedded")
    found = [live.prove(arm, service, work)["back"] for arm in ARMS]
    native, tunnel = {1500: "yes", 1501: "too big"}, {1480: "yes", 1481: "too big"}
    assert found == [native, native, tunnel, {1480: "yes", 1481: "no answer"}]


def test_what_cannot_be_carried_is_told_and_the_other_arms_stand(up, monkeypatch):
    monkeypatch.setattr(backend_choice, "_missing_here", lambda name: f"no {name} today")
    monkeypatch.setattr(setup, "lab_backend", backend_choice.lab_backend)
    testbed = BUILTIN["lab"]
    if why := unusable():
        pytest.skip(f"the lab cannot be built here: {why}")
    live, work = up(testbed), workload(testbed)
    reasons = "kernel: no kernel today; ebpf: no ebpf today; userspace: no userspace today"
    assert {name: str(error) for name, error in live.tunnels.trouble.items()} == {
        name: f"nothing can carry {name} on testbed lab ({reasons})" for name in TRANSPORTS
    }
    service = live.serve(work, "embedded")
    measured(live, ARMS[1], service, work)


def test_userspace_is_refused_on_links_without_a_rate(monkeypatch):
    monkeypatch.setattr(backend_choice, "_missing_here", lambda name: "" if name == "userspace" else "not here")
    name, why = lab_backend(BUILTIN["lab"], AUTO)
    assert name == ""
    assert why.endswith("userspace: it needs links with a rate, and testbed lab.100mbit has one")
    limited = with_rate("lab.100mbit", BUILTIN)
    assert limited
    assert lab_backend(limited, AUTO) == ("userspace", "")
