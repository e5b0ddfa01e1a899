"""Violations of a run made by several clients: of each client, of the others together, and by name."""

from __future__ import annotations

import pytest

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.lab.inventory.model import Host, Testbed
from pytest_ipperf.lab.inventory.tunnel_paths import paths
from pytest_ipperf.lab.runs.path_facts import clients_violations, expected_path
from pytest_ipperf.transports.base import CLIENT, SERVER


def host(name, number):
    address = f"2001:db8:41::{number}"
    return Host(
        name=name, way="ssh", ipv4=f"192.0.2.{number}", ipv6=f"2001:db8::{number}", settings={"ssh": name},
        tunnels={"tunnel": (f"sit{number}", address)},
    )  # fmt: skip


ALPHA, BETA, GAMMA = host("alpha", 1), host("beta", 2), host("gamma", 3)
CROWD = Testbed(
    name="crowd", client=ALPHA, server=BETA, more_clients=(GAMMA,), paths=paths({CLIENT: ALPHA, SERVER: BETA}, {})
)
TUNNEL = Arm(6, "tunnel")


def demanded(arm):
    return {role: expected_path(CROWD.seen_by(role), arm, (3, 2)) for role in CROWD.clients}


def proof(**server):
    """Make the proof of a run in which alpha had six connections and gamma four, by their tunnels."""
    clients = {
        role: {
            "host": each.name, "completed": count, "families": ["AF_INET6"], "peers": {"2001:db8:41::2": count},
            "sources": [each.tunnels["tunnel"][1]], "packets": {"ipv4": 0, "ipv6": 5 * count}, "bare_ipv6": None,
            "protocol41": {"in": 4 * count, "out": 5 * count},
        }
        for role, each, count in ((CLIENT, ALPHA, 6), ("client2", GAMMA, 4))
    }  # fmt: skip
    carried = {role: each["protocol41"] for role, each in clients.items()}
    return {"clients": clients, "completed": 10, "protocol41": {**carried, SERVER: {"in": 50, "out": 40, **server}}}


def test_each_client_is_expected_to_use_its_own_device_and_address():
    found = demanded(TUNNEL)
    assert [each.client for each in found.values()] == ["2001:db8:41::1", "2001:db8:41::3"]
    assert [each.devices[CLIENT]["tunnel"] for each in found.values()] == ["sit1", "sit3"]
    assert clients_violations(found, proof()) == []


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"sources": ["2001:db8::3"]}, "host gamma: expected connections from 2001:db8:41::3, seen from 2001:db8::3"),
        (
            {"protocol41": {"in": 16, "out": 0}},
            "host gamma: expected at least 12 packets of protocol 41 sent by the client, seen 0",
        ),
        ({"packets": {"ipv4": 0, "ipv6": 11}}, "host gamma: expected at least 12 packets sent by ipv6, seen 11"),
    ],
)
def test_what_one_of_them_did_is_not_covered_by_the_others(changed, sentence):
    reported = proof()
    reported["clients"]["client2"] |= changed
    assert clients_violations(demanded(TUNNEL), reported) == [sentence]


def test_the_server_has_to_have_met_all_of_them_together():
    sentence = "expected at least 30 packets of protocol 41 received by the server, seen 18"
    assert clients_violations(demanded(TUNNEL), proof(**{"in": 18})) == [sentence]
