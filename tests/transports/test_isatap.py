"""ISATAP addresses as in RFC 5214, and the paths made of them."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.transports.base import HostAddresses
from pytest_ipperf.transports.isatap import isatap_address, transport

SITE, BEHIND = "2001:db8:5e::/64", "2001:db8:12::/64"
CLIENT, SERVER = HostAddresses("198.18.0.1", "2001:db8::1"), HostAddresses("198.18.1.1", "2001:db8::2")
ROUTER = HostAddresses("198.18.0.2", "2001:db8::3")
HOSTS = {"client": CLIENT, "server": SERVER, "router": ROUTER}

prefixes = st.integers(0x2000 << 48, (0x3FFF << 48) - 1).map(lambda high: ipaddress.IPv6Network((high << 64, 64)))


@pytest.mark.parametrize(
    ("prefix", "ipv4", "address"),
    [
        # Section 6.1: the identifier of a host in a private network, and of one with a global address.
        ("fe80::/64", "10.40.1.29", "fe80::5efe:10.40.1.29"),
        ("fe80::/64", "192.168.41.30", "fe80::5efe:192.168.41.30"),
        ("fe80::/64", "131.107.129.8", "fe80::200:5efe:131.107.129.8"),
        (SITE, "131.107.129.8", "2001:db8:5e::200:5efe:131.107.129.8"),
        # Reserved for benchmarks; the kernel's own driver treats it the same way.
        ("fe80::/64", "198.18.0.2", "fe80::5efe:198.18.0.2"),
    ],
)
def test_addresses_are_those_of_the_rfc(prefix, ipv4, address):
    assert isatap_address(prefix, ipv4) == str(ipaddress.IPv6Address(address))


@given(prefixes, st.ip_addresses(v=4))
def test_the_ipv4_address_is_found_in_the_address_and_the_prefix_before_it(prefix, ipv4):
    address = ipaddress.IPv6Address(isatap_address(str(prefix), str(ipv4)))
    assert address in prefix
    assert address.packed[12:] == ipv4.packed
    assert address.packed[8:12] in {bytes.fromhex("00005efe"), bytes.fromhex("02005efe")}
    assert transport.carriers(str(address), router=True) == ("client", "server")


@given(prefixes, st.binary(min_size=8, max_size=8))
def test_only_such_an_address_is_taken_for_one(prefix, identifier):
    address = str(prefix[int.from_bytes(identifier, "big")])
    is_one = identifier[:4] in {bytes.fromhex("00005efe"), bytes.fromhex("02005efe")}
    assert transport.carriers(address, router=True) == (("client", "server") if is_one else ("client", "router"))
    assert transport.carriers(address, router=False) == (("client", "server") if is_one else ("client",))


def test_through_a_router_the_server_has_native_ipv6():
    path = transport.path(HOSTS, (SITE, BEHIND))
    assert (path.client, path.server) == ("2001:db8:5e::5efe:c612:1", "2001:db8:12::1")
    assert path.carriers == ("client", "router")
    assert set(path.devices) == set(path.ends) == {"client", "router"}
    client, router = path.ends["client"], path.ends["router"]
    assert (client.local, client.remote, router.local, router.remote) == ("198.18.0.1", "198.18.0.2", "198.18.0.2", "")
    # The next hop is the potential router's link-local address, which contains its IPv4 address (section 8.1).
    assert client.routes == ((BEHIND, "fe80::5efe:c612:2"),)
    assert client.addresses == ("fe80::5efe:c612:1/64", "2001:db8:5e::5efe:c612:1/64")
    assert router.addresses == ("fe80::5efe:c612:2/64", "2001:db8:5e::5efe:c612:2/64")
    assert client.mtu == router.mtu == 1480


def test_through_a_router_the_server_knows_the_way_back():
    legs = transport.path(HOSTS, (SITE, BEHIND)).legs
    assert legs["router"].addresses == ("2001:db8:12::2/64",)
    assert legs["server"].addresses == ("2001:db8:12::1/64",)
    assert legs["server"].routes == ((SITE, "2001:db8:12::2"),)
    assert (legs["router"].forwards, legs["server"].forwards) == (True, False)
    assert (legs["router"].towards, legs["server"].towards) == ("198.18.1.1", "198.18.0.1")


def test_without_a_router_the_server_is_in_the_site():
    path = transport.path({"client": CLIENT, "server": SERVER}, (SITE,))
    assert (path.client, path.server) == ("2001:db8:5e::5efe:c612:1", "2001:db8:5e::5efe:c612:101")
    assert path.carriers == ("client", "server")
    assert path.legs == {}
    assert [(end.remote, end.routes) for end in path.ends.values()] == [("", ()), ("", ())]


def test_one_prefix_is_too_few_with_a_router():
    with pytest.raises(UsageError) as caught:
        transport.path(HOSTS, (SITE,))
    sentence = "isatap through a router needs two prefixes: the site's and one for the server's link"
    assert str(caught.value) == sentence
