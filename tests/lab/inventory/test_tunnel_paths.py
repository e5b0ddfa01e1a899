"""The paths between the user's own hosts, for all kinds of networks and devices."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.lab.inventory import testbeds
from pytest_ipperf.lab.inventory.addresses import literal, network, unfit
from pytest_ipperf.lab.inventory.builtin import FAR6, NEAR6, lab
from pytest_ipperf.lab.inventory.model import Host
from pytest_ipperf.lab.inventory.tunnel_paths import TUNNELLED, paths, read_device
from pytest_ipperf.transports import TRANSPORTS

unicast = st.integers(0x2000 << 112, (0x4000 << 112) - 1).map(lambda number: str(ipaddress.IPv6Address(number)))
networks = st.integers(0x2000 << 48, (0x4000 << 48) - 1).map(lambda high: str(ipaddress.IPv6Network((high << 64, 64))))
devices = st.from_regex(r"[a-z][a-z0-9_.-]{0,14}", fullmatch=True)


def host(name, ipv4, **kept):
    return Host(name=name, way="ssh", ipv4=ipv4, settings={"ssh": name}, **kept)


def hosts(having=None, *, router):
    """Make client, server and perhaps a router, with these addresses and devices by role."""
    roles = ("client", "server", *(["router"] if router else []))
    return {
        role: host(role, f"192.0.2.{number}", **(having or {}).get(role, {})) for number, role in enumerate(roles, 1)
    }


def test_the_transports_with_a_key_are_those_that_encapsulate():
    assert set(TUNNELLED) == {name for name in TRANSPORTS if TRANSPORTS[name].encapsulated} == {"tunnel", "isatap"}


@given(st.lists(networks, min_size=3, max_size=3, unique=True), st.booleans())
def test_networks_of_their_own_make_paths_with_addresses_of_their_own(given_networks, router):
    site = " ".join(given_networks[1:] if router else given_networks[1:2])
    found = paths(hosts(router=router), {"tunnel": given_networks[0], "isatap": site})
    addresses = [address for path in found.values() for address in (path.client, path.server)]
    assert len(set(addresses)) == 4
    assert all(any(ipaddress.ip_address(each) in ipaddress.ip_network(net) for net in given_networks)
               for each in addresses)  # fmt: skip
    assert found["tunnel"].carriers == ("client", "server")
    assert found["isatap"].carriers == ("client", "router" if router else "server")


@given(networks, st.sampled_from(["tunnel", "isatap"]), st.sampled_from(["client", "server", "router"]), st.data())
def test_a_network_in_which_a_host_is_already_is_refused(prefix, transport, role, data):
    inside = str(ipaddress.ip_network(prefix)[data.draw(st.integers(0, 2**64 - 1))])
    roles = hosts({role: {"ipv6": inside}}, router=True)
    given_networks = {transport: f"{prefix} fd00::/64" if transport == "isatap" else prefix}
    with pytest.raises(UsageError) as caught:
        paths(roles, given_networks)
    sentence = f"{transport} = {prefix!r} holds {inside} of host {role}; take a network that nothing uses"
    assert str(caught.value) == sentence


@given(unicast, unicast, st.booleans())
def test_a_hosts_own_device_is_used_and_nothing_made(client, server, router):
    assume(client != server)
    own = {"client": {"tunnels": {"tunnel": ("sit1", client)}}, "server": {"tunnels": {"tunnel": ("sit2", server)}}}
    found = paths(hosts(own, router=router), {})
    assert set(found) == {"tunnel"}
    path = found["tunnel"]
    assert (path.client, path.server, path.ends, path.legs) == (client, server, {}, {})
    assert path.devices == {"client": "sit1", "server": "sit2"}


def test_without_networks_and_devices_there_are_no_paths():
    assert paths(hosts(router=False), {}) == paths(hosts(router=True), {}) == {}


@given(devices, unicast, st.sampled_from([" ", "  ", "\t"]))
def test_a_device_and_its_address_are_read_as_they_are_written(device, address, space):
    assert read_device("tunnel", f"{device}{space}{address.upper()}") == (device, literal(address, 6))


def said(read, *arguments):
    """Return the result, or the message of the error."""
    try:
        return read(*arguments), ""
    except UsageError as error:
        return None, str(error)


@given(st.text(max_size=40))
def test_any_text_is_a_device_or_one_sentence(text):
    found, sentence = said(read_device, "isatap", text)
    if found:
        assert [found[0], ipaddress.IPv6Address(found[1])] == [text.split()[0], ipaddress.IPv6Address(text.split()[1])]
    else:
        assert sentence.startswith(f"isatap = {text!r}")


@given(st.one_of(st.text(max_size=40), st.ip_addresses().map(lambda each: f"{each}/64"), networks))
def test_any_text_is_a_network_or_the_end_of_a_sentence(text):
    found, sentence = said(network, text)
    if found:
        assert ipaddress.IPv6Network(found).prefixlen == 64
        assert not unfit(str(ipaddress.IPv6Network(found)[1]))
    else:
        assert sentence.startswith(("is ", "contains "))


@given(st.ip_addresses())
def test_an_address_is_of_one_version(address):
    assert literal(str(address), address.version)
    assert literal(str(address), 10 - address.version) == ""
    assert ipaddress.ip_address(literal(str(address), address.version)) == address


def test_the_address_of_a_device_is_one_ends_alone():
    same = {"tunnels": {"tunnel": ("sit1", "2001:db8:41::1")}}
    with pytest.raises(UsageError) as caught:
        paths(hosts({"client": same, "server": same}, router=False), {})
    said = "hosts client and server have the same address 2001:db8:41::1 for tunnel; give each its own"
    assert str(caught.value) == said


def test_the_networks_of_a_lab_are_each_its_own_and_of_the_benchmarking_range():
    """RFC 5180 reserves 2001:2::/48. Two equal ones would make a tunnel's routes those of a link, or of another."""
    links = [f"{NEAR6}::/64", f"{FAR6}::/64"]
    reserved = [prefix for each in TRANSPORTS.values() for prefix in each.lab_prefixes]
    clients = [f"{each.ipv6}/64" for each in lab("crowd", 3, clients=testbeds._MOST_CLIENTS).more_clients]
    assert len(reserved) >= 3
    assert len(clients) == testbeds._MOST_CLIENTS - 1
    found = [
        *map(ipaddress.IPv6Network, (*links, *reserved)),
        *(ipaddress.IPv6Interface(each).network for each in clients),
    ]
    assert sorted(found) == sorted(set(found))
    assert {each.prefixlen for each in found} == {64}
    assert all(each.subnet_of(ipaddress.IPv6Network("2001:2::/48")) for each in found)
