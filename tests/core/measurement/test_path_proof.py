import dataclasses
import functools

import pytest

from pytest_ipperf.core.measurement.goodput_ceiling import HeaderOverhead, ceiling_bit_s
from pytest_ipperf.core.measurement.path_proof import (
    ExpectedPath,
    goodput_violations,
    merged_violations,
    path_violations,
    proof_violations,
    rate_shortfalls,
    rate_violations,
)

DEVICES = {host: {"tunnel": "6in4", "isatap": "isatap"} for host in ("client", "server")}
EXPECTED = ExpectedPath(ipver=6, client="2001:2::1", server="2001:2::2", exclusive=True, devices=DEVICES)
TUNNEL = dataclasses.replace(EXPECTED, transport="tunnel", carriers=("client", "server"), mtu=1480)
RUN = {
    "families": ["AF_INET6"],
    "peers": {"2001:2::2": 10},
    "sources": ["2001:2::1"],
    "completed": 10,
    "packets": {"ipv4": 0, "ipv6": 80},
    "protocol41": {"client": {"in": 0, "out": 0}, "server": {"in": 0, "out": 0}},
    "bare_ipv6": None,
}
ROUTE = {"device": "eth0", "gateway": "", "source": "2001:2::1", "mtu": 1500, "type": 1, "path_mtu": 0, "mss": 0}
PATH = {
    "routes": {"client": ROUTE, "server": ROUTE},
    "onward": {"router": ROUTE},
    "fits": {1500: "yes", 1501: "too big"},
    "back": {1500: "yes", 1501: "too big"},
}


def test_facts_that_agree_leave_nothing_to_say():
    assert proof_violations(EXPECTED, RUN) == []
    assert path_violations(EXPECTED, PATH) == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"families": ["AF_INET"]}, "expected sockets of AF_INET6, seen AF_INET"),
        ({"peers": {"::ffff:198.18.0.2": 10}}, "expected connections to 2001:2::2, seen to ::ffff:198.18.0.2"),
        ({"sources": ["2001:2::9"]}, "expected connections from 2001:2::1, seen from 2001:2::9"),
        ({"packets": {"ipv4": 0, "ipv6": 12}}, "expected at least 30 packets sent by ipv6, seen 12"),
        ({"packets": {"ipv4": 5, "ipv6": 80}}, "expected no packet sent by ipv4, seen 5"),
        ({"protocol41": {"server": {"in": 4, "out": 3}}}, "expected no packet of protocol 41 at the server, seen 7"),
    ],
)
def test_ipv6_that_was_something_else_is_said(change, sentence):
    assert sentence in proof_violations(EXPECTED, RUN | change)


def test_a_look_up_is_one_datagram_each_way():
    asked = dataclasses.replace(EXPECTED, least_packets=(1, 1))
    assert proof_violations(asked, RUN | {"packets": {"ipv4": 0, "ipv6": 10}}) == []
    few = proof_violations(asked, RUN | {"packets": {"ipv4": 0, "ipv6": 9}})
    assert few == ["expected at least 10 packets sent by ipv6, seen 9"]


def test_a_host_that_may_not_count_is_not_accused():
    assert proof_violations(EXPECTED, RUN | {"protocol41": {"client": None, "server": None}}) == []


def counted(**hosts):
    """Make a run of 80 packets over a tunnel, with the packets of protocol 41 as (in, out)."""
    return RUN | {"protocol41": {host: dict(zip(("in", "out"), counts, strict=True)) for host, counts in hosts.items()}}


def test_a_tunnelled_arm_is_carried_from_the_client_to_the_other_end_and_back():
    assert proof_violations(TUNNEL, counted(client=(60, 80), server=(80, 60))) == []
    assert proof_violations(TUNNEL, counted(client=(60, 81), router=(81, 81), server=(85, 60))) == [
        "expected no packet of protocol 41 at the router, seen 162"
    ]
    passed = dataclasses.replace(TUNNEL, carriers=("client", "router", "server"))
    assert proof_violations(passed, counted(client=(60, 81), router=(30, 0), server=(85, 60))) == []
    assert proof_violations(passed, counted(client=(60, 81), router=(29, 0), server=(85, 60))) == [
        "expected at least 30 packets of protocol 41 received by the router, seen 29"
    ]


