"""The labs of this machine: their nodes and addresses, and the meaning of names such as `lab.100mbit`. Passive.

RFC 2544 and RFC 5180 reserve these addresses for benchmarking.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Mapping

from pytest_ipperf.core.closest_match import did_you_mean
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.units import parse_rate
from pytest_ipperf.lab.inventory.model import AUTO, Host, Links, Testbed
from pytest_ipperf.transports import TRANSPORTS
from pytest_ipperf.transports.base import CLIENT, ROUTER, SERVER, HostAddresses, NetworkPath

NEAR, FAR = "198.18.0", "198.18.1"
NEAR6, FAR6 = "2001:2:0:10", "2001:2:0:11"
"""Networks of the client's link and, with a router, of the server's link (/24 and /64)."""

# At 64 kbit/s packets of one run arrived in the next; below 25 kbit/s a train times out between two packets.
_LEAST_BIT_S, _MOST_BIT_S = 256e3, 1e11
# Client and server run on different processors; a machine with a single processor ignores this.
_CPUS = {CLIENT: (1,), SERVER: (0,)}


def lab(
    name: str,
    nodes: int,
    links: Links = Links(),  # noqa: B008 - it is frozen
    backend: str = AUTO,
    clients: int = 1,
) -> Testbed:
    """Return a lab of three nodes (client, router, server), or of two without the router.

    Several `clients` each have a link to the router, and no tunnelled arms.
    """
    places = {CLIENT: HostAddresses(f"{NEAR}.1", f"{NEAR6}::1"), ROUTER: HostAddresses(f"{NEAR}.2", f"{NEAR6}::2"),
              SERVER: HostAddresses(f"{FAR}.1", f"{FAR6}::1")}  # fmt: skip
    if nodes == 2:
        places = {CLIENT: places[CLIENT], SERVER: places[ROUTER]}
    hosts = {role: _node(role, place) for role, place in places.items()}
    return Testbed(
        name=name,
        client=hosts[CLIENT],
        server=hosts[SERVER],
        router=hosts.get(ROUTER),
        more_clients=tuple(_further(number) for number in range(2, clients + 1)),
        exclusive=True,
        links=links,
        paths={} if clients > 1 else _paths(places),
        backend=backend,
    )


def _paths(places: Mapping[str, HostAddresses]) -> dict[str, NetworkPath]:
    """Return the paths of the transports that have prefixes in a lab."""
    known = sorted(TRANSPORTS.values(), key=lambda transport: transport.rank)
    return {each.name: each.path(places, each.lab_prefixes) for each in known if each.lab_prefixes}


def _further(number: int) -> Host:
    """Return client number `number` (2 or more), in networks of its own."""
    place = HostAddresses(f"198.18.{number}.1", f"2001:2:0:2{number}::1")
    return dataclasses.replace(_node(CLIENT, place), name=f"{CLIENT}{number}", settings={"node": f"{CLIENT}{number}"})


def _node(role: str, place: HostAddresses) -> Host:
    return Host(
        name=role, way="namespace", ipv4=place.ipv4, ipv6=place.ipv6, cpus=_CPUS.get(role, ()), settings={"node": role}
    )


def _loopback() -> Testbed:
    hosts = [
        Host(name=role, way="local", ipv4="127.0.0.1", ipv6="::1", cpus=cpus, settings={"node": role})
        for role, cpus in _CPUS.items()
    ]
    return Testbed(name="loopback", client=hosts[0], server=hosts[1])


BUILTIN = {"lab": lab("lab", 3), "pair": lab("pair", 2), "loopback": _loopback()}


def link_rate(text: str) -> float:
    """Parse a rate for a lab's links, in bit/s; UsageError for anything else."""
    rate_bit_s = parse_rate(text)
    if not _LEAST_BIT_S <= rate_bit_s <= _MOST_BIT_S:
        raise UsageError(f"rate {text!r} is not between 256kbit and 100gbit")
    return rate_bit_s


def ends_in_rate(name: str) -> bool:
    """Return whether a name has the form of a lab with a rate."""
    for _, text in _cut(name):
        with contextlib.suppress(UsageError):
            return bool(parse_rate(text))
    return False


def with_rate(name: str, inventory: Mapping[str, Testbed]) -> Testbed | None:
    """Return the testbed of a name such as `lab.100mbit`: a lab with its links limited to that rate.

    None if no lab has that name; UsageError if a lab's name is followed by an invalid rate.
    """
    trouble = None
    for before, text in _cut(name):
        base = inventory.get(before)
        if base is None or not base.is_lab:
            continue
        try:
            links = dataclasses.replace(base.links, rate_bit_s=link_rate(text))
        except UsageError as error:
            trouble = error
        else:
            return dataclasses.replace(base, name=name, links=links)
    if trouble:
        raise trouble
    return None


def testbed_of(name: str, inventory: Mapping[str, Testbed]) -> Testbed:
    """Return the testbed of that name, perhaps a lab with a rate; UsageError listing the testbeds if there is none."""
    if testbed := inventory.get(name) or with_rate(name, inventory):
        return testbed
    base, dot, _ = name.partition(".")
    if dot and base in inventory:
        raise UsageError(
            f"testbed {name!r} cannot have a rate, as testbed {base} is not a lab; an example is lab.100mbit"
        )
    known = ", ".join(inventory)
    raise UsageError(
        f"testbed {name!r} does not exist; there are {known}, and labs with any rate, such as lab.100mbit"
        f"{did_you_mean(name, inventory)}"
    )


def _cut(name: str) -> list[tuple[str, str]]:
    """Return the text before and after each dot, as both a rate and a lab's name may contain dots."""
    return [(name[: dot.start()], name[dot.end() :]) for dot in re.finditer(r"\.", name)]
