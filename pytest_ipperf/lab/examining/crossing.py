"""The ways between hosts: whether ports are open, and which packets get through unfragmented, both ways."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import permutations

from pytest_ipperf.agent.path import fit_sizes
from pytest_ipperf.core.errors import LabError
from pytest_ipperf.lab.examining.seen import Crossing, Seen
from pytest_ipperf.lab.link import Link
from pytest_ipperf.lab.testbed import Testbed
from pytest_ipperf.transports.base import SERVER

_TRIES = 4
_MOST_BYTES = 65535  # of an IPv4 packet


def ways(testbed: Testbed) -> Iterator[Crossing]:
    """From whom to whom, and by which IP version: between server and clients, the ends of what is measured."""
    roles = testbed.roles
    pairs = [pair for pair in permutations([*testbed.clients, SERVER], 2) if SERVER in pair]
    hosts = {(roles[one].name, roles[other].name): (roles[one], roles[other]) for one, other in pairs}
    for here, there in hosts.values():
        for ipver in (4, 6):
            if here.address(ipver) and there.address(ipver):
                yield Crossing(here=here.name, there=there.name, ipver=ipver)


def crossed(links: Mapping[str, Link], seen: Mapping[str, Seen], way: Crossing) -> Crossing:
    """The same with what was found out of it."""
    there = seen[way.there].host
    source, address = (seen[name].host.address(way.ipver) for name in (way.here, way.there))
    routes = {(own, far): found for own, far, found in seen[way.here].fact("addresses").get("routes", ())}
    route = routes.get((source, address), {"error": "nobody knows"})
    if "mtu" not in route:
        return replace(way, trouble=f"no route to {address} ({route['error'].lower()})")
    for host, own in ((way.here, source), (way.there, address)):
        if own in seen[host].fact("addresses").get("lacking", ()):
            return replace(way, trouble=f"{own} is not an address of host {host}")
    try:
        port = links[way.there].order("door", address, there.ports)
        knocked = links[way.here].order("knock", source, address, port)
        links[way.there].order("shut")
        fits = {}
        if way.here != way.there and not knocked["udp"]:
            fits = _fits(links, seen, way, fit_sizes(route["path_mtu"] or route["mtu"], way.ipver))
    except LabError as error:
        return replace(way, trouble=str(error))
    return replace(way, mtu=route["mtu"], tcp=knocked["tcp"], udp=knocked["udp"], fits=fits)


def _fits(links: Mapping[str, Link], seen: Mapping[str, Seen], way: Crossing, sizes: Collection[int]) -> dict[int, str]:
    """Which packets of these sizes get there unfragmented; who takes them asks for them, so that firewalls agree."""
    here, there = links[way.here], links[way.there]
    source, address = (seen[name].host.address(way.ipver) for name in (way.here, way.there))
    port = here.order("back_listen", source, seen[way.here].host.ports)
    there.order("back_open", address, source, port)
    largest = min(sizes)
    sent = [size for size in sizes if way.ipver == 6 or size <= _MOST_BYTES]
    refused, taken = set(sizes) - set(sent), set[int]()
    for _ in range(_TRIES):
        there.order("back_ask")
        refused |= set(here.order("back_answer", sent))
        if largest in refused:
            break
        taken |= set(there.order("back_taken", largest))
        if largest in taken:
            break
    return {size: "yes" if size in taken else "too big" if size in refused else "no answer" for size in sizes}
