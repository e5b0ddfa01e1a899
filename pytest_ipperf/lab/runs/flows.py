"""Run a flow between the agents at a path's two ends, and merge the reports of both."""

from __future__ import annotations

import dataclasses
import math
from array import array
from collections.abc import Mapping
from dataclasses import dataclass

from pytest_ipperf.agent.flows.spec import Background, FlowReport, FlowServer, FlowSpec, NearReports
from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.core.measurement.path_proof import goodput_violations
from pytest_ipperf.core.measurement.run_data import RunData
from pytest_ipperf.core.measurement.token_bucket import bucket_bytes
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.factor import values_of
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.core.portable.traffic.model import TrafficModel
from pytest_ipperf.core.portable.units import seconds_text, short_rate_text
from pytest_ipperf.lab.agents.client import AgentClient
from pytest_ipperf.lab.inventory.model import Testbed
from pytest_ipperf.lab.netns.veth import QUEUE_BYTES
from pytest_ipperf.lab.runs.link_rate import layers
from pytest_ipperf.lab.runs.modelled_traffic import layer_facts
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.protocols import flow as flow_named
from pytest_ipperf.protocols.base import Flow
from pytest_ipperf.protocols.traffic import Traffic

# Time of a run beyond its traffic: waiting for fragments of an earlier run, comparing clocks, draining.
BESIDE_S = 20.0
# Half of the longest wait for silence (`Flow.deadline_s`), as the run's own traffic comes after a full queue.
_MOST_QUEUED_S = 5.0
# With fewer datagrams, each would be more than a tenth of the run.
_FEWEST = 10
# Largest backlog as a share of what the rate carries in a run; on a slow link a full queue can hold all of a short run,
# and with that allowance nothing would exceed the rate.
_WAITED = 0.25
# Content of a server whose large file is what is measured.
_SMALL_BYTES = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Duration:
    """Duration of a flow's traffic: `warmup_s` that is not counted, then the `run_s` of the run."""

    warmup_s: float
    run_s: float


def flow_spec(
    testbed: Testbed,
    arm: Arm,
    workload: Workload,
    flow: Flow,
    duration: Duration,
    *,
    ident: int,
    deadline_s: float,
    service: FlowServer = FlowServer(),  # noqa: B008 - it is frozen
    device: str = "",
    model: TrafficModel | None = None,
    pattern: str = "",
) -> FlowSpec:
    """Return the spec of a run on an arm; `deadline_s` limits how long silence is waited for.

    `service` is the server program at the far end, if there is one, and `device` the client's interface. Modelled
    traffic has a `model`. Runs with the same `pattern` have the same random instants, and the same packets of a model.
    """
    path, values = testbed.path(arm), values_of(workload.levels)
    offered_bit_s = flow.offered_bit_s(values)
    _check_rate(workload, offered_bit_s, duration.run_s)
    return FlowSpec(
        engine=flow.engine,
        ipver=arm.ipver,
        source=path.client,
        address=path.server,
        ports=testbed.server.ports,
        connections=workload.connections,
        payload_bytes=workload.payload_bytes,
        factors=values,
        warmup_s=duration.warmup_s,
        run_s=duration.run_s,
        deadline_s=min(deadline_s, flow.deadline_s),
        ident=ident,
        backlog_bytes=_backlog_bytes(testbed, arm, workload, offered_bit_s),
        # A shaper counts the headers of a packet that is segmented later only once.
        segments=not path.carriers and not testbed.links.rate_bit_s,
        service=service,
        device=device,
        model=model,
        pattern=pattern,
    )


def longest_s(workload: Workload, duration: Duration, deadline_s: float) -> float:
    """Estimate how long a flow, or a burst with connections arriving at a rate, takes without a pause."""
    arriving_s = 2 * workload.connections / workload.rate_per_s if workload.rate_per_s else 0.0
    return duration.warmup_s + duration.run_s + arriving_s + deadline_s


def served_workload(workload: Workload) -> Workload:
    """Return the workload whose server a flow needs: itself, or one of the server's own protocol, with a small payload.

    It has the most connections that the server has at once.
    """
    found = PROTOCOLS[workload.protocol]
    if not isinstance(found, Flow) or not found.server_protocol:
        return workload
    return dataclasses.replace(
        workload,
        protocol=found.server_protocol,
        connections=max(workload.connections, found.server_connections),
        payload_bytes=_SMALL_BYTES,
        levels=(),
    )


def served_state(workload: Workload, state: ServerState) -> ServerState:
    """Return the state that the server of a workload holds, with what a flow from a server adds to it."""
    found = PROTOCOLS[workload.protocol]
    return found.served_state(state, workload.payload_bytes) if isinstance(found, Flow) else state


