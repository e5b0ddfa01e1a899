"""Limits of a testbed's hosts, and the messages about them."""

from __future__ import annotations

import pytest

from pytest_ipperf.core.design.cell import Workload
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.factor import levels_from_text
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.lab.inventory.limits import beyond, check_rebootable
from pytest_ipperf.lab.inventory.model import Host, Testbed
from pytest_ipperf.protocols import PROTOCOLS


def office_of(*, clients=1, **limits):
    """Make a testbed with these limits of its hosts, as (connections, bit/s)."""
    hosts = {
        name: Host(name=name, way="local", settings={}, most_connections=most, most_rate_bit_s=rate)
        for name in ("alpha", "gamma", "delta", "beta")
        for most, rate in [limits.get(name, (0, 0.0))]
    }
    more = tuple(hosts[name] for name in ("gamma", "delta")[: clients - 1])
    return Testbed(name="office", client=hosts["alpha"], more_clients=more, server=hosts["beta"])


def workload(protocol="http", connections=1, own=""):
    levels = levels_from_text(PROTOCOLS[protocol].factors, own)
    return Workload(testbed="office", protocol=protocol, client="lean", connections=connections, payload_bytes=1024,
                    levels=levels)  # fmt: skip


def test_without_limits_nothing_is_too_much():
    assert beyond(office_of(), workload(connections=10**6)) == ""
    assert beyond(office_of(), workload("udp", own="100gbit")) == beyond(office_of(), workload("tcp")) == ""


@pytest.mark.parametrize(
    ("clients", "limits", "most", "host"),
    [
        (1, {"alpha": 10, "beta": 20}, 10, "alpha"),
        (1, {"beta": 20}, 20, "beta"),
        (2, {"alpha": 10, "beta": 25}, 20, "alpha"),  # half of them are another host's
        (3, {"alpha": 10, "delta": 5}, 15, "delta"),
        (3, {"alpha": 10, "beta": 12}, 12, "beta"),
    ],
)
def test_connections_are_limited_by_the_host_that_takes_the_fewest(clients, limits, most, host):
    office = office_of(clients=clients, **{name: (limit, 0.0) for name, limit in limits.items()})
    assert beyond(office, workload(connections=most)) == ""
    sentence = f"testbed office takes {most} connections at most, by max_connections of host {host}"
    assert beyond(office, workload(connections=most + 1)) == sentence


@pytest.mark.parametrize(
    ("protocol", "own", "asked"),
    [
        ("udp", "100mbit", ""),
        ("udp", "101mbit", "udp is to send more"),
        ("udp", "", "udp is to send more"),  # a flood
        ("tcp", "window64k", "tcp uses all that it gets"),
        ("rtt", "udp", ""),  # one probe at a time
        ("http", "", ""),
    ],
)
def test_a_rate_is_a_limit_of_flows(protocol, own, asked):
    reported = f"testbed office takes 100 Mbit/s at most, by max_rate of host beta, and {asked}" if asked else ""
    assert beyond(office_of(beta=(0, 1e8)), workload(protocol, own=own)) == reported


def far(name, reboot=""):
    return Host(name=name, way="ssh", settings={"ssh": name}, reboot=reboot)


def test_only_hosts_with_a_command_for_it_are_started_anew():
    office = {"name": "office", "server": far("beta", "reboot")}
    check_rebootable(Testbed(client=far("alpha", "reboot"), **office))
    needed = "no key reboot in hosts.ini, and --ipperf-reboot=yes needs one for each of office"
    here = Host(name="here", way="local", settings={})
    two = Testbed(name="office", client=far("alpha"), server=far("beta"))
    for testbed, sentence in (
        (BUILTIN["pair"], ("testbed pair is built anew before each epoch anyway; --ipperf-reboot=yes is for hosts of "
                           "hosts.ini with a key reboot")),
        (Testbed(client=far("alpha"), **office), f"host alpha has {needed}"),
        (two, f"hosts alpha, beta have {needed}"),
        (Testbed(client=here, **office), f"host here has {needed}; pytest runs on here, and a reboot would end it"),
    ):  # fmt: skip
        with pytest.raises(UsageError) as caught:
            check_rebootable(testbed)
        assert str(caught.value) == sentence
