"""The paths of tunnelled arms between the user's own hosts, by existing devices or by networks for new ones.

Pure. An impossible path is a UsageError with the rest of a sentence about the testbed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from ipaddress import IPv6Address, IPv6Network

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.lab.inventory.addresses import literal, network, unfit
from pytest_ipperf.lab.inventory.model import Host
from pytest_ipperf.transports import TRANSPORTS
from pytest_ipperf.transports.base import CLIENT, ROUTER, SERVER, HostAddresses, NetworkPath

TUNNELLED = tuple(
    sorted((name for name in TRANSPORTS if TRANSPORTS[name].encapsulated), key=lambda name: TRANSPORTS[name].rank)
)
"""Transports that need such a path; their names are keys of hosts and of testbeds."""

_DEVICE = re.compile(r"[^\s/:%]{1,15}")  # 15 characters: IFNAMSIZ of Linux


def read_device(transport: str, text: str) -> tuple[str, str]:
    """Parse a host's own device for a transport, `DEVICE ADDRESS`, into its name and the address on it."""
    device, address = [*text.split(), "", ""][:2]
    address = literal(address, 6)
    if len(text.split()) != 2 or not address or not _DEVICE.fullmatch(device):
        raise UsageError(
            f"{transport} = {text!r} is not a device and the IPv6 address on it, such as sit1 2001:db8:41::1"
        )
    if why := unfit(address):
        raise UsageError(f"{transport} = {text!r}: {address!r} is {why}; give another address of the device")
    return device, address


def paths(roles: Mapping[str, Host], networks: Mapping[str, str]) -> dict[str, NetworkPath]:
    """Return the paths between the hosts with these roles, by transport.

    `networks` are those that the testbed reserves, as written, by transport. Devices of hosts are not used if client
    and server are one machine.
    """
    apart: dict[str, str] = {}
    for transport, text in networks.items():
        for each in text.split() or [text]:
            _set_apart(transport, each, roles, apart)
    result = {}
    for transport in TUNNELLED:
        if transport in networks:
            result[transport] = _new_path(transport, networks[transport], roles)
        elif (
            any(transport in host.tunnels for host in roles.values())  # avoids asking ssh for machines in vain
            and roles[CLIENT].machine != roles[SERVER].machine
            and (path := _existing_path(transport, roles))
        ):
            result[transport] = path
    return result


def _set_apart(transport: str, text: str, roles: Mapping[str, Host], apart: dict[str, str]) -> None:
    """Record a network, or raise UsageError if it is in use."""
    try:
        prefix = network(text)
    except UsageError as error:
        raise UsageError(f"{transport} = {text!r} {error}") from None
    if prefix in apart:
        raise UsageError(f"{transport} = {text!r} is set apart for {apart[prefix]} already; take another network")
    for host in roles.values():
        for address in filter(None, (host.ipv6, *(address for _, address in host.tunnels.values()))):
            if IPv6Address(address) in IPv6Network(prefix):
                raise UsageError(
                    f"{transport} = {text!r} holds {address} of host {host.name}; take a network that nothing uses"
                )
    apart[prefix] = transport


def _new_path(transport: str, text: str, roles: Mapping[str, Host]) -> NetworkPath:
    asked, kind = f"{transport} = {text!r}", TRANSPORTS[transport]
    hosts = {role: host for role, host in roles.items() if role != ROUTER or kind.routed}
    for host in hosts.values():
        if transport in host.tunnels:
            device = host.tunnels[transport][0]
            raise UsageError(f"{asked} makes what host {host.name} has, its device {device!r}; keep one of the two")
    prefixes = tuple(map(network, text.split()))
    if len(prefixes) != len(hosts) - 1:
        count = f"{len(prefixes)} network{'s' if len(prefixes) > 1 else ''}"
        raise UsageError(f"{asked} names {count}; {_wanted(transport, routed=ROUTER in hosts)}")
    machines: dict[str, str] = {}
    for host in hosts.values():
        if not host.ipv4:
            raise UsageError(f"{asked} goes through IPv4, which host {host.name} lacks; give it a key ipv4")
        if host.machine in machines:
            raise UsageError(
                f"{asked} needs machines of their own for hosts {machines[host.machine]} and {host.name}; "
                "network namespaces of this one are such by access method ssh, each with an sshd of its own"
            )
        machines[host.machine] = host.name
    return kind.path({role: HostAddresses(host.ipv4, host.ipv6) for role, host in hosts.items()}, prefixes)


def _wanted(transport: str, *, routed: bool) -> str:
    if routed:
        return "through a router it takes two, the site's and one for the server's link behind it"
    return "it takes one" + (", and two only through a router" if TRANSPORTS[transport].routed else "")


def check_alike(transport: str, hosts: Collection[Host]) -> None:
    """Raise UsageError if only some of these hosts name a device for a transport."""
    having, lacking = ([host for host in hosts if (transport in host.tunnels) is has] for has in (True, False))
    if having and lacking:
        raise UsageError(
            f"host {having[0].name} names a device for {transport} and host {lacking[0].name} none; "
            f"give both a key {transport}, or none"
        )


def _existing_path(transport: str, roles: Mapping[str, Host]) -> NetworkPath | None:
    named = {role: host.tunnels[transport] for role, host in roles.items() if transport in host.tunnels}
    ends = [roles[role] for role in (CLIENT, SERVER)]
    check_alike(transport, ends)
    if CLIENT not in named:
        return None
    if named[CLIENT][1] == named[SERVER][1]:
        raise UsageError(
            f"hosts {ends[0].name} and {ends[1].name} have the same address {named[CLIENT][1]} for {transport}; "
            "give each its own"
        )
    carriers = TRANSPORTS[transport].carriers(named[SERVER][1], router=ROUTER in roles)
    return NetworkPath(
        client=named[CLIENT][1],
        server=named[SERVER][1],
        devices={role: named[role][0] for role in carriers if role in named},
        carriers=carriers,
    )
