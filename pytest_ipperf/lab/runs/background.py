"""Background traffic of a run: its specification, and what it has to do with the run's data and proof."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pytest_ipperf.agent.flows.background import MEASURED, MOVED, PACKETS, PLANNED
from pytest_ipperf.agent.flows.spec import Background, FlowReport, FlowServer, FlowSpec, NearReports
from pytest_ipperf.agent.rpc.messages import HostReport
from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.core.measurement.goodput_ceiling import FRAME_BYTES
from pytest_ipperf.core.measurement.path_proof import goodput_violations
from pytest_ipperf.core.portable.factor import values_of
from pytest_ipperf.core.portable.scaling import rate_of
from pytest_ipperf.core.portable.traffic.carrier import CARRIER, TCP, UDP
from pytest_ipperf.core.portable.traffic.load import LEAD_S, TAIL_S, TCP_LOADS, generators_of, load_of
from pytest_ipperf.core.portable.traffic.model import DOWN, UP, TrafficModel
from pytest_ipperf.core.portable.traffic.schedule import packets
from pytest_ipperf.core.portable.units import parse_bytes
from pytest_ipperf.lab.inventory.model import Links, Testbed
from pytest_ipperf.lab.netns.veth import QUEUE_BYTES
from pytest_ipperf.lab.runs.link_rate import layers
from pytest_ipperf.lab.runs.modelled_traffic import load_model_of
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.protocols import flow as flow_named
from pytest_ipperf.protocols.traffic import protocol as modelled

_TCP_LEFT = 0.1
_WAITED = 0.25
"""Data that may arrive at once, as they waited in a queue or for a lost segment, as a share of what the link carries in
a run."""
_LOADED = 0.5
"""Share of a link's rate that a load at full speed has to reach, or a note says that it did not fill the link; and the
share of its packets that a load by a model has to send."""


def background_of(
    workload: Workload, measured: FlowSpec, models: Mapping[str, TrafficModel], ident: int
) -> Background | None:
    """Return the background traffic of a workload's run, between the same addresses; None without a load."""
    levels = values_of(workload.levels)
    load = load_of(levels)
    if not load:
        return None
    own = _load_workload(workload)
    protocol = flow_named(own.protocol)
    began_s, ended_s = measured.warmup_s, measured.warmup_s + measured.run_s
    if own.protocol == TCP:
        factors = {factor.name: factor.levels[0] for factor in protocol.factors} | {"direction": TCP_LOADS[load]}
        warmup_s = LEAD_S
    else:
        # Packets of its warm-up would not count, and may wait in a queue until the time of the measured run.
        factors, warmup_s = {CARRIER.name: UDP}, 0.0
        began_s, ended_s = began_s + LEAD_S, ended_s + LEAD_S
    flow = replace(
        measured,
        engine=protocol.engine,
        connections=generators_of(levels),
        payload_bytes=own.payload_bytes,
        factors=factors,
        warmup_s=warmup_s,
        run_s=ended_s + TAIL_S,
        ident=ident,
        backlog_bytes=0,
        service=FlowServer(),
        device="",
        model=load_model_of(workload, models),
        pattern=f"{measured.pattern}/load",
    )
    return Background(flow=flow, measured_s=(began_s, ended_s))


def load_reports(near: NearReports, server: HostReport) -> LoadReports | None:
    """Return the reports of the background traffic of a run; None if there was none."""
    if near.load is None or server.far_background is None:
        return None
    return LoadReports(near.load, server.far_background)


def drain_s(arm: Arm, workload: Workload, models: Mapping[str, TrafficModel], links: Links, loaded_s: float) -> float:
    """Estimate the seconds in which the queues drain that a load of `loaded_s` leaves at the ends of its run.

    Only those of a router's ports fill. TCP leaves a tenth of what it has sent there, a model what a link cannot carry.
    """
    if not links.at_router or not links.rate_bit_s or not load_of(values_of(workload.levels)):
        return 0.0
    model, longest_s = load_model_of(workload, models), 8 * QUEUE_BYTES / links.rate_bit_s
    if model is None:
        return min(longest_s, _TCP_LEFT * loaded_s)
    own = _load_workload(workload)
    around = layers(arm, own).header_bytes + FRAME_BYTES
    offered_bytes = max(
        sum(
            packet.size_bytes + around
            for packet in packets(
                model.with_payload(own.payload_bytes), direction, 1, "forecast", least_bytes=1, until_s=loaded_s
            )
        )
        for direction in (UP, DOWN)
    )
    sending_s = 8 * offered_bytes * generators_of(values_of(workload.levels)) / links.rate_bit_s
    return min(longest_s, max(0.0, sending_s - loaded_s))


