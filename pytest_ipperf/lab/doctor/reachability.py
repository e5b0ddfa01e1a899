"""Probe paths between hosts: whether ports are open, and which packets get through unfragmented, in both directions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import permutations

from pytest_ipperf.agent.facts.addresses import AddressFacts
from pytest_ipperf.agent.paths.routes import Route, fit_sizes
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.lab.agents.client import AgentClient
from pytest_ipperf.lab.doctor.observations import HostObservation, Reachability
from pytest_ipperf.lab.inventory.model import Testbed
from pytest_ipperf.lab.runs.path_facts import fits_back
from pytest_ipperf.transports.base import SERVER

_TRIES = 4


def host_pairs(testbed: Testbed) -> Iterator[Reachability]:
    """Iterate over the paths between the server and each client, in both directions and by IP version."""
    roles = testbed.roles
    pairs = [pair for pair in permutations([*testbed.clients, SERVER], 2) if SERVER in pair]
    hosts = {(roles[one].name, roles[other].name): (roles[one], roles[other]) for one, other in pairs}
    for here, there in hosts.values():
        for ipver in (4, 6):
            if here.address(ipver) and there.address(ipver):
                yield Reachability(here=here.name, there=there.name, ipver=ipver)


def probe_reachability(
    agents: Mapping[str, AgentClient], observed: Mapping[str, HostObservation], path: Reachability
) -> Reachability:
    """Return the path with the results of its probes."""
    there = observed[path.there].host
    source, address = (observed[name].host.address(path.ipver) for name in (path.here, path.there))
    found = observed[path.here].fact(AddressFacts)
    routes = {(each.source, each.address): each.route for each in found.routes} if found else {}
    route = routes.get((source, address), Route(error="nobody knows"))
    if route.error:
        return replace(path, trouble=f"no route to {address} ({route.error.lower()})")
    for host, each in ((path.here, source), (path.there, address)):
        if (found := observed[host].fact(AddressFacts)) and each in found.lacking:
            return replace(path, trouble=f"{each} is not an address of host {host}")
    try:
        port = agents[path.there].reachability_listen(address, there.ports)
        probed = agents[path.here].reachability_probe(source, address, port)
        agents[path.there].reachability_close()
        fits = {}
        if path.here != path.there and not probed["udp"]:
            fits = fits_back(
                agents[path.here], agents[path.there], source=source, address=address,
                port=agents[path.here].reverse_pmtu_listen(source, observed[path.here].host.ports),
                sizes=fit_sizes(route.path_mtu or route.mtu, path.ipver), tries=_TRIES,
            )  # fmt: skip
    except LabError as error:
        return replace(path, trouble=str(error))
    return replace(path, mtu=route.mtu, tcp=probed["tcp"], udp=probed["udp"], fits=fits)
