"""Sections `[testbed NAME]` and `[lab NAME]` of the inventory."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

from pytest_ipperf.agent.tunnels.backends import BACKENDS
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.units import parse_percent, parse_seconds
from pytest_ipperf.lab.inventory.builtin import lab, link_rate
from pytest_ipperf.lab.inventory.ini_reader import Section, listed, word
from pytest_ipperf.lab.inventory.model import AUTO, Host, Links, Testbed
from pytest_ipperf.lab.inventory.tunnel_paths import TUNNELLED, check_alike, paths
from pytest_ipperf.transports.base import CLIENT, ROUTER, SERVER

TESTBED_KEYS = frozenset({CLIENT, SERVER, ROUTER, "domain", "backend", *TUNNELLED})
LAB_KEYS = frozenset({"nodes", "clients", "rate", "loss", "delay", "backend", "bottleneck"})

_BACKENDS = (AUTO, *BACKENDS)
_EVERY_LINK = "every_link"
_BOTTLENECKS = (_EVERY_LINK, ROUTER)
_MOST_CLIENTS = 8
_LONGEST_DELAY_S = 0.25  # the path verification waits no longer for a packet


def read_testbed(section: Section, hosts: Mapping[str, Host], host_sections: Mapping[str, Section]) -> Testbed:
    """Return the testbed of a section; UsageError if a key is invalid, or its hosts cannot form a testbed.

    `host_sections` are the sections of the hosts.
    """
    section.known(TESTBED_KEYS)
    keys = section.keys
    for role in (CLIENT, SERVER):
        if role not in keys:
            raise section.wrong(f"key {role!r} is missing; it names a [host ...] section")
    clients = [_host(section, CLIENT, name, hosts) for name in listed(keys[CLIENT])]
    roles = {CLIENT: clients[0], SERVER: _host(section, SERVER, keys[SERVER], hosts)}
    if ROUTER in keys:
        roles[ROUTER] = _host(section, ROUTER, keys[ROUTER], hosts)
    _check_apart(section, clients, roles)
    _check_addresses(section, [*clients, *roles.values()], host_sections)
    networks = {each: keys[each] for each in TUNNELLED if each in keys}
    with section.at():
        tunnel_paths = paths(roles, networks)
    if len(clients) > 1:
        _check_several(section, clients, roles[SERVER], networks)
    return Testbed(
        name=section.name,
        client=clients[0],
        server=roles[SERVER],
        router=roles.get(ROUTER),
        more_clients=tuple(clients[1:]),
        domain=keys.get("domain", ""),
        paths=tunnel_paths,
        backend=word(section, "backend", _BACKENDS, AUTO),
    )


def _host(section: Section, role: str, name: str, hosts: Mapping[str, Host]) -> Host:
    if name not in hosts:
        known = ", ".join(sorted(hosts)) or "none"
        several = " separate several by commas;" if role == CLIENT and len(name.split()) > 1 else ""
        raise section.wrong(f"{role} = {name!r} is not a [host ...] section;{several} there are: {known}")
    return hosts[name]


def _check_apart(section: Section, clients: list[Host], roles: Mapping[str, Host]) -> None:
    """Raise UsageError unless the router and each of several clients are separate hosts."""
    names = [client.name for client in clients]
    if ROUTER in roles and (router := roles[ROUTER].name) in (*names, roles[SERVER].name):
        other = CLIENT if router in names else SERVER
        raise section.wrong(f"router = {router!r} is the {other}; it must be a separate host")
    for at, name in enumerate(names):
        if name in names[:at]:
            raise section.wrong(f"client = {section.keys[CLIENT]!r} names host {name} twice; give it once")


def _check_addresses(section: Section, hosts: list[Host], host_sections: Mapping[str, Section]) -> None:
    """Raise UsageError if two hosts share an address, as packets to it would reach only one of them, or the sender."""
    owners: dict[str, Host] = {}
    for host in hosts:
        for key, address in (("ipv4", host.ipv4), ("ipv6", host.ipv6)):
            owner = owners.setdefault(address, host)
            if address and owner.name != host.name and not _of_both(address, owner, host):
                at = host_sections[host.name]
                raise at.wrong(
                    f"{key} = {at.keys[key]!r} is the address of host {owner.name} too, and testbed "
                    f"{section.name} has both; give each its own"
                )


def _of_both(address: str, one: Host, other: Host) -> bool:
    """Return whether two hosts may share an address: a loopback address, or two ways into one machine."""
    return ipaddress.ip_address(address).is_loopback or one.machine == other.machine


def _check_several(section: Section, clients: list[Host], server: Host, networks: Mapping[str, str]) -> None:
    """Raise UsageError unless several clients and the server differ in addresses, and have tunnel devices alike."""
    for transport, text in networks.items():
        raise section.wrong(
            f"{transport} = {text!r} makes tunnels for one client, and this testbed has {len(clients)}; remove the "
            "key, or give the hosts existing devices"
        )
    wanted = f"client = {section.keys[CLIENT]!r}:"
    owners: dict[str, str] = {}
    for host in (*clients, server):
        if host in clients and host.name == server.name:
            raise section.wrong(
                f"{wanted} {host.name} is the server too; with several clients it must be a separate host"
            )
        for address in host.addresses:
            if (owner := owners.setdefault(address, host.name)) != host.name:
                raise section.wrong(
                    f"{wanted} hosts {owner} and {host.name} have the same address {address}; give each its own"
                )
    for transport in TUNNELLED:
        try:
            check_alike(transport, clients)
        except UsageError as error:
            raise section.wrong(f"{wanted} {error}") from None


def read_lab(section: Section) -> Testbed:
    """Return the lab of a section; UsageError if a key is invalid."""
    section.known(LAB_KEYS)
    keys = section.keys
    nodes = keys.get("nodes", "3")
    if nodes not in {"2", "3"}:
        raise section.wrong(f"nodes = {nodes!r} is neither 2 nor 3; the third one is a router")
    clients = keys.get("clients", "1")
    if clients not in set(map(str, range(1, _MOST_CLIENTS + 1))):
        raise section.wrong(f"clients = {clients!r} is not a number from 1 to {_MOST_CLIENTS}")
    if clients != "1" and nodes == "2":
        raise section.wrong(f"clients = {clients!r} need a router; use nodes = 3")
    with section.at("rate"):
        rate_bit_s = link_rate(keys["rate"]) if "rate" in keys else 0.0
    with section.at("loss"):
        loss = parse_percent(keys["loss"]) if "loss" in keys else 0.0
    with section.at("delay"):
        delay_s = parse_seconds(keys["delay"]) if "delay" in keys else 0.0
    if loss >= 1:
        raise section.wrong(f"loss = {keys['loss']!r} lets nothing through; it must be below 100%")
    if delay_s > _LONGEST_DELAY_S:
        raise section.wrong(f"delay = {keys['delay']!r} is too long; it may be up to {1000 * _LONGEST_DELAY_S:g}ms")
    at_router = word(section, "bottleneck", _BOTTLENECKS, _EVERY_LINK) == ROUTER
    if at_router and nodes == "2":
        raise section.wrong("bottleneck = router needs a router; use nodes = 3")
    links = Links(rate_bit_s=rate_bit_s, loss=loss, delay_s=delay_s, at_router=at_router)
    return lab(section.name, int(nodes), links, word(section, "backend", _BACKENDS, AUTO), int(clients))
