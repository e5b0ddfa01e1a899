"""Collect the facts of the arms' paths from the hosts' agents, and derive what a testbed's paths must be."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

from pytest_ipperf.agent.paths.routes import Route, RouteRequest, fit_sizes
from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.measurement.path_proof import ExpectedPath, encapsulation_violations, proof_violations
from pytest_ipperf.lab.agents.client import AgentClient
from pytest_ipperf.lab.agents.rpc_method import all_replies
from pytest_ipperf.lab.inventory.builtin import BUILTIN
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


def lacking_addresses(testbed: Testbed, agents: Mapping[str, AgentClient]) -> dict[int, str]:
    """Return by IP version which source address of its native arm a client lacks, as a sentence.

    Only the user's own hosts are asked, each once; addresses that a session makes itself are right.
    """
    if testbed.is_lab or testbed.name in BUILTIN:
        return {}
    hosts = {role: agents[role].host for role in testbed.clients}
    asked = {
        role: agents[role].lacking.request([*filter(None, map(host.address, (4, 6)))]) for role, host in hosts.items()
    }
    missing = all_replies(asked)
    found: dict[int, str] = {}
    for role, host in hosts.items():
        for ipver in (4, 6):
            if (address := host.address(ipver)) in missing[role]:
                given = f"host {host.name}: it does not have {address}, its ipv{ipver} in hosts.ini"
                remedy = "name one that it has on the measured link there, or give it this one"
                found.setdefault(ipver, f"{given}; {remedy}")
    return found


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
    """Return the facts of an arm's path, as `path_violations` takes them; only its `routes` if there is no route.

    Hosts are asked side by side, each about everything that it knows by itself at once.
    """
    path = testbed.path(arm)
    forwards = path.client and ROUTER in agents and (testbed.is_lab or ROUTER in path.carriers)
    asked = {CLIENT: agents[CLIENT].routes.request([RouteRequest(destination=path.server, source=path.client)])}
    if path.client:
        home = RouteRequest(destination=path.client, source=path.server)
        asked[SERVER] = agents[SERVER].routes.request([home])
    if forwards:
        asked[ROUTER] = agents[ROUTER].routes.request(_forwarding(path))
    found = all_replies(asked, beside=list(agents.values()))
    (there,) = found[CLIENT]
    routes = {CLIENT: _recorded(there)}
    if there.error:
        return {"routes": routes, "fits": {}}
    routes |= {role: _recorded(each[0]) for role, each in found.items() if role != CLIENT}
    server, client, sizes, back = agents[SERVER], agents[CLIENT], fit_sizes(there.mtu, arm.ipver), {}
    fitting = client.fits.request(path.server, resolver_port, name, sizes)
    port = server.reverse_pmtu_listen(path.server, testbed.server.ports) if path.client else 0
    fits = fitting.result(beside=list(agents.values()))
    if path.client and next(iter(fits.values())) == "yes":
        back = fits_back(
            server, client, source=path.server, port=port, address=path.client, sizes=fits, tries=_TRIES
        )  # fmt: skip
    onward = {ROUTER: _recorded(found[ROUTER][1])} if forwards else {}
    return {"routes": routes, "onward": onward, "fits": fits, "back": back, "rates": _rates(testbed, agents)}


def _forwarding(path: NetworkPath) -> list[RouteRequest]:
    """Return what to ask a router: its routes to client and server, for packets from the other end or of the tunnel."""
    near, far = path.client, path.server
    if path.carriers and path.carriers[-1] != ROUTER:  # the router forwards IPv4 without knowing of the tunnel
        near, far = path.ends[CLIENT].local, path.ends[SERVER].local
    return [RouteRequest(destination=one, source=other, forwarded=True) for one, other in ((near, far), (far, near))]


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
    port: int,
    address: str,
    sizes: Collection[int],
    tries: int,
) -> dict[int, str]:
    """Return which packets of these sizes get from `source` to `address` unfragmented: `yes`, `too big` or `no answer`.

    The receiver requests them from the port where `reverse_pmtu_listen` waits for it here, so that firewalls let them
    through.
    """
    largest = min(sizes)
    sent = [size for size in sizes if ":" in source or size <= _MOST_BYTES]
    refused, taken = set(sizes) - set(sent), set[int]()
    for _ in range(tries):
        probing = {
            "taken": there.reverse_pmtu_probe.request(address, source, port, largest),
            "refused": here.reverse_pmtu_send.request(sent),
        }
        found = all_replies(probing, beside=[here, there])
        taken |= set(found["taken"])
        refused |= set(found["refused"])
        if largest in taken | refused:
            break
    return {size: "yes" if size in taken else "too big" if size in refused else "no answer" for size in sizes}


def _rates(testbed: Testbed, agents: Mapping[str, AgentClient]) -> dict[str, dict[str, float]]:
    """Return the rates of a lab's ports, by host and device; empty for links without a rate."""
    if not testbed.is_lab or not testbed.links.rate_bit_s:
        return {}
    ports = [port for pair in veth_pairs(testbed) for port in pair if has_rate(port, testbed.links)]
    by_role = {role: [port.device for port in ports if port.role == role] for role in agents}
    return all_replies({role: agents[role].rates.request(devices) for role, devices in by_role.items() if devices})


def other_end(testbed: Testbed, role: str, ipver: int = 4) -> str:
    """Return the address to which a host's native path leads, if possible of that IP version; empty if there is none.

    A client's leads to the server, all others' to the client.
    """
    other = testbed.server if role in testbed.clients else testbed.client
    return other.address(ipver) or other.address(10 - ipver)


def native_devices(testbed: Testbed, agents: Mapping[str, AgentClient]) -> dict[str, str]:
    """Return the device by which each host reaches the others natively, by role; empty if there is no route."""
    asked = {
        role: agent.routes.request([RouteRequest(destination=address)])
        for role, agent in agents.items()
        if (address := other_end(testbed, role))
    }
    return dict.fromkeys(agents, "") | {role: each[0].device for role, each in all_replies(asked).items()}
