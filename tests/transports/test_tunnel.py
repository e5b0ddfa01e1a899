"""Path of a configured tunnel (6in4), and properties of all encapsulating transports."""

from __future__ import annotations

import dataclasses
import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.transports import TRANSPORTS
from pytest_ipperf.transports.base import HostAddresses, HostRoutes, TunnelEndpoint
from pytest_ipperf.transports.tunnel import transport

CLIENT, SERVER = HostAddresses("192.0.2.1", "2001:db8::1"), HostAddresses("192.0.2.2", "2001:db8::2")
ROUTER = HostAddresses("192.0.2.3", "2001:db8::3")
PREFIXES = ("2001:db8:41::/64", "2001:db8:12::/64")


def test_each_end_knows_the_others_ipv4_address():
    path = transport.path({"client": CLIENT, "server": SERVER}, PREFIXES[:1])
    assert (path.client, path.server) == ("2001:db8:41::1", "2001:db8:41::2")
    client, server = path.ends["client"], path.ends["server"]
    assert (client.local, client.remote) == (server.remote, server.local) == ("192.0.2.1", "192.0.2.2")
    assert (client.addresses, server.addresses) == (("2001:db8:41::1/64",), ("2001:db8:41::2/64",))
    assert client.mtu == server.mtu == 1500 - transport.overhead_bytes
    assert path.carriers == ("client", "server")
    assert path.devices == {"client": client.device, "server": server.device}
    assert (path.legs, client.routes, server.routes) == ({}, (), ())


def test_a_router_between_passes_on_what_it_does_not_understand():
    path = transport.path({"client": CLIENT, "server": SERVER, "router": ROUTER}, PREFIXES[:1])
    assert path.carriers == ("client", "router", "server")
    assert set(path.ends) == set(path.devices) == {"client", "server"}


@given(st.integers(0x2000 << 48, (0x3FFF << 48) - 1))
def test_its_addresses_are_in_its_prefix(high):
    prefix = ipaddress.IPv6Network((high << 64, 64))
    path = transport.path({"client": CLIENT, "server": SERVER}, (str(prefix),))
    assert path.client != path.server
    assert all(ipaddress.IPv6Address(address) in prefix for address in (path.client, path.server))


@pytest.mark.parametrize("name", TRANSPORTS)
@pytest.mark.parametrize("router", [False, True])
def test_what_is_to_be_made_can_travel_to_the_host_that_makes_it(name, router):
    hosts = {"client": CLIENT, "server": SERVER, **({"router": ROUTER} if router else {})}
    path = TRANSPORTS[name].path(hosts, PREFIXES)
    for end in path.ends.values():
        assert TunnelEndpoint(**dataclasses.asdict(end)) == end
        assert end.transport == name
        assert len(end.device) <= 15
    for leg in path.legs.values():
        assert HostRoutes(**dataclasses.asdict(leg)) == leg
    assert bool(path.carriers) == bool(path.ends) == TRANSPORTS[name].encapsulated
    assert set(path.ends) <= set(path.carriers) <= set(hosts)


@pytest.mark.parametrize("name", TRANSPORTS)
def test_what_a_transport_adds_is_what_its_packets_have_more(name):
    kind = TRANSPORTS[name]
    assert kind.overhead_bytes == (20 if kind.encapsulated else 0)
    assert kind.ipvers == ((6,) if kind.encapsulated else (4, 6))
    assert kind.routed <= kind.encapsulated


def test_no_two_transports_share_a_device_or_a_place_in_tables():
    hosts = {"client": CLIENT, "server": SERVER, "router": ROUTER}
    devices = [device for each in TRANSPORTS.values() for device in set(each.path(hosts, PREFIXES).devices.values())]
    assert len(devices) == len(set(devices))
    assert sorted(each.rank for each in TRANSPORTS.values()) == list(range(len(TRANSPORTS)))


def test_an_own_device_is_carried_by_both_ends():
    assert transport.carriers("2001:db8:41::2", router=True) == ("client", "server")