@dataclass(frozen=True, slots=True)
class LoadReports:
    """Reports of both ends of a run's background traffic."""

    near: FlowReport
    far: FlowReport

    @property
    def seconds(self) -> float:
        """Return the time of the measured run."""
        return self.near.facts[MEASURED]

    @property
    def moved_bytes(self) -> float:
        """Return the payload that arrived in the time of the measured run."""
        return self._sum(MOVED)

    def facts(self) -> dict[str, float]:
        """Return the facts of the run: bytes moved in its time, and their rate; of a model also the schedule's rate."""
        found = {"load_bytes": self.moved_bytes, "load_bit_s": 8 * self.moved_bytes / self.seconds}
        if PLANNED in self.near.facts:
            found["load_planned_bit_s"] = 8 * self._sum(PLANNED) / self.seconds
        return found

    def recorded(self) -> dict[str, object]:
        """Return the facts of both ends for the run's record."""
        return {"near": self.near.facts, "far": self.far.facts, **self.facts()}

    def with_path(self, near: FlowReport) -> FlowReport:
        """Return the measured flow's report with the sockets of both flows, which are to be proven alike."""
        return replace(
            near,
            families=sorted({*near.families, *self.near.families}),
            peers={**near.peers, **{peer: near.peers.get(peer, 0) + n for peer, n in self.near.peers.items()}},
            sources=sorted({*near.sources, *self.near.sources}),
        )

    def violations(self, testbed: Testbed, arm: Arm, workload: Workload) -> list[str]:
        """Return how the load contradicts what it has to be: there at all, all of it, and not faster than the link."""
        name = _name(workload)
        if PLANNED in self.near.facts and not self._sum(PLANNED):
            return [f"expected a load ({name}) in the time of the run, but its model has no packet then"]
        if not self.moved_bytes:
            return [f"expected a load ({name}) in the time of the run, seen no byte of it"]
        found = []
        for end, way in ((self.far, "from client to server"), (self.near, "from server to client")):
            if end.facts.get(PLANNED) and not end.facts[MOVED]:
                found.append(f"expected a load ({name}) {way}, seen no byte of it in the time of the run")
        sent, missed = self.far.facts.get("sent", 0.0), self.far.facts.get("missed", 0.0)
        if missed > _LOADED * (sent + missed):
            found.append(
                f"expected a load ({name}) of {sent + missed:.0f} packets, of which its senders could send {sent:.0f}"
            )
        return found + self._above_rate(testbed.links.rate_bit_s, arm, workload)

    def notes(self, testbed: Testbed, workload: Workload) -> list[str]:
        """Return what limited the load, and whether TCP has left much of a link unused whose rate is known."""
        said = [f"load: {each}" for each in dict.fromkeys((*self.near.notes, *self.far.notes))]
        rate_bit_s, found_bit_s = testbed.links.rate_bit_s, self.facts()["load_bit_s"]
        if rate_bit_s and found_bit_s < _LOADED * rate_bit_s and PLANNED not in self.near.facts:
            said.append(f"the load ({_name(workload)}) did not fill the link: {rate_of(found_bit_s, rate_bit_s)}")
        return said

    def _above_rate(self, rate_bit_s: float, arm: Arm, workload: Workload) -> list[str]:
        """Return the violations of a direction in which more payload arrived than a link of that rate carries."""
        if not rate_bit_s:
            return []
        found = []
        for end in (self.far, self.near):
            packets = end.facts.get(PACKETS, 0.0)
            found += goodput_violations(
                rate_bit_s,
                layers(arm, _load_workload(workload)),
                moved_bytes=end.facts[MOVED],
                time_s=self.seconds,
                bucket_bytes=min(QUEUE_BYTES, int(_WAITED * rate_bit_s * self.seconds / 8)),
                payload_bytes=round(end.facts[MOVED] / packets) if packets else 0,
            )
        return found

    def _sum(self, fact: str) -> float:
        return self.near.facts.get(fact, 0.0) + self.far.facts.get(fact, 0.0)


def _name(workload: Workload) -> str:
    """Return the load and its connections as in sentences: `tcp.up`, `20 of g711.1`."""
    levels = values_of(workload.levels)
    count = generators_of(levels)
    return load_of(levels) if count == 1 else f"{count} of {load_of(levels)}"


def _load_workload(workload: Workload) -> Workload:
    """Return the workload of the load, as far as its headers depend on it."""
    protocol = TCP if load_of(values_of(workload.levels)) in TCP_LOADS else modelled.name
    return replace(workload, protocol=protocol, payload_bytes=parse_bytes(PROTOCOLS[protocol].payload[0]), levels=())