def test_a_tunnelled_arm_whose_packets_were_not_tunnelled_is_said():
    assert proof_violations(TUNNEL, counted(client=(60, 29), server=(29, 60))) == [
        "expected at least 30 packets of protocol 41 sent by the client, seen 29",
        "expected at least 30 packets of protocol 41 received by the server, seen 29",
    ]
    # What went there in a tunnel has not come back in one.
    assert proof_violations(TUNNEL, counted(client=(19, 80), server=(80, 19))) == [
        "expected at least 20 packets of protocol 41 received by the client, seen 19",
        "expected at least 20 packets of protocol 41 sent by the server, seen 19",
    ]
    asked = dataclasses.replace(TUNNEL, least_packets=(1, 1))
    assert proof_violations(asked, counted(client=(10, 10), server=(10, 10))) == []
    assert len(proof_violations(asked, counted(client=(9, 9), server=(9, 9)))) == 4


@pytest.mark.parametrize(("sent", "received"), [(3, 0), (0, 2)])
def test_in_the_lab_nothing_of_a_tunnelled_arm_is_outside_the_tunnel(sent, received):
    beside = counted(client=(60, 80), server=(80, 60)) | {"bare_ipv6": {"in": received, "out": sent}}
    assert proof_violations(TUNNEL, beside) == [
        f"expected no IPv6 packet outside the tunnel at the client, seen {sent} sent and {received} received"
    ]
    assert proof_violations(dataclasses.replace(TUNNEL, exclusive=False), beside) == []
    assert proof_violations(EXPECTED, RUN | {"bare_ipv6": {"in": 60, "out": 80}}) == []


def test_behind_the_router_of_isatap_the_server_sees_no_tunnel():
    isatap = dataclasses.replace(TUNNEL, transport="isatap", carriers=("client", "router"))
    assert proof_violations(isatap, counted(client=(70, 80), router=(80, 70), server=(0, 0))) == []
    assert proof_violations(isatap, counted(client=(70, 80), router=(0, 0), server=(80, 70))) == [
        "expected at least 30 packets of protocol 41 received by the router, seen 0",
        "expected at least 20 packets of protocol 41 sent by the router, seen 0",
        "expected no packet of protocol 41 at the server, seen 150",
    ]


def test_ipv4_beside_the_tunnels_own_packets_is_said():
    """The kernel counts what its tunnel sends as IPv4 too; a program at the port does so behind the kernel's back."""
    carried, kernel = counted(client=(60, 80), server=(80, 60)), dataclasses.replace(TUNNEL, outer_counted=True)
    assert proof_violations(kernel, carried | {"packets": {"ipv4": 80, "ipv6": 80}}) == []
    assert proof_violations(kernel, carried | {"packets": {"ipv4": 83, "ipv6": 80}}) == [
        "expected no packet sent by ipv4 beside the tunnel's, seen 3"
    ]
    assert proof_violations(TUNNEL, carried | {"packets": {"ipv4": 3, "ipv6": 80}}) == [
        "expected no packet sent by ipv4 beside the tunnel's, seen 3"
    ]
    # What the port had no room for was counted before.
    full = counted(client=(60, 77), server=(75, 60)) | {"packets": {"ipv4": 80, "ipv6": 80}}
    assert proof_violations(kernel, full) == []
    blind = RUN | {"protocol41": {"client": None, "server": None}, "packets": {"ipv4": 83, "ipv6": 80}}
    assert proof_violations(kernel, blind) == []


def test_a_few_packets_of_a_strange_tunnel_are_no_contradiction_on_a_shared_host():
    shared = dataclasses.replace(EXPECTED, client="", exclusive=False)
    assert proof_violations(shared, counted(client=(6, 6), server=(0, 0))) == []
    assert proof_violations(shared, counted(client=(0, 30), server=(0, 0))) == [
        "expected no packet of protocol 41 at the client, seen 30"
    ]


def test_a_shared_machine_may_send_what_it_likes_beside():
    shared = dataclasses.replace(EXPECTED, client="", exclusive=False)
    assert proof_violations(shared, RUN | {"packets": {"ipv4": 999, "ipv6": 80}, "sources": ["::1"]}) == []


