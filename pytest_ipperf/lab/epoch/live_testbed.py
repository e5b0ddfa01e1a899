"""Run one epoch of a testbed, with its namespaces, agents and servers up."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

from pytest_ipperf.agent.load.spec import LoadSpec
from pytest_ipperf.agent.rpc.messages import Fingerprint
from pytest_ipperf.agent.tunnels.backends import BACKENDS
from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.core.measurement.path_proof import (
    ExpectedPath,
    path_violations,
    proof_violations,
    rate_violations,
)
from pytest_ipperf.core.measurement.run import leading
from pytest_ipperf.core.portable.errors import AgentError, LabError
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.core.portable.workload_kind import CONNECTIONS, FLOWS, LEAN
from pytest_ipperf.lab.agents.client import AgentClient
from pytest_ipperf.lab.agents.heartbeat import HEARTBEAT
from pytest_ipperf.lab.agents.leases import lease_for
from pytest_ipperf.lab.deploy.install import install_client
from pytest_ipperf.lab.epoch.account_check import Batch, batches, summary, within_s
from pytest_ipperf.lab.epoch.build import build_testbed
from pytest_ipperf.lab.epoch.provisioning import Provisioning
from pytest_ipperf.lab.epoch.servers import EpochServers
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.lab.inventory.model import Testbed
from pytest_ipperf.lab.runs.accepted_mail import accepted, check_keeps, hands_over, reserve_space
from pytest_ipperf.lab.runs.drain import drained, weaker_proof
from pytest_ipperf.lab.runs.flows import (
    Duration,
    flow_exceeds_link_rate,
    flow_spec,
    run_flow,
    start_far_end,
    with_ideal,
)
from pytest_ipperf.lab.runs.link_rate import exceeds_link_rate, train_rates
from pytest_ipperf.lab.runs.load_spec import client_facts, disturbances, load_spec
from pytest_ipperf.lab.runs.multi_client import SKEW, run_load, split_spec
from pytest_ipperf.lab.runs.path_facts import (
    agents_of_client,
    clients_violations,
    expected_path,
    native_devices,
    path_facts,
)
from pytest_ipperf.lab.runs.result import RunResult, ServerEndpoint
from pytest_ipperf.lab.tunnels.setup import Tunnels
from pytest_ipperf.protocols import PROTOCOLS, application, flow
from pytest_ipperf.protocols.base import PHASES
from pytest_ipperf.transports.base import CLIENT, ROUTER, SERVER

_NOTHING = ServerState()
_SETTLE_S = 2.0
_VERIFIED_S = 15.0
# Of which a stream sends at least as many packets, each way, as of a transaction: it sends dozens of times that.
_STREAMED_BYTES = 2**20
_KINDS = 3


class _RunRequest(NamedTuple):
    """How a run is to be made; of connections `bursts` and `pattern` count, of a flow the `duration`."""

    bursts: int
    deadline_s: float
    duration: Duration
    pattern: str


class LiveTestbed:
    """One epoch; made by `live_testbed`, not by hand."""

    def __init__(self, testbed: Testbed, agents: Mapping[str, AgentClient], tunnels: Tunnels | None = None) -> None:
        self._testbed = testbed
        self._agents = agents
        self._client = agents[CLIENT]
        self._server = agents[SERVER]
        self.tunnels = tunnels or Tunnels()
        self._ident = 0
        self._settled = True
        self._client_text = LEAN
        self._servers = EpochServers(self._server, [])

    def serve(
        self,
        workload: Workload,
        wanted: str,
        state: ServerState = _NOTHING,
        provisioning: Provisioning | None = None,
    ) -> ServerEndpoint:
        """Starts the server of the workload's protocol, which holds `state` then, and the name server.

        Without a `provisioning` that keeps what servers hold, they are given it for this epoch only.
        `wanted` is `auto` (the host's own program, else the embedded server), `real`, `embedded`, or names of servers.
        """
        addresses = self._testbed.addresses(frozenset(self.tunnels.backends))
        self._servers = EpochServers(self._server, addresses, state, provisioning)
        service = self._servers.serve(workload, wanted)
        check_keeps(workload.protocol, service)
        if workload.client != LEAN:
            protocol = application(workload.protocol)
            texts = (install_client(self._agents[role], protocol) for role in self._testbed.clients)
            self._client_text = ", ".join(dict.fromkeys(texts))
        return service

    def baseline_cost(
        self, arm: Arm, beside: ServerEndpoint, workload: Workload, *, bursts: int, deadline_s: float
    ) -> RunResult:
        """A run against a null server, which the name server of the service that stands already knows too."""
        null = self._servers.null(beside, workload)
        return self.run(arm, null, workload, bursts=bursts, deadline_s=deadline_s)

    def lacking(self, arm: Arm) -> str:
        """Which address of a client that this arm is to be measured from is not there; empty where all are.

        Of what is native between hosts of the user's own; what a session makes itself it makes as it should be.
        """
        if arm.transport != "native" or self._testbed.is_lab or self._testbed.name in BUILTIN:
            return ""
        key = f"ipv{arm.ipver}"
        for role in self._testbed.clients:
            host = self._agents[role].host
            if missing := self._agents[role].lacking([host.address(arm.ipver)]):
                given = f"host {host.name}: it does not have {missing[0]}, its {key} in hosts.ini"
                return f"{given}; name one that it has on the measured link there, or give it this one"
        return ""

    def prove(self, arm: Arm, service: ServerEndpoint, workload: Workload) -> dict[str, Any]:
        """The facts of an arm's path, with `contradictions`: routes at its hosts, what fits through, and its rate.

        Of several clients they are those of the first, with `more_clients` those of the others, by role.
        """
        facts = {role: self._path(role, arm, service, workload) for role in self._testbed.clients}
        first = facts.pop(CLIENT)
        if not facts:
            return first
        by_host = {
            self._agents[role].host.name: each["contradictions"] for role, each in {CLIENT: first, **facts}.items()
        }
        found = [f"host {name}: {sentence}" for name, sentences in by_host.items() for sentence in sentences]
        return {**first, "more_clients": facts, "contradictions": found}

    def _path(self, role: str, arm: Arm, service: ServerEndpoint, workload: Workload) -> dict[str, Any]:
        testbed, agents = self._testbed.seen_by(role), agents_of_client(self._agents, role)
        facts = path_facts(testbed, agents, arm, service.resolver_port, PROTOCOLS[workload.protocol].host)
        found = path_violations(self._expected(arm, workload, role), facts)
        mtu = facts["routes"][CLIENT].get("mtu", 0)
        trains = {} if found else train_rates(testbed, arm, agents, mtu)
        found += rate_violations(testbed.links.rate_bit_s, trains)
        return {**facts, "trains": trains, "contradictions": found}

    def _expected(self, arm: Arm, workload: Workload, role: str = CLIENT) -> ExpectedPath:
        testbed, name = self._testbed.seen_by(role), self.tunnels.backends.get(arm.transport, "")
        return dataclasses.replace(
            expected_path(testbed, arm, PROTOCOLS[workload.protocol].least_packets),
            outer_counted=name not in BACKENDS or BACKENDS[name].counted_as_ipv4,
        )

    def run(
        self,
        arm: Arm,
        service: ServerEndpoint,
        workload: Workload,
        *,
        bursts: int,
        deadline_s: float,
        duration: Duration = Duration(warmup_s=0.0, run_s=0.0),  # noqa: B008 - it is frozen
        pattern: str = "",
        capture: int = 0,
    ) -> RunResult:
        """One run; where connections arrive at a rate, those with the same `pattern` have the same arrivals.

        A flow has a `duration` in place of bursts. So many packets of it are captured on each host. Raises LabError
        when a server died in it or answers nobody; failures of connections are data.
        """
        request = _RunRequest(bursts, deadline_s, duration, pattern)
        run = {CONNECTIONS: self._connect, FLOWS: self._flow}[PROTOCOLS[workload.protocol].kind]
        with self._capturing(capture) as captured, HEARTBEAT.pause(_longest_s(workload, duration, deadline_s)):
            result = run(arm, service, workload, request)
        return dataclasses.replace(result, captures=captured)

    def _flow(self, arm: Arm, service: ServerEndpoint, workload: Workload, request: _RunRequest) -> RunResult:
        del service
        protocol, ident = flow(workload.protocol), self._ident + 1
        self._ident, deadline_s = ident, request.deadline_s
        spec = flow_spec(self._testbed, arm, workload, protocol, request.duration, ident=ident, deadline_s=deadline_s)
        # The far end waits until fragments of the run before are gone, of which hosts tell each other.
        spec = start_far_end(spec, self._server)
        settled = drained(self._testbed, self._agents) and self._settled
        found = run_flow(spec, self._client, self._server)
        after = self._server.quiet(0.0)
        facts = with_ideal(self._testbed, arm, workload, found.facts)
        near = {name: value for name, value in found.near.items() if name != "samples"}
        proof = {
            **near,
            "completed": found.completed,
            "far": {name: value for name, value in found.far.items() if name != "samples"},
            "protocol41": {CLIENT: near["protocol41"], SERVER: after["protocol41"], **self._forwarded()},
        }
        # Segments that the port cuts up are counted as one packet, and a stream moves more than its least packets.
        streamed = int(facts.get("payload_bytes", 0)) // _STREAMED_BYTES
        least = {**proof, "completed": max(found.completed // max(1, int(facts.get("segments", 1))), streamed)}
        demanded = dataclasses.replace(self._expected(arm, workload), exclusive=self._testbed.exclusive and settled)
        return RunResult(
            attempted=found.attempted,
            failed=found.failed,
            columns=protocol.columns,
            samples=found.samples,
            proof=proof,
            violations=(
                *proof_violations(demanded, least),
                *flow_exceeds_link_rate(self._testbed, arm, workload, facts),
            ),
            unsettled=(),
            facts=facts,
            notes=(
                *found.notes,
                *weaker_proof(self._testbed, settled=settled),
                *disturbances({CLIENT: near}, self._names),
            ),
        )

    @contextlib.contextmanager
    def _capturing(self, packets: int) -> Iterator[dict[str, bytes]]:
        """Captures the first packets of each host's port; as pcap by role when the context has ended."""
        captured: dict[str, bytes] = {}
        capturing = {}
        if packets:
            devices = native_devices(self._testbed, self._agents)
            capturing = {
                role: agent for role, agent in self._agents.items() if agent.capture_begin(devices[role], packets)
            }
        yield captured
        for role, agent in capturing.items():
            captured[role] = agent.capture_end()

    def _connect(self, arm: Arm, service: ServerEndpoint, workload: Workload, request: _RunRequest) -> RunResult:
        bursts, deadline_s, pattern = request.bursts, request.deadline_s, request.pattern
        counted = hands_over(workload.protocol, service)
        if counted:
            reserve_space(self._server, service, bursts * workload.connections)
        settled = drained(self._testbed, self._agents) and self._settled
        spec = self._spec(arm, service, workload, bursts=bursts, deadline_s=deadline_s)
        # By its index a connection's message is known at the server, where those of an earlier run may arrive late.
        first = spec.ident if counted else spec.first_index
        report = self._load(dataclasses.replace(spec, pattern=pattern, first_index=first), arm)
        after = self._server.quiet(_SETTLE_S)
        doubtful = not report["rows"] or report["attempted"] < bursts * workload.connections  # it ended early
        for sentence in after["dead"] or (self._server.unresponsive() if doubtful else ()):
            raise LabError(f"host {self._server.host.name}: {sentence}")
        differences: list[str] = []
        if counted:
            report, differences = accepted(self._server, service, workload.protocol, report)
        del report["indices"]
        samples, notes = array("d", report.pop("rows")), report.pop("notes", ())
        skew = {name: report.pop(name) for name in SKEW if name in report}
        completed = len(samples) // len(PHASES)
        self._settled = not after["busy"]
        clients = report.get("clients", {CLIENT: report})
        carried = {role: each["protocol41"] for role, each in clients.items()}
        proof = {
            **report,
            "client": self._client_text,
            "completed": completed,
            "protocol41": {**carried, SERVER: after["protocol41"], **self._forwarded()},
            "tcp": {**{role: each["tcp"] for role, each in clients.items()}, "server": after["tcp"]},
            "server_cpu_s": after["cpu_s"],
        }
        # What the run before has left open may still send packets of its own IP version.
        exclusive = self._testbed.exclusive and settled
        demanded = {
            role: dataclasses.replace(self._expected(arm, workload, role), exclusive=exclusive)
            for role in self._testbed.clients
        }
        return RunResult(
            attempted=report["attempted"],
            failed=report["failed"],
            columns=PHASES,
            samples=samples,
            proof=proof,
            violations=(
                *clients_violations(demanded, proof),
                *exceeds_link_rate(self._testbed, arm, workload, report),
            ),
            unsettled=tuple(after["busy"]),
            client=client_facts(report, after, workload),
            facts=skew,
            notes=(
                *differences,
                *notes,
                *weaker_proof(self._testbed, settled=settled),
                *disturbances(clients, self._names),
            ),
        )

    @property
    def _names(self) -> dict[str, str]:
        return {role: host.name for role, host in self._testbed.roles.items()}

    def _forwarded(self) -> dict[str, Any]:
        """The packets of protocol 41 at the router, if there is one."""
        return {ROUTER: self._agents[ROUTER].quiet(0.0)["protocol41"]} if ROUTER in self._agents else {}

    def verify(self, arm: Arm, service: ServerEndpoint, workload: Workload, deadline_s: float) -> str:
        """Logs in to the server's accounts and fetches what they hold, once a session; how that went.

        To all of them, as far as `batches` does not find that too much. Empty where there is nothing to verify.
        LabError when an account is not as it should be.
        """
        state, keeper = self._servers.state, self._servers.provisioning
        users, held = state.users, (self._server.host, service.name, workload, state)
        if not users or (keeper and keeper.verified(*held)):
            return ""
        began, made = time.monotonic(), batches(users, workload.payload_bytes)
        for each in made:
            self._verify(arm, service, workload, each, deadline_s)
        if keeper:
            keeper.note_verified(*held)
        return f"{service} {summary(made, users, time.monotonic() - began)}"

    def _verify(self, arm: Arm, service: ServerEndpoint, workload: Workload, made: Batch, deadline_s: float) -> None:
        work = dataclasses.replace(workload, client=LEAN, connections=made.connections, rate_per_s=0.0, workers=1)
        deadline_s = within_s(made, workload.payload_bytes, deadline_s)
        spec = self._spec(arm, service, work, bursts=made.bursts, deadline_s=deadline_s)
        report = self._load(dataclasses.replace(spec, first_index=made.first), arm)
        if report["failed"]:
            for sentence in self._server.quiet(0.0)["dead"] or self._server.unresponsive():
                raise LabError(f"host {self._server.host.name}: {sentence}")
            kinds = ", ".join(f"{kind}: {count}" for kind, count in leading(report["failed"], _KINDS).items())
            told_of = f"host {self._server.host.name}: {service}"
            raise LabError(f"{told_of} does not hold all of its {self._servers.state.users} accounts ({kinds})")
        # The sessions go by the reference's IP version, would still send in another arm's run, and take room.
        self._settled = not self._server.within(2 * _VERIFIED_S).quiet(_VERIFIED_S)["busy"]

    def _spec(
        self, arm: Arm, service: ServerEndpoint, workload: Workload, *, bursts: int, deadline_s: float
    ) -> LoadSpec:
        spec = load_spec(
            self._testbed.path(arm), arm.ipver, service, workload, self._servers.state,
            bursts=bursts, deadline_s=deadline_s, ident=self._ident,
        )  # fmt: skip
        self._ident += bursts * workload.connections
        return spec

    def _load(self, spec: LoadSpec, arm: Arm) -> dict[str, Any]:
        sources = {role: self._testbed.seen_by(role).path(arm).client for role in self._testbed.clients}
        return run_load(split_spec(spec, sources), self._agents, self._server)

    def logs(self) -> dict[str, str]:
        """By server: the end of its log; none where the agent is gone that could tell."""
        try:
            return self._server.logs()
        except AgentError:
            return {}

    def fingerprint(self, arm: Arm) -> dict[str, Fingerprint]:
        """The hosts' fingerprints by role, with the devices that the arm uses."""
        devices = native_devices(self._testbed, self._agents, arm.ipver)
        return {role: agent.fingerprint(devices[role]) for role, agent in self._agents.items()}


def _longest_s(workload: Workload, duration: Duration, deadline_s: float) -> float:
    """About how long figures are taken without a pause: in a flow, or a burst with connections that come at a rate."""
    arriving_s = 2 * workload.connections / workload.rate_per_s if workload.rate_per_s else 0.0
    return duration.warmup_s + duration.run_s + arriving_s + deadline_s


@contextlib.contextmanager
def live_testbed(
    testbed: Testbed,
    owner: str,
    wait_s: float,
    log: Callable[[str], None],
    *,
    transports: Collection[str] = (),
    backend: str = "",
) -> Iterator[LiveTestbed]:
    """Builds one epoch of a testbed and takes it down again, whatever happens in between.

    Of the tunnelled arms it has those of `transports`, as far as they can be had here; see `LiveTestbed.tunnels`.
    """
    lease = lease_for(owner, wait_s, log)
    with build_testbed(testbed, transports=transports, backend=backend, lease=lease) as made:
        yield LiveTestbed(testbed, made.agents, made.tunnels)
