import dataclasses

import pytest

from pytest_ipperf.core.proof import Expected, path_contradictions, run_contradictions

EXPECTED = Expected(ipver=6, encapsulated=False, client="2001:2::1", server="2001:2::2", exclusive=True)
RUN = {
    "families": ["AF_INET6"],
    "peers": {"2001:2::2": 10},
    "sources": ["2001:2::1"],
    "completed": 10,
    "packets": {"ipv4": 0, "ipv6": 80},
    "protocol41": {"client": 0, "server": 0},
}
ROUTE = {"device": "eth0", "gateway": "", "source": "2001:2::1", "mtu": 1500, "type": 1}
PATH = {"routes": {"client": ROUTE, "server": ROUTE}, "fits": {1500: "yes", 1501: "too big"}}


def test_facts_that_agree_leave_nothing_to_say():
    assert run_contradictions(EXPECTED, RUN) == []
    assert path_contradictions(EXPECTED, PATH) == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"families": ["AF_INET"]}, "expected sockets of AF_INET6, seen AF_INET"),
        ({"peers": {"::ffff:198.18.0.2": 10}}, "expected connections to 2001:2::2, seen to ::ffff:198.18.0.2"),
        ({"sources": ["2001:2::9"]}, "expected connections from 2001:2::1, seen from 2001:2::9"),
        ({"packets": {"ipv4": 0, "ipv6": 12}}, "expected at least 30 packets sent by ipv6, seen 12"),
        ({"packets": {"ipv4": 5, "ipv6": 80}}, "expected no packet sent by ipv4, seen 5"),
        ({"protocol41": {"client": 0, "server": 7}}, "expected no packet of protocol 41 at the server, seen 7"),
    ],
)
def test_ipv6_that_was_something_else_is_said(change, sentence):
    assert sentence in run_contradictions(EXPECTED, RUN | change)


def test_a_look_up_is_one_datagram_each_way():
    asked = dataclasses.replace(EXPECTED, datagram=True)
    assert run_contradictions(asked, RUN | {"packets": {"ipv4": 0, "ipv6": 10}}) == []
    few = run_contradictions(asked, RUN | {"packets": {"ipv4": 0, "ipv6": 9}})
    assert few == ["expected at least 10 packets sent by ipv6, seen 9"]


def test_a_host_that_may_not_count_is_not_accused():
    assert run_contradictions(EXPECTED, RUN | {"protocol41": {"client": None, "server": None}}) == []


def test_a_tunnelled_arm_whose_packets_were_not_tunnelled_is_said():
    tunnel = Expected(ipver=6, encapsulated=True, client="", server="2001:2::2", exclusive=True)
    assert run_contradictions(tunnel, RUN) == [
        f"expected at least 30 packets of protocol 41 at the {host}, seen 0" for host in ("client", "server")
    ]
    assert run_contradictions(tunnel, RUN | {"protocol41": {"client": 44, "server": 60}}) == []


def test_a_few_packets_of_a_strange_tunnel_are_no_contradiction_on_a_shared_host():
    shared = Expected(ipver=6, encapsulated=False, client="", server="2001:2::2", exclusive=False)
    assert run_contradictions(shared, RUN | {"protocol41": {"client": 12, "server": 0}}) == []
    assert run_contradictions(shared, RUN | {"protocol41": {"client": 30, "server": 0}}) != []


def test_a_shared_machine_may_send_what_it_likes_beside():
    shared = Expected(ipver=6, encapsulated=False, client="", server="2001:2::2", exclusive=False)
    assert run_contradictions(shared, RUN | {"packets": {"ipv4": 999, "ipv6": 80}, "sources": ["::1"]}) == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"routes": {"client": {"error": "Network is unreachable"}}},
         "expected a route at the client, seen: Network is unreachable"),
        ({"routes": {"server": ROUTE | {"device": "sit1", "type": 776}}},
         "expected a native route at the server, seen device sit1 of type sit"),
        ({"fits": {1500: "silence", 1501: "too big"}},
         "expected an answer from the name server at 2001:2::2, seen none"),
        ({"fits": {1500: "too big", 1501: "too big"}},
         "expected 'yes' for a packet of 1500 bytes with don't-fragment, seen 'too big'"),
        ({"fits": {1500: "yes", 1501: "yes"}},
         "expected 'too big' for a packet of 1501 bytes with don't-fragment, seen 'yes'"),
    ],
)  # fmt: skip
def test_a_path_that_is_not_native_is_said(change, sentence):
    assert path_contradictions(EXPECTED, PATH | change) == [sentence]