def _check_rate(workload: Workload, rate_bit_s: float | None, run_s: float) -> None:
    """Raise UsageError if a run would have too few datagrams to mean anything."""
    least_bit_s = 8 * _FEWEST * workload.payload_bytes / run_s
    if rate_bit_s is not None and rate_bit_s < least_bit_s:
        raise UsageError(
            f"rate {short_rate_text(rate_bit_s)} sends {rate_bit_s * run_s / 8 / workload.payload_bytes:.2g} datagrams "
            f"of {workload.payload_bytes} bytes in a run of {seconds_text(run_s)}, which tells nothing; take "
            f"{short_rate_text(math.ceil(least_bit_s))} or more, or a longer --duration"
        )


def _backlog_bytes(testbed: Testbed, arm: Arm, workload: Workload, rate_bit_s: float | None) -> int:
    """Return the bytes that the lab's queues hold before they drop packets, if more is offered than its links carry.

    0 on links so slow that the queue would drain for longer than a run is waited for.
    """
    link_bit_s = testbed.links.rate_bit_s
    if not link_bit_s or rate_bit_s is None or 8 * QUEUE_BYTES / link_bit_s > _MOST_QUEUED_S:
        return 0
    return QUEUE_BYTES if rate_bit_s > link_bit_s * layers(arm, workload).payload_share(workload.payload_bytes) else 0


def run_flow(spec: FlowSpec, background: Background | None, client: AgentClient, server: AgentClient) -> NearReports:
    """Run the near end of a flow, and of its background traffic, whose far ends listen.

    Raises LabError if an end is in trouble or dies.
    """
    longest = spec if background is None else background.flow
    patience_s = longest.warmup_s + longest.run_s + spec.deadline_s + BESIDE_S
    return client.within(patience_s, [server]).flow_run(spec, background)


def flow_data(flow: Flow, near: FlowReport, far: FlowReport, deadline_s: float) -> RunData:
    """Return the data of a run from the reports of its two ends, the near end's samples first."""
    failed = {kind: count for kind, count in {**near.failed, **far.failed}.items() if count}
    return RunData(
        attempted=max(near.attempted, far.attempted),
        failed=failed,
        columns=flow.columns,
        samples=array("d", near.samples + far.samples),
        deadline_s=deadline_s,
        facts={**near.facts, **far.facts},
    )


def with_ideal(testbed: Testbed, arm: Arm, workload: Workload, facts: Mapping[str, float]) -> dict[str, float]:
    """Return the facts with those the flow derives, and the ceilings of links with a rate.

    `ideal_bit_s` is that of goodput, `ideal_interface_bit_s` that of the octets which an interface counts. Modelled
    traffic has the rates of its layers instead, reached and planned.
    """
    protocol, rate_bit_s = flow_named(workload.protocol), testbed.links.rate_bit_s
    result = {**facts, **protocol.derived_facts(values_of(workload.levels), facts)}
    if isinstance(protocol, Traffic):
        return {**result, **layer_facts(layers(arm, workload), facts)}
    if rate_bit_s:
        overhead = layers(arm, workload)
        result["ideal_bit_s"] = rate_bit_s * overhead.payload_share(_packet_bytes(arm, workload))
        if "interface_bytes" in result:
            result["ideal_interface_bit_s"] = rate_bit_s * overhead.interface_share
    return result


def flow_exceeds_link_rate(testbed: Testbed, arm: Arm, workload: Workload, facts: Mapping[str, float]) -> list[str]:
    """Return the violations of a run that moved more payload than the links let through."""
    rate_bit_s, packet_bytes = testbed.links.rate_bit_s, int(facts.get("size_bytes", _packet_bytes(arm, workload)))
    packet_bytes = packet_bytes if layers(arm, workload).datagram else 0
    # A link carries its rate in each direction.
    moved_bytes = facts.get("one_way_bytes", facts.get("payload_bytes", facts.get("unique", 0) * packet_bytes))
    if not rate_bit_s or not moved_bytes:
        return []
    time_s = facts["seconds"]
    if "received_seconds" in facts:  # from the first arrival to the last: a gap less than the datagrams took
        time_s = max(time_s, facts["received_seconds"] + time_s / (facts["sent"] + facts["missed"]))
    # TCP delivers at once the data that waited for a lost segment, even data from before the run.
    waited_bytes = min(QUEUE_BYTES, int(_WAITED * rate_bit_s * time_s / 8))
    return goodput_violations(
        rate_bit_s,
        layers(arm, workload),
        moved_bytes=moved_bytes,
        time_s=time_s,
        bucket_bytes=bucket_bytes(rate_bit_s) if packet_bytes else waited_bytes,
        payload_bytes=packet_bytes,
    )


def _packet_bytes(arm: Arm, workload: Workload) -> int:
    """Return the payload of a datagram; 0 for a stream, whose segments are full."""
    return workload.payload_bytes if layers(arm, workload).datagram else 0
