"""Run one epoch of a testbed, with its namespaces, agents and servers up."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

from pytest_ipperf.agent.load.spec import LoadSpec
from pytest_ipperf.agent.rpc.messages import CaptureRequest, Fingerprint, RunEnd
from pytest_ipperf.agent.servers.accepted_mail import ExpectedMail, QueuedMail
from pytest_ipperf.agent.tunnels.backends import BACKENDS
from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.core.measurement.path_proof import ExpectedPath, path_violations, rate_violations
from pytest_ipperf.core.measurement.run import leading
from pytest_ipperf.core.measurement.run_data import RunData
from pytest_ipperf.core.portable.errors import AgentError, LabError
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.core.portable.traffic.model import TrafficModel
from pytest_ipperf.core.portable.workload_kind import CONNECTIONS, LEAN
from pytest_ipperf.lab.agents.client import AgentClient
from pytest_ipperf.lab.agents.heartbeat import HEARTBEAT
from pytest_ipperf.lab.agents.leases import lease_for
from pytest_ipperf.lab.agents.rpc_method import all_replies
from pytest_ipperf.lab.deploy.install import install_client
from pytest_ipperf.lab.epoch.account_check import Batch, batches, summary, within_s
from pytest_ipperf.lab.epoch.build import build_testbed
from pytest_ipperf.lab.epoch.provisioning import Provisioning
from pytest_ipperf.lab.epoch.servers import EpochServers
from pytest_ipperf.lab.epoch.teardowns import Teardowns
from pytest_ipperf.lab.inventory.model import Testbed
from pytest_ipperf.lab.runs.accepted_mail import check_keeps, corrected, hands_over
from pytest_ipperf.lab.runs.background import background_of
from pytest_ipperf.lab.runs.flow_result import flow_result
from pytest_ipperf.lab.runs.flows import (
    BESIDE_S,
    Duration,
    flow_spec,
    longest_s,
    run_flow,
    served_state,
    served_workload,
)
from pytest_ipperf.lab.runs.hosts import start_hosts, weaker_proof
from pytest_ipperf.lab.runs.link_rate import exceeds_link_rate, train_rates
from pytest_ipperf.lab.runs.load_spec import client_facts, disturbances, load_spec
from pytest_ipperf.lab.runs.modelled_traffic import model_of
from pytest_ipperf.lab.runs.multi_client import run_load, split_spec
from pytest_ipperf.lab.runs.offloads import HostOffloads
from pytest_ipperf.lab.runs.path_facts import (
    agents_of_client,
    clients_violations,
    expected_path,
    lacking_addresses,
    native_devices,
    other_end,
    path_facts,
)
from pytest_ipperf.lab.runs.proof import load_proof
from pytest_ipperf.lab.runs.result import ClientResults, RunResult, ServerEndpoint
from pytest_ipperf.lab.tunnels.setup import Tunnels, restore_hosts
from pytest_ipperf.protocols import PROTOCOLS, application, flow
from pytest_ipperf.protocols.base import PHASES
from pytest_ipperf.traffic_models import shipped_models
from pytest_ipperf.transports.base import CLIENT, SERVER

_NOTHING = ServerState()
_SETTLE_S = 2.0
_VERIFIED_S = 15.0
_KINDS = 3


class _RunRequest(NamedTuple):
    """Parameters of a run; connections use `bursts` and `pattern`, a flow uses `duration`."""

    bursts: int
    deadline_s: float
    duration: Duration
    pattern: str
    captures: Mapping[str, CaptureRequest]


class LiveTestbed:
    """One epoch of a testbed; use `live_testbed` to make one."""

    def __init__(self, testbed: Testbed, agents: Mapping[str, AgentClient], tunnels: Tunnels | None = None) -> None:
        self._testbed = testbed
        self._agents = agents
        self._client = agents[CLIENT]
        self._server = agents[SERVER]
        self.tunnels = tunnels or Tunnels()
        self.models: Mapping[str, TrafficModel] = shipped_models()
        self._ident = 0
        self._settled = True
        self._drained = False
        self._devices: dict[str, str] = {}
        self._lacking: dict[int, str] | None = None
        self._client_text = LEAN
        self.offloads = HostOffloads(testbed, agents)
        self._servers = EpochServers(self._server, [])

    def serve(
        self,
        workload: Workload,
        wanted: str,
        state: ServerState = _NOTHING,
        provisioning: Provisioning | None = None,
    ) -> ServerEndpoint:
        """Start the server of the workload's protocol, which then holds `state`, and the name server.

        Without a `provisioning` that keeps server states, the state is provided for this epoch only. `wanted` is `auto`
        (the host's own program, else the embedded server), `real`, `embedded`, or names of servers.
        """
        addresses = self._testbed.addresses(frozenset(self.tunnels.backends))
        self._servers = EpochServers(self._server, addresses, served_state(workload, state), provisioning)
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
        """Return a run against a null server, whose name the running name server resolves, too."""
        null = self._servers.null(beside, workload)
        return self.run(arm, null, workload, bursts=bursts, deadline_s=deadline_s)

    def lacking(self, arm: Arm) -> str:
        """Return which source address of this arm a client lacks, as a sentence; empty if none."""
        if self._lacking is None:
            self._lacking = lacking_addresses(self._testbed, self._agents)
        return self._lacking.get(arm.ipver, "") if arm.transport == "native" else ""

    def prove(
        self, arm: Arm, service: ServerEndpoint, workload: Workload, *, with_trains: bool = True
    ) -> dict[str, Any]:
        """Return the facts of an arm's path and its `contradictions`: routes, fitting packet sizes, and rate.

        The rates of its ports are read in any case, packet trains are sent only `with_trains`. With several clients
        they are those of the first; `more_clients` holds those of the others, by role. If offloads are switched,
        `offloads` are those in force.
        """
        offloads = self.offloads.switch(workload)
        facts = {
            role: self._path(role, arm, service, workload, with_trains=with_trains) for role in self._testbed.clients
        }
        first = {**facts.pop(CLIENT), **({"offloads": offloads} if offloads else {})}
        if not facts:
            return first
        by_host = {
            self._agents[role].host.name: each["contradictions"] for role, each in {CLIENT: first, **facts}.items()
        }
        contradictions = [f"host {name}: {sentence}" for name, sentences in by_host.items() for sentence in sentences]
        return {**first, "more_clients": facts, "contradictions": contradictions}

    def _path(
        self, role: str, arm: Arm, service: ServerEndpoint, workload: Workload, *, with_trains: bool
    ) -> dict[str, Any]:
        testbed, agents = self._testbed.seen_by(role), agents_of_client(self._agents, role)
        facts = path_facts(testbed, agents, arm, service.resolver_port, PROTOCOLS[workload.protocol].host)
        contradictions = path_violations(self._expected(arm, workload, role), facts)
        mtu = facts["routes"][CLIENT].get("mtu", 0)
        trains = train_rates(testbed, arm, agents, mtu) if with_trains and not contradictions else {}
        contradictions += rate_violations(testbed.links.rate_bit_s, trains)
        return {**facts, "trains": trains, "contradictions": contradictions}

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
        """Make one run; whatever arrives at random instants has the same ones in runs with the same `pattern`.

        A flow has a `duration` instead of bursts. `capture` is the number of packets to capture on each host. Raises
        LabError if a server died during the run or answers nobody; failures of connections are data.
        """
        self.offloads.switch(workload)
        request = _RunRequest(bursts, deadline_s, duration, pattern, self._captures(capture))
        run = self._connect if PROTOCOLS[workload.protocol].kind == CONNECTIONS else self._flow
        with HEARTBEAT.pause(longest_s(workload, duration, deadline_s)):
            return run(arm, service, workload, request)

    def _flow(self, arm: Arm, service: ServerEndpoint, workload: Workload, request: _RunRequest) -> RunResult:
        protocol, served = flow(workload.protocol), bool(flow(workload.protocol).server_protocol)
        self._ident += 1
        spec = flow_spec(
            self._testbed, arm, workload, protocol, request.duration, ident=self._ident, deadline_s=request.deadline_s,
            model=model_of(workload, self.models), pattern=request.pattern, device=self._ports()[CLIENT],
        )  # fmt: skip
        if served:
            spec = dataclasses.replace(spec, service=self._servers.accounts(service, workload.connections))
        background = background_of(workload, spec, self.models, ident=self._ident + 1)
        self._ident += background is not None
        if background is not None and not served:  # its packets pass the device too, and are no overhead of the flow
            spec = dataclasses.replace(spec, device="")
        # The far end waits until fragments of the previous run are gone, as their time-outs cause ICMP messages.
        hosts = start_hosts(self._testbed, self._agents, flow=spec, background=background, capture=request.captures)
        settled = hosts.drained and self._settled
        near = run_flow(*hosts.listening(spec, background), self._client, self._server)
        reports = hosts.finish(
            limit_s=_SETTLE_S if served else 0.0, flow_s=spec.deadline_s + BESIDE_S, background=near.load,
            flow=dataclasses.replace(near.flow, samples=b""), served=served,  # its samples are not needed there
        )  # fmt: skip
        late = bool(near.flow.facts.get("given_up"))  # a server may still answer what was given up
        self._settled = not (served and (reports[SERVER].busy or late))
        return flow_result(
            self._testbed, arm, workload, near, reports,
            expected=self._expected(arm, workload), offloads=self.offloads, hosts=hosts, settled=settled,
            deadline_s=request.deadline_s,
        )  # fmt: skip

    def _captures(self, packets: int) -> dict[str, CaptureRequest]:
        """Return what to capture on each host in a run, by role: the first packets of its port."""
        if not packets:
            return {}
        return {role: CaptureRequest(device=each, packets=packets) for role, each in self._ports().items()}

    def _ports(self) -> Mapping[str, str]:
        """Return the device of each host on the native path, by role."""
        self._devices = self._devices or native_devices(self._testbed, self._agents)
        return self._devices

    def _connect(self, arm: Arm, service: ServerEndpoint, workload: Workload, request: _RunRequest) -> RunResult:
        bursts, deadline_s = request.bursts, request.deadline_s
        spec = self._spec(arm, service, workload, bursts=bursts, deadline_s=deadline_s, pattern=request.pattern)
        expected, counted = bursts * workload.connections, hands_over(workload.protocol, service)
        mail = ExpectedMail(service.name, expected) if counted else None
        hosts = start_hosts(
            self._testbed, self._agents, mail=mail, capture=request.captures, clients_drained=self._drained
        )  # fmt: skip
        self._drained = False
        settled = hosts.drained and self._settled
        # The server knows a connection's message by its index, as messages of an earlier run may arrive late.
        load = self._run_load(dataclasses.replace(spec, first_index=spec.ident) if counted else spec, arm)
        reports = hosts.finish(
            limit_s=_SETTLE_S,
            doubtful=not load.total.rows or load.total.attempted < expected,  # it ended early
            mail=QueuedMail(service.name, workload.protocol, load.total.indices) if counted else None,
            drains=True,
        )
        self._drained = hosts.clients_drained
        after = reports[SERVER]
        if after.accepted:
            load = dataclasses.replace(load, total=corrected(load.total, after.accepted))
        total = load.total
        differences = after.accepted.sentences if after.accepted else ()
        self._settled = not after.busy
        proof = load_proof(load, reports, client=self._client_text, hosts=self._names)
        # Connections left open by the previous run may still send packets of its IP version.
        exclusive = self._testbed.exclusive and settled
        demanded = {
            role: dataclasses.replace(self._expected(arm, workload, role), exclusive=exclusive)
            for role in self._testbed.clients
        }
        return RunResult(
            data=RunData(
                attempted=total.attempted,
                failed=total.failed,
                columns=PHASES,
                samples=array("d", total.rows),
                deadline_s=spec.deadline_s,
                facts=load.skew,
            ),
            proof=proof,
            violations=(
                *clients_violations(demanded, proof),
                *self.offloads.violations(workload, proof["merged"], 0),
                *exceeds_link_rate(self._testbed, arm, workload, total),
            ),
            unsettled=tuple(after.busy),
            client=client_facts(load, after.tcp, workload),
            notes=(
                *(f"host {self._server.host.name}: {service}: {each}" for each in differences),
                *load.notes,
                *weaker_proof(self._testbed, settled=settled),
                *disturbances({role: each.control for role, each in load.by_role.items()}, self._names),
            ),
            captures=hosts.captures(reports),
            drain_s=hosts.drain_s,
            finish_s=hosts.finish_s,
        )

    @property
    def _names(self) -> dict[str, str]:
        return {role: host.name for role, host in self._testbed.roles.items()}

    def verify(self, arm: Arm, service: ServerEndpoint, workload: Workload, deadline_s: float) -> str:
        """Log in to the server's accounts and fetch their messages, once a session; return the result.

        All accounts are checked, unless `batches` limits their number. Empty if there is nothing to verify. Raises
        LabError if an account is not as it should be.
        """
        workload = served_workload(workload)
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

    def _verify(self, arm: Arm, service: ServerEndpoint, workload: Workload, batch: Batch, deadline_s: float) -> None:
        work = dataclasses.replace(workload, client=LEAN, connections=batch.connections, rate_per_s=0.0, workers=1)
        deadline_s = within_s(batch, workload.payload_bytes, deadline_s)
        spec = self._spec(arm, service, work, bursts=batch.bursts, deadline_s=deadline_s)
        total = self._run_load(dataclasses.replace(spec, first_index=batch.first), arm).total
        if total.failed:
            for sentence in self._server.finish_run(RunEnd(doubtful=True)).broken:
                raise LabError(f"host {self._server.host.name}: {sentence}")
            kinds = ", ".join(f"{kind}: {count}" for kind, count in leading(total.failed, _KINDS).items())
            told_of = f"host {self._server.host.name}: {service}"
            raise LabError(f"{told_of} does not hold all of its {self._servers.state.users} accounts ({kinds})")
        # The sessions use the reference's IP version, would send packets during another arm's run, and take room.
        self._settled = not self._server.within(2 * _VERIFIED_S).finish_run(RunEnd(limit_s=_VERIFIED_S)).busy

    def _spec(
        self,
        arm: Arm,
        service: ServerEndpoint,
        workload: Workload,
        *,
        bursts: int,
        deadline_s: float,
        pattern: str = "",
    ) -> LoadSpec:
        spec = load_spec(
            self._testbed.path(arm), arm.ipver, service, workload, self._servers.state,
            bursts=bursts, deadline_s=deadline_s, ident=self._ident,
        )  # fmt: skip
        self._ident += bursts * workload.connections
        return dataclasses.replace(spec, pattern=pattern)

    def _run_load(self, spec: LoadSpec, arm: Arm) -> ClientResults:
        sources = {role: self._testbed.seen_by(role).path(arm).client for role in self._testbed.clients}
        return run_load(split_spec(spec, sources), self._agents, self._server)

    def logs(self) -> dict[str, str]:
        """Return the end of each server's log, by server; empty if the agent is gone."""
        try:
            return self._server.logs()
        except AgentError:
            return {}

    def fingerprint(self, arm: Arm) -> dict[str, Fingerprint]:
        """Return the hosts' fingerprints by role, with the devices that the arm uses natively."""
        towards = {role: other_end(self._testbed, role, arm.ipver) for role in self._agents}
        return all_replies({role: agent.fingerprint.request(towards[role]) for role, agent in self._agents.items()})


@contextlib.contextmanager
def live_testbed(
    testbed: Testbed,
    owner: str,
    wait_s: float,
    log: Callable[[str], None],
    *,
    transports: Collection[str] = (),
    backend: str = "",
    teardowns: Teardowns | None = None,
) -> Iterator[LiveTestbed]:
    """Build one epoch of a testbed and take it down again, whatever happens in between.

    Of the tunnelled arms it has those of `transports`, as far as they work here; see `LiveTestbed.tunnels`. With
    `teardowns` see `build_testbed`.
    """
    lease = lease_for(owner, wait_s, log)
    with build_testbed(testbed, transports=transports, backend=backend, lease=lease, teardowns=teardowns) as built:
        live = LiveTestbed(testbed, built.agents, built.tunnels)
        earlier: BaseException | None = None
        try:
            yield live
        except BaseException as error:
            earlier = error
            raise
        finally:
            if live.offloads.switched and not testbed.is_lab:  # a lab's namespaces are discarded
                restore_hosts(testbed, built.agents, earlier)