def test_a_tunnel_between_shared_hosts_must_have_carried_the_least_that_a_run_sends():
    shared = dataclasses.replace(TUNNEL, exclusive=False)
    beside = {"packets": {"ipv4": 999, "ipv6": 999}}
    assert proof_violations(shared, counted(client=(20, 30), server=(30, 20)) | beside) == []
    assert proof_violations(shared, counted(client=(20, 29), server=(29, 20)) | beside) == [
        "expected at least 30 packets of protocol 41 sent by the client, seen 29",
        "expected at least 30 packets of protocol 41 received by the server, seen 29",
    ]
    # Where the router of hosts stands nobody has said: here it passes on what the tunnel sends.
    assert proof_violations(shared, counted(client=(20, 30), router=(30, 30), server=(30, 20)) | beside) == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"routes": {"client": {"error": "Network is unreachable"}}},
         "expected a route at the client, seen: Network is unreachable"),
        ({"routes": {"server": ROUTE | {"device": "sit1", "type": 776}}},
         "expected a native route at the server, seen device sit1 of type sit"),
        # A carrier that looks like any other device is known by its name.
        ({"routes": {"client": ROUTE | {"device": "6in4"}}},
         "expected a native route at the client, seen device 6in4 of type tunnel"),
        ({"fits": {1500: "silence", 1501: "too big"}},
         "expected an answer from the name server at 2001:2::2, seen none"),
        ({"fits": {1500: "too big", 1501: "too big"}},
         "expected 'yes' for a packet of 1500 bytes with don't-fragment, seen 'too big'"),
        ({"fits": {1500: "yes", 1501: "yes"}},
         "expected 'too big' for a packet of 1501 bytes with don't-fragment, seen 'yes'"),
        ({"fits": {1500: "no answer", 1501: "too big"}},
         "expected 'yes' for a packet of 1500 bytes with don't-fragment, seen 'no answer'"),
        ({"back": {1500: "no answer", 1501: "no answer"}},
         "expected 'yes' for a packet of 1500 bytes with don't-fragment from the server, seen 'no answer'"),
        ({"back": {1500: "yes", 1501: "yes"}},
         "expected 'too big' for a packet of 1501 bytes with don't-fragment from the server, seen 'yes'"),
        ({"onward": {"router": {"error": "No route to host"}}},
         "expected a route at the router towards the server, seen: No route to host"),
        ({"onward": {"router": ROUTE | {"device": "gre1", "type": 778}}},
         "expected a native route at the router towards the server, seen device gre1 of type gre"),
        ({"routes": {"client": ROUTE, "router": ROUTE | {"mtu": 1400}}},
         "expected an MTU of 1500 for the route at the router, seen 1400"),
        ({"routes": {"client": ROUTE | {"path_mtu": 1300}}},
         "expected an MTU of 1500 for the route at the client, seen 1300"),
        ({"routes": {"client": ROUTE, "server": ROUTE | {"path_mtu": 9000}}},
         "expected an MTU of 1500 for the route at the server, seen 9000"),
        ({"routes": {"client": ROUTE, "server": ROUTE | {"mss": 500}}},
         "expected a segment size of 1440 for the route at the server, seen 500"),
    ],
)  # fmt: skip
def test_a_path_that_is_not_native_is_said(change, sentence):
    assert path_violations(EXPECTED, PATH | change) == [sentence]


def test_what_comes_of_a_wrong_route_is_not_said_beside_it():
    wrong = {"client": ROUTE | {"device": "6in4", "mtu": 1480}, "server": ROUTE | {"path_mtu": 1300}}
    fits = {"fits": {1480: "no answer", 1481: "yes"}, "back": {1480: "no answer", 1481: "yes"}}
    assert path_violations(EXPECTED, PATH | fits | {"routes": wrong}) == [
        "expected a native route at the client, seen device 6in4 of type tunnel"
    ]


def test_a_route_may_say_what_its_device_or_its_path_has():
    """An advertised MTU is stored with the route, and a router before a tunnel reports its smaller MTU."""
    own = ROUTE | {"path_mtu": 1500, "mss": 1440}
    assert path_violations(EXPECTED, PATH | {"routes": {"client": own, "server": own}}) == []
    wider = {"client": ROUTE | {"mtu": 1480}, "server": ROUTE | {"path_mtu": 1480, "mss": 1420}}
    facts = {"routes": wider, "fits": {1480: "yes", 1481: "too big"}, "back": {1480: "yes", 1481: "no answer"}}
    assert path_violations(EXPECTED, facts) == []
    four = dataclasses.replace(EXPECTED, ipver=4)
    assert path_violations(four, PATH | {"routes": {"client": ROUTE | {"mss": 1460}, "server": ROUTE}}) == []


def test_a_port_of_a_lab_without_its_rate_is_said():
    shaped, ports = dataclasses.replace(EXPECTED, rate_bit_s=1e8), {"client": {"eth0": 1e8}}
    assert path_violations(shaped, PATH | {"rates": ports}) == []
    assert path_violations(shaped, PATH | {"rates": {**ports, "router": {"eth0": 0.0, "eth1": 5e7}}}) == [
        "expected 100 Mbit/s at the router's eth0, seen no limit",
        "expected 100 Mbit/s at the router's eth1, seen 50 Mbit/s",
    ]


IN_TUNNEL = ROUTE | {"device": "6in4", "mtu": 1480, "type": 776}
TUNNELLED = {"routes": {"client": IN_TUNNEL, "server": IN_TUNNEL}, "fits": {1480: "yes", 1481: "too big"}}


