"""Result of a flow's run, from the reports of its two ends and of the other hosts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from pytest_ipperf.agent.flows.spec import FlowReport, NearReports
from pytest_ipperf.agent.rpc.messages import HostReport
from pytest_ipperf.core.design.cell import Arm, Workload, arm_level_text
from pytest_ipperf.core.measurement.path_proof import ExpectedPath, proof_violations
from pytest_ipperf.core.measurement.probe_delay import probe_facts
from pytest_ipperf.core.measurement.run_data import RunData
from pytest_ipperf.core.portable.traffic.load import LOAD
from pytest_ipperf.lab.inventory.model import Testbed
from pytest_ipperf.lab.runs.background import load_reports
from pytest_ipperf.lab.runs.flows import flow_data, flow_exceeds_link_rate, with_ideal
from pytest_ipperf.lab.runs.hosts import RunHosts, weaker_proof
from pytest_ipperf.lab.runs.load_spec import disturbances
from pytest_ipperf.lab.runs.offloads import HostOffloads
from pytest_ipperf.lab.runs.proof import flow_proof
from pytest_ipperf.lab.runs.result import RunResult
from pytest_ipperf.protocols import flow
from pytest_ipperf.transports.base import CLIENT, SERVER

# For each of these bytes a stream sends at least as many packets, each way, as a transaction: it sends dozens more.
_STREAMED_BYTES = 2**20
_AGENT = "agent"
_OF_LOAD = arm_level_text(LOAD.name, "")


def flow_result(
    testbed: Testbed,
    arm: Arm,
    workload: Workload,
    near: NearReports,
    reports: Mapping[str, HostReport],
    *,
    expected: ExpectedPath,
    offloads: HostOffloads,
    hosts: RunHosts,
    settled: bool,
    deadline_s: float,
) -> RunResult:
    """Return the result; `settled` says that nothing of the previous run was under way when it began."""
    protocol, after = flow(workload.protocol), reports[SERVER]
    far = after.far or FlowReport()
    load = load_reports(near, after)
    data = _with_servers(flow_data(protocol, near.flow, far, deadline_s), after)
    data = dataclasses.replace(data, facts=with_ideal(testbed, arm, workload, data.facts))
    completed = data.attempted - sum(data.failed.values())
    completed = int(data.facts.get("up_unique", completed))  # the proof is about packets of the client
    proof = flow_proof(load.with_path(near.flow) if load else near.flow, far, completed, reports)
    # The port counts a segment before splitting it, and a stream sends more than the least number of packets.
    streamed = int(data.facts.get("payload_bytes", 0)) // _STREAMED_BYTES
    if arm.level.startswith(_OF_LOAD):
        data = dataclasses.replace(data, facts={**data.facts, **probe_facts(data)})
    if load:
        proof["load"] = load.recorded()
        data = dataclasses.replace(data, facts={**data.facts, **load.facts()})
        streamed += int(load.moved_bytes) // _STREAMED_BYTES
    least = {**proof, "completed": max(completed // max(1, int(data.facts.get("segments", 1))), streamed)}
    demanded = dataclasses.replace(expected, exclusive=testbed.exclusive and settled)
    names = {role: host.name for role, host in testbed.roles.items()}
    return RunResult(
        data=data,
        proof=proof,
        violations=(
            *proof_violations(demanded, least),
            *offloads.violations(workload, proof["merged"], streamed if protocol.greedy else 0),
            *flow_exceeds_link_rate(testbed, arm, workload, data.facts),
            *(load.violations(testbed, arm, workload) if load else ()),
        ),
        unsettled=tuple(after.busy if protocol.server_protocol else ()),
        notes=(
            *dict.fromkeys((*near.flow.notes, *far.notes)),
            *(load.notes(testbed, workload) if load else ()),
            *weaker_proof(testbed, settled=settled),
            *disturbances({CLIENT: near.flow.control}, names),
        ),
        captures=hosts.captures(reports),
        drain_s=hosts.drain_s,
        finish_s=hosts.finish_s,
    )


def _with_servers(data: RunData, after: HostReport) -> RunData:
    """Return the data with what the host of the server reports of its processes, if it was asked for that."""
    if not after.resources:
        return data
    servers = [each for name, each in after.resources.items() if name != _AGENT]
    agent = after.resources[_AGENT]
    facts = {
        "sender_cpu_s": after.cpu_s,
        "server_bytes": float(sum(each.memory_bytes for each in servers)),
        "server_descriptors": float(sum(each.descriptors for each in servers)),
        "server_agent_bytes": float(agent.memory_bytes),
        "server_agent_descriptors": float(agent.descriptors),
    }
    return dataclasses.replace(data, facts={**data.facts, **facts})
