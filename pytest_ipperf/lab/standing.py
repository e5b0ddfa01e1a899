"""A standing testbed: one epoch of it, with its namespaces, agents and servers up, ready for runs."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_ipperf.agent.arrivals import longest_s
from pytest_ipperf.agent.backends import BACKENDS
from pytest_ipperf.agent.figures import PHASES
from pytest_ipperf.agent.order import LoadOrder
from pytest_ipperf.core.cell import LEAN, Arm, Workload
from pytest_ipperf.core.errors import AgentError, LabError
from pytest_ipperf.core.instrument import ClientFacts
from pytest_ipperf.core.proof import Expected, path_contradictions, rate_contradictions, run_contradictions
from pytest_ipperf.core.run import leading
from pytest_ipperf.core.state import ServerState
from pytest_ipperf.lab.building import built, lessee
from pytest_ipperf.lab.choice import NAMING, choose_resolver, choose_server
from pytest_ipperf.lab.link import Link
from pytest_ipperf.lab.pace import too_much, train_rates
from pytest_ipperf.lab.parcel import equip, equip_client
from pytest_ipperf.lab.proving import expected, path_facts, ports_of
from pytest_ipperf.lab.provisioning import PROVISION_S, Provisioning, provision_order
from pytest_ipperf.lab.testbed import AUTO, Testbed
from pytest_ipperf.lab.tunnelling import Tunnels
from pytest_ipperf.lab.verification import AT_ONCE, Round, rounds, shown, within_s
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.servers import SERVERS
from pytest_ipperf.transports.base import CLIENT, ROUTER, SERVER

_NOTHING = ServerState()
_SETTLE_S = 2.0
# A full queue before 1 Mbit/s is empty by then; what follows on slower links is proven less strictly. Three frames may
# be on their way from host to host.
_DRAINED_S = 15.0
_FRAMES_BITS = 3 * 1538 * 8
_VERIFIED_S = 15.0
_KINDS = 3
# What a burst may take beyond its deadline: thousands of sockets to open and to close, on a host that is busy.
_BURST_S = 10.0


@dataclass(frozen=True, slots=True)
class Service:
    """A server that stands: its name and version for the results, its port, and the name server's port and text."""

    name: str
    version: str
    embedded: bool
    port: int
    resolver_port: int
    resolver: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.version}" + (" (embedded)" if self.embedded else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What one run brought home.

    `rows` holds a tuple for each completed connection, as `agent.figures.PHASES` names them, in seconds. `proof` holds
    the facts, `contradictions` what speaks against them, `client` what the client told of itself. `captures` are the
    first packets by the hosts' roles, as pcap files.
    """

    attempted: int
    failed: Mapping[str, int]
    rows: tuple[tuple[float, ...], ...]
    packed: bytes
    proof: Mapping[str, Any]
    contradictions: tuple[str, ...]
    unsettled: tuple[str, ...]
    client: ClientFacts | None = None
    captures: Mapping[str, bytes] = field(default_factory=dict)


class Standing:
    """One epoch; made by `stand`, not by hand."""

    def __init__(self, testbed: Testbed, links: Mapping[str, Link], tunnels: Tunnels | None = None) -> None:
        self._testbed = testbed
        self._links = links
        self._client = links[CLIENT]
        self._server = links[SERVER]
        self.tunnels = tunnels or Tunnels()
        self._ident = 0
        self._settled = True
        self._null: Service | None = None
        self._client_text = LEAN
        self._state = _NOTHING
        self._provisioning: Provisioning | None = None

    def serve(
        self,
        workload: Workload,
        wanted: str,
        state: ServerState = _NOTHING,
        provisioning: Provisioning | None = None,
    ) -> Service:
        """Starts the server of the workload's protocol, which holds `state` then, and the name server.

        Without a `provisioning` that keeps what servers hold, they are given it for this epoch only.
        `wanted` is `auto` (the host's own program, else the embedded server), `real`, `embedded`, or names of servers.
        """
        unusable: dict[str, str] = self._server.order("unusable")
        name = self._chosen(workload.protocol, wanted, unusable)
        if workload.client != LEAN:
            self._client_text = equip_client(self._client, PROTOCOLS[workload.protocol])
        self._state, self._provisioning = state, provisioning
        # The name server is the server itself, if it is one.
        naming = SERVERS[name].protocol == NAMING
        resolver = self._service(name if naming else choose_resolver(wanted, unusable, self._server.host), workload)
        if naming:
            return resolver
        return self._service(name, workload, resolver.port, str(resolver))

    def _chosen(self, protocol: str, wanted: str, unusable: Mapping[str, str]) -> str:
        """The server to start, on a host that has what it needs by then."""
        host = self._server.host
        sent = dict.fromkeys((each for each in SERVERS if SERVERS[each].packages), "")
        name = choose_server(protocol, wanted, {**unusable, **sent}, host)
        if unusable[name]:
            try:
                equip(self._server, SERVERS[name].packages)
            except AgentError:
                raise
            except LabError as error:  # told with the reasons of those that would have been taken before it
                reason = str(error).removeprefix(f"host {host.name}: ")
                return choose_server(protocol, wanted, {**unusable, name: reason}, host)
        return name

    def floor(self, arm: Arm, beside: Service, workload: Workload, *, bursts: int, deadline_s: float) -> Receipt:
        """A run against a null server, which the name server of the service that stands already knows too."""
        if self._null is None:
            null = PROTOCOLS[workload.protocol].null
            known = beside.resolver_port, beside.resolver
            self._null = beside if null == beside.name else self._service(null, workload, *known)
        return self.run(arm, self._null, workload, bursts=bursts, deadline_s=deadline_s)

    def _service(self, name: str, workload: Workload, resolver_port: int = 0, resolver: str = "") -> Service:
        """Starts a server; without the port of a name server it is one itself."""
        served = self._served(name, workload)
        port = served["port"]
        service = Service(name, served["version"], SERVERS[name].embedded, port, resolver_port or port, resolver)
        return service if resolver_port else dataclasses.replace(service, resolver=str(service))

    def _served(self, name: str, workload: Workload) -> dict[str, Any]:
        addresses = self._testbed.addresses(frozenset(self.tunnels.backends))
        order = {
            "addresses": addresses,
            "ports": self._server.host.ports,
            # Enough for those who verify, too.
            "connections": max(workload.connections, min(self._state.users, AT_ONCE)),
            "protocol": workload.protocol,
            "payload_bytes": workload.payload_bytes,
            "zone": {PROTOCOLS[workload.protocol].host: addresses},
            "state": dataclasses.asdict(self._state),
            "data": self._provisioned(name, workload),
        }
        served: dict[str, Any] = self._server.order("serve", name, order)
        return served

    def _provisioned(self, name: str, workload: Workload) -> str:
        if self._provisioning is not None:
            return self._provisioning.folder(self._server.host, name, workload, self._state)
        if not SERVERS[name].provisioned:
            return ""
        order = provision_order(name, workload, self._state)
        folder: str = self._server.order("provision", *order, patience_s=PROVISION_S)
        return folder

    def prove(self, arm: Arm, service: Service, workload: Workload) -> dict[str, Any]:
        """The facts of an arm's path, with `contradictions`: routes at its hosts, what fits through, and its rate."""
        facts = path_facts(self._testbed, self._links, arm, service.resolver_port, PROTOCOLS[workload.protocol].host)
        found = path_contradictions(self._expected(arm, workload), facts)
        mtu = facts["routes"][CLIENT].get("mtu", 0)
        trains = {} if found else train_rates(self._testbed, arm, self._links, mtu)
        found += rate_contradictions(self._testbed.links.rate_bit_s, trains)
        return {**facts, "trains": trains, "contradictions": found}

    def _expected(self, arm: Arm, workload: Workload) -> Expected:
        demanded = expected(self._testbed, arm, datagram=PROTOCOLS[workload.protocol].datagram)
        name = self.tunnels.backends.get(arm.transport, "")
        return dataclasses.replace(demanded, outer_counted=name not in BACKENDS or BACKENDS[name].counted_as_ipv4)

    def run(
        self,
        arm: Arm,
        service: Service,
        workload: Workload,
        *,
        bursts: int,
        deadline_s: float,
        pattern: str = "",
        capture: int = 0,
    ) -> Receipt:
        """One run; where connections arrive at a rate, those with the same `pattern` have the same arrivals.

        So many packets of it are captured on each host. Raises LabError when a server died in it or answers nobody;
        failures of connections are data.
        """
        with self._capturing(capture) as captured:
            receipt = self._run(arm, service, workload, bursts=bursts, deadline_s=deadline_s, pattern=pattern)
        return dataclasses.replace(receipt, captures=captured)

    @contextlib.contextmanager
    def _capturing(self, packets: int) -> Iterator[dict[str, bytes]]:
        """Captures the first packets of each host's port; as pcap by role when the context has ended."""
        captured: dict[str, bytes] = {}
        capturing = {}
        if packets:
            devices = ports_of(self._testbed, self._links)
            capturing = {
                role: link for role, link in self._links.items() if link.order("capture_begin", devices[role], packets)
            }
        yield captured
        for role, link in capturing.items():
            captured[role] = link.order("capture_end")

    def _run(
        self, arm: Arm, service: Service, workload: Workload, *, bursts: int, deadline_s: float, pattern: str
    ) -> Receipt:
        settled = self._drained() and self._settled
        order = self._order(arm, service, workload, bursts=bursts, deadline_s=deadline_s)
        told = self._load(dataclasses.replace(order, pattern=pattern))
        after = self._server.order("quiet", _SETTLE_S)
        doubtful = not told["rows"] or told["attempted"] < bursts * workload.connections  # it ended early
        for sentence in after["dead"] or (self._server.order("mute") if doubtful else ()):
            raise LabError(f"host {self._server.host.name}: {sentence}")
        values = array("d", told.pop("rows"))
        rows = tuple(tuple(values[at : at + len(PHASES)]) for at in range(0, len(values), len(PHASES)))
        # What the run before has left open may still send packets of its own IP version.
        exclusive = self._testbed.exclusive and settled
        demanded = dataclasses.replace(self._expected(arm, workload), exclusive=exclusive)
        self._settled = not after["busy"]
        proof = {
            **told,
            "client": self._client_text,
            "completed": len(rows),
            "protocol41": {CLIENT: told["protocol41"], SERVER: after["protocol41"], **self._forwarded()},
            "tcp": {"client": told["tcp"], "server": after["tcp"]},
            "server_cpu_s": after["cpu_s"],
        }
        return Receipt(
            attempted=told["attempted"],
            failed=told["failed"],
            rows=rows,
            packed=values.tobytes(),
            proof=proof,
            contradictions=(
                *run_contradictions(demanded, proof),
                *too_much(self._testbed, arm, workload, told, len(rows)),
            ),
            unsettled=tuple(after["busy"]),
            client=_client_facts(told, after, workload),
        )

    def _drained(self) -> bool:
        """Sets all packet counts back once nothing of the run before is on its way; False where that does not end."""
        links = self._testbed.links
        pause_s = 2 * links.delay_s + (_FRAMES_BITS / links.rate_bit_s if links.rate_bit_s else 0.0)
        end = time.monotonic() + _DRAINED_S
        self._counted(link for role, link in self._links.items() if role != CLIENT)  # which counts a run itself
        while pause_s:
            time.sleep(pause_s)
            if not self._counted(self._links.values()):
                break
            if time.monotonic() > end:
                return False
        return True

    @staticmethod
    def _counted(links: Iterable[Link]) -> int:
        """The packets of tunnels, and those that should be in one, that hosts have met since the last time."""
        told = [link.order("quiet", 0.0) for link in links]
        return sum(
            sum(counts.values()) for each in told for counts in (each["protocol41"], each["bare_ipv6"]) if counts
        )

    def _forwarded(self) -> dict[str, Any]:
        """The packets of protocol 41 at the router, if there is one."""
        return {ROUTER: self._links[ROUTER].order("quiet", 0.0)["protocol41"]} if ROUTER in self._links else {}

    def verify(self, arm: Arm, service: Service, workload: Workload, deadline_s: float) -> str:
        """Logs in to the server's accounts and fetches what they hold, once a session; how that went.

        To all of them, as far as `rounds` does not find that too much. Empty where there is nothing to verify. LabError
        when an account is not as it should be.
        """
        users, keeper = self._state.users, self._provisioning
        held = (self._server.host, service.name, workload, self._state)
        if not users or (keeper and keeper.verified(*held)):
            return ""
        began, made = time.monotonic(), rounds(users, workload.payload_bytes)
        for each in made:
            self._verify(arm, service, workload, each, deadline_s)
        if keeper:
            keeper.note_verified(*held)
        return f"{service} {shown(made, users, time.monotonic() - began)}"

    def _verify(self, arm: Arm, service: Service, workload: Workload, made: Round, deadline_s: float) -> None:
        work = dataclasses.replace(workload, client=LEAN, connections=made.connections, rate_per_s=0.0, workers=1)
        deadline_s = within_s(made, workload.payload_bytes, deadline_s)
        order = self._order(arm, service, work, bursts=made.bursts, deadline_s=deadline_s)
        told = self._load(dataclasses.replace(order, first_index=made.first))
        if told["failed"]:
            for sentence in self._server.order("quiet", 0.0)["dead"] or self._server.order("mute"):
                raise LabError(f"host {self._server.host.name}: {sentence}")
            kinds = ", ".join(f"{kind}: {count}" for kind, count in leading(told["failed"], _KINDS).items())
            told_of = f"host {self._server.host.name}: {service}"
            raise LabError(f"{told_of} does not hold all of its {self._state.users} accounts ({kinds})")
        # The sessions go by the reference's IP version, would still send in another arm's run, and take room.
        self._settled = not self._server.order("quiet", _VERIFIED_S, patience_s=2 * _VERIFIED_S)["busy"]

    def _order(self, arm: Arm, service: Service, workload: Workload, *, bursts: int, deadline_s: float) -> LoadOrder:
        protocol, path = PROTOCOLS[workload.protocol], self._testbed.path(arm)
        order = LoadOrder(
            protocol=protocol.name,
            client=workload.client,
            payload_bytes=workload.payload_bytes,
            connections=workload.connections,
            bursts=bursts,
            ipver=arm.ipver,
            # A transaction that is a look-up itself needs none before.
            resolver="" if protocol.datagram else path.server,
            resolver_port=service.resolver_port,
            name=path.server if protocol.datagram else protocol.host,
            port=service.port,
            source=path.client,
            deadline_s=deadline_s,
            ident=self._ident,
            # What is never fetched need not travel.
            state=dataclasses.asdict(dataclasses.replace(self._state, messages=(), pages={})),
            rate_per_s=workload.rate_per_s,
            workers=workload.workers,
        )
        self._ident += bursts * workload.connections
        return order

    def _load(self, order: LoadOrder) -> dict[str, Any]:
        patience_s = order.deadline_s + longest_s(order) + _BURST_S
        told: dict[str, Any] = self._client.order(
            "load", dataclasses.asdict(order), patience_s=patience_s, beside=[self._server]
        )
        return told

    def logs(self) -> dict[str, str]:
        """By server: the end of its log; none where the agent is gone that could tell."""
        try:
            said: dict[str, str] = self._server.order("logs")
        except AgentError:
            return {}
        return said

    def fingerprint(self, arm: Arm) -> dict[str, Any]:
        """The hosts' fingerprints by role, with the devices that the arm uses."""
        devices = ports_of(self._testbed, self._links, arm.ipver)
        return {role: link.order("fingerprint", devices[role]) for role, link in self._links.items()}


def _client_facts(told: Mapping[str, Any], after: Mapping[str, Any], workload: Workload) -> ClientFacts:
    tcp = {name: max(told["tcp"].get(name, 0), after["tcp"].get(name, 0)) for name in {**told["tcp"], **after["tcp"]}}
    return ClientFacts(
        cpu_s=told["burst_cpu_s"],
        wall_s=None if workload.rate_per_s else told["wall_s"],
        connections=told["attempted"],
        lag_s=told["lag_s"],
        peak=told["peak"],
        processors=told["processors"],
        tcp=tcp,
    )


@contextlib.contextmanager
def stand(
    testbed: Testbed,
    owner: str,
    wait_s: float,
    tell: Callable[[str], None],
    *,
    transports: Collection[str] = (),
    backend: str = AUTO,
) -> Iterator[Standing]:
    """Builds one epoch of a testbed and takes it down again, whatever happens in between.

    Of the tunnelled arms it has those of `transports`, as far as they can be had here; see `Standing.tunnels`.
    """
    lease = lessee(owner, wait_s, tell)
    with built(testbed, transports=transports, backend=backend, lease=lease) as made:
        yield Standing(testbed, made.links, made.tunnels)