def test_a_tunnels_path_that_is_right_leaves_nothing_to_say():
    assert path_violations(TUNNEL, TUNNELLED) == []
    # A host's own tunnel may have any MTU.
    narrow = {host: IN_TUNNEL | {"mtu": 1280} for host in ("client", "server")}
    assert path_violations(dataclasses.replace(TUNNEL, mtu=0), TUNNELLED | {"routes": narrow}) == []


@pytest.mark.parametrize(
    ("route", "sentence"),
    [
        (ROUTE, "expected a route by the tunnel device 6in4 at the client, seen device eth0"),
        (IN_TUNNEL | {"device": "isatap"},
         "expected a route by the tunnel device 6in4 at the client, seen device isatap"),
        (IN_TUNNEL | {"mtu": 1500}, "expected an MTU of 1480 on 6in4 at the client, seen 1500"),
        ({"error": "No route to host"}, "expected a route at the client, seen: No route to host"),
    ],
)  # fmt: skip
def test_a_path_that_is_not_the_tunnels_is_said(route, sentence):
    assert path_violations(TUNNEL, TUNNELLED | {"routes": {"client": route, "server": IN_TUNNEL}}) == [sentence]


def test_behind_the_router_of_isatap_the_servers_route_is_native():
    devices = {"client": {"tunnel": "6in4", "isatap": "is0"}, "router": {"isatap": "is1"}, "server": {"tunnel": "6in4"}}
    isatap = dataclasses.replace(TUNNEL, transport="isatap", devices=devices, carriers=("client", "router"))
    routes = {"client": IN_TUNNEL | {"device": "is0"}, "router": IN_TUNNEL | {"device": "is1"}, "server": ROUTE}
    assert path_violations(isatap, TUNNELLED | {"routes": routes}) == []
    assert path_violations(isatap, TUNNELLED | {"routes": routes | {"server": IN_TUNNEL, "router": ROUTE}}) == [
        "expected a route by the tunnel device is1 at the router, seen device eth0",
        "expected a native route at the server, seen device 6in4 of type sit",
    ]


def test_nothing_is_faster_than_its_links():
    assert rate_violations(100e6, {"client": 100.9e6, "server": 50e6, "router": None}) == []
    assert rate_violations(100e6, {"client": 101.2e6, "server": 99e6}) == [
        "expected at most 100 Mbit/s from the client, seen 101.2 Mbit/s"
    ]


def test_a_path_that_misses_its_rate_is_told_and_no_contradiction():
    assert rate_shortfalls(100e6, {"client": 99.1e6, "server": 101e6}) == []
    assert rate_shortfalls(100e6, {"client": 98.9e6, "server": None}) == [
        "from the client it has 98.9 Mbit/s",
        "from the server nothing came through",
    ]


def test_a_run_that_moved_more_than_its_links_let_through_is_said():
    layers = HeaderOverhead(ipver=6, overhead_bytes=20)
    most = ceiling_bit_s(100e6, layers)
    said = functools.partial(goodput_violations, 100e6, layers, time_s=2.0, bucket_bytes=0)
    assert said(moved_bytes=int(most * 2 / 8)) == []
    assert said(moved_bytes=int(1.02 * most * 2 / 8)) == ["expected at most 91.55 Mbit/s of payload, seen 93.38 Mbit/s"]


@pytest.mark.parametrize(
    ("wanted", "merged", "streamed", "violations"),
    [
        (None, {"client": {"in": 9, "out": 9}}, 5, []),
        (True, {"client": {"in": 0, "out": 9}, "server": {"in": 0, "out": 0}}, 5, []),
        (True, {"client": {"in": 9, "out": 0}}, 0, []),
        (
            True,
            {"client": {"in": 9, "out": 0}},
            1,
            ["expected packets larger than the MTU sent by an end with offloads, seen none"],
        ),
        (
            True,
            {"client": {"in": 0, "out": 0}, "server": {"in": 9, "out": 0}, "router": {"in": 9, "out": 9}},
            1,
            ["expected packets larger than the MTU sent by an end with offloads, seen none"],
        ),
        (False, {"client": {"in": 0, "out": 0}, "server": {"in": 0, "out": 0}}, 5, []),
        (
            False,
            {"client": {"in": 0, "out": 0}, "server": {"in": 3, "out": 1}},
            0,
            ["expected no packet larger than the MTU at the server without offloads, seen 1 sent and 3 received"],
        ),
        (
            False,
            {"client": None},
            5,
            ["expected a count of packets larger than the MTU at the client, which may not count there"],
        ),
    ],
)
def test_packets_larger_than_the_mtu_prove_offloads(wanted, merged, streamed, violations):
    assert merged_violations(wanted, merged, streamed) == violations
