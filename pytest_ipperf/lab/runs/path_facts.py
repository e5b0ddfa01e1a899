"""Collect the facts of the arms' paths from the hosts' agents, and derive what a testbed's paths must be."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

from pytest_ipperf.agent.paths.routes import Route, fit_sizes
from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.measurement.path_proof import ExpectedPath, encapsulation_violations, proof_violations
from pytest_ipperf.lab.agents.client import AgentClient
from pytest_ipperf.lab.inventory.model import Testbed
from pytest_ipperf.lab.netns.veth import has_rate, veth_pairs
from pytest_ipperf.transports.base import CLIENT, ROUTER, SERVER, NetworkPath

# Links with loss drop a packet now and then; each costs half a second of waiting.
_TRIES = 8
_MOST_BYTES = 65535  # of an IPv4 packet


def expected_path(testbed: Testbed, arm: Arm, least_packets: tuple[int, int]) -> ExpectedPath:
    """Return the sockets, packets and routes that an arm must have."""
    path = testbed.path(arm)
    devices = {
        role: {name: each.devices[role] for name, each in testbed.paths.items() if role in each.devices}
        for role in testbed.roles
    }
    return ExpectedPath(
        ipver=arm.ipver,
        client=path.client,
        server=path.server,
        exclusive=testbed.exclusive,
        least_packets=least_packets,
        carriers=path.carriers,
        transport=arm.transport,
        devices=devices,
        mtu=path.ends[CLIENT].mtu if CLIENT in path.ends else 0,
        rate_bit_s=testbed.links.rate_bit_s if testbed.is_lab else 0.0,
    )


def agents_of_client(agents: Mapping[str, AgentClient], role: str) -> dict[str, AgentClient]:
    """Return the agents of a testbed with the client of that role as its only one, as `Testbed.seen_by` has it."""
    return {CLIENT: agents[role], **{each: agents[each] for each in (SERVER, ROUTER) if each in agents}}


def clients_violations(expected_path: Mapping[str, ExpectedPath], proof: Mapping[str, Any]) -> list[str]:
    """Return the violations of a run; with several clients, those of each client's part, with its host's name.

    `expected_path` is by the clients' roles. Packets at server and router are those of all clients together.
    """
    clients = proof.get("clients")
    if not clients:
        return proof_violations(expected_path[CLIENT], proof)
    violations = []
    for role, report in clients.items():
        seen = {**report, "protocol41": {CLIENT: report["protocol41"]}}
        violations += [f"host {report['host']}: {each}" for each in proof_violations(expected_path[role], seen)]
    shared = {role: counts for role, counts in proof["protocol41"].items() if role not in expected_path}
    return violations + encapsulation_violations(expected_path[CLIENT], shared, proof["completed"])


def path_facts(
    testbed: Testbed, agents: Mapping[str, AgentClient], arm: Arm, resolver_port: int, name: str
) -> dict[str, Any]:
    """Return the facts of an arm's path, as `path_violations` takes them; only its `routes` if there is no route."""
    path = testbed.path(arm)
    there = agents[CLIENT].route(path.server, path.client)
    routes, onward, back = {CLIENT: _recorded(there)}, {}, {}
    if there.error:
        return {"routes": routes, "fits": {}}
    if path.client:
        routes[SERVER] = _recorded(agents[SERVER].route(path.client, path.server))
    if path.client and ROUTER in agents and (testbed.is_lab or ROUTER in path.carriers):
        routes[ROUTER], onward[ROUTER] = _forwarding_routes(path, agents[ROUTER])
    fits = agents[CLIENT].fits(path.server, resolver_port, name, fit_sizes(there.mtu, arm.ipver))
    if path.client and next(iter(fits.values())) == "yes":
        back = fits_back(
            agents[SERVER], agents[CLIENT], source=path.server, address=path.client, ports=testbed.server.ports,
            sizes=fits, tries=_TRIES,
        )  # fmt: skip
    return {"routes": routes, "onward": onward, "fits": fits, "back": back, "rates": _rates(testbed, agents)}


def _forwarding_routes(path: NetworkPath, agent: AgentClient) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a router's routes to the client and to the server, for packets from the other end or of the tunnel."""
    near, far = path.client, path.server
    if path.carriers and path.carriers[-1] != ROUTER:  # the router forwards IPv4 without knowing of the tunnel
        near, far = path.ends[CLIENT].local, path.ends[SERVER].local
    nearer, farther = (agent.route(address).device for address in (near, far))
    return _recorded(agent.route(near, far, farther)), _recorded(agent.route(far, near, nearer))


def _recorded(route: Route) -> dict[str, Any]:
    """Return a route as in records: only `error` if there is none, else all other fields."""
    fields = dataclasses.asdict(route)
    error = fields.pop("error")
    return {"error": error} if error else fields


def fits_back(
    here: AgentClient,
    there: AgentClient,
    *,
    source: str,
    address: str,
    ports: tuple[int, int],
    sizes: Collection[int],
    tries: int,
) -> dict[int, str]:
    """Return which packets of these sizes get from `source` to `address` unfragmented: `yes`, `too big` or `no answer`.

    The receiver requests them from a port of `ports` here, so that firewalls let them through.
    """
    largest, port = min(sizes), here.reverse_pmtu_listen(source, ports)
    there.reverse_pmtu_open(address, source, port)
    sent = [size for size in sizes if ":" in source or size <= _MOST_BYTES]
    refused, taken = set(sizes) - set(sent), set[int]()
    for _ in range(tries):
        there.reverse_pmtu_request()
        refused |= set(here.reverse_pmtu_send(sent))
        if largest in refused:
            break
        taken |= set(there.reverse_pmtu_received(largest))
        if largest in taken:
            break
    return {size: "yes" if size in taken else "too big" if size in refused else "no answer" for size in sizes}


def _rates(testbed: Testbed, agents: Mapping[str, AgentClient]) -> dict[str, dict[str, float]]:
    """Return the rates of a lab's ports, by host and device; empty for links without a rate."""
    if not testbed.is_lab or not testbed.links.rate_bit_s:
        return {}
    ports = [port for pair in veth_pairs(testbed) for port in pair if has_rate(port, testbed.links)]
    by_role = {role: [port.device for port in ports if port.role == role] for role in agents}
    return {role: agents[role].rates(devices) for role, devices in by_role.items() if devices}


def native_devices(testbed: Testbed, agents: Mapping[str, AgentClient], ipver: int = 4) -> dict[str, str]:
    """Return the device by which each host reaches the others natively, by role; empty if there is no route."""
    result = {}
    for role, agent in agents.items():
        other = testbed.server if role in testbed.clients else testbed.client
        address = other.address(ipver) or other.address(10 - ipver)
        result[role] = agent.route(address).device if address else ""
    return result
