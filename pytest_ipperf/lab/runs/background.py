"""Background traffic of a run: its specification, and what it has to do with the run's data and proof."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pytest_ipperf.agent.flows.background import MEASURED, MOVED
from pytest_ipperf.agent.flows.spec import Background, FlowReport, FlowSpec, NearReports
from pytest_ipperf.agent.rpc.messages import HostReport
from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.core.measurement.path_proof import goodput_violations
from pytest_ipperf.core.portable.factor import values_of
from pytest_ipperf.core.portable.scaling import rate_of
from pytest_ipperf.core.portable.traffic.carrier import TCP
from pytest_ipperf.core.portable.traffic.load import LEAD_S, LOAD, TAIL_S, TCP_LOADS
from pytest_ipperf.core.portable.units import parse_bytes
from pytest_ipperf.lab.inventory.model import Testbed
from pytest_ipperf.lab.netns.veth import QUEUE_BYTES
from pytest_ipperf.lab.runs.link_rate import layers
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.protocols import flow as flow_named

_WAITED = 0.25
"""Data that TCP may deliver at once, as it waited for a lost segment, as a share of what the link carries in a run."""
_LOADED = 0.5
"""Share of a link's rate that a load at full speed has to reach, or a note says that it did not fill the link."""


def background_of(workload: Workload, measured: FlowSpec, ident: int) -> Background | None:
    """Return the background traffic of a workload's run, between the same addresses; None without a load."""
    level = values_of(workload.levels).get(LOAD.name)
    if level not in TCP_LOADS:
        return None
    protocol = flow_named(TCP)
    factors = {factor.name: factor.levels[0] for factor in protocol.factors}
    flow = replace(
        measured,
        engine=protocol.engine,
        connections=1,
        payload_bytes=_tcp_workload(workload).payload_bytes,
        factors={**factors, "direction": TCP_LOADS[str(level)]},
        warmup_s=LEAD_S,
        run_s=measured.warmup_s + measured.run_s + TAIL_S,
        ident=ident,
        backlog_bytes=0,
    )
    return Background(flow=flow, measured_s=(measured.warmup_s, measured.warmup_s + measured.run_s))


def load_reports(near: NearReports, server: HostReport) -> LoadReports | None:
    """Return the reports of the background traffic of a run; None if there was none."""
    if near.load is None or server.far_background is None:
        return None
    return LoadReports(near.load, server.far_background)


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
        return self.near.facts.get(MOVED, 0.0) + self.far.facts.get(MOVED, 0.0)

    def facts(self) -> dict[str, float]:
        """Return the facts of the run: bytes moved in its time, and their rate."""
        return {"load_bytes": self.moved_bytes, "load_bit_s": 8 * self.moved_bytes / self.seconds}

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
        """Return how the load contradicts what it has to be: there at all, and not faster than the link."""
        if not self.moved_bytes:
            return [f"expected a load ({_name(workload)}) in the time of the run, seen no byte of it"]
        rate_bit_s = testbed.links.rate_bit_s
        if not rate_bit_s:
            return []
        return goodput_violations(
            rate_bit_s,
            layers(arm, _tcp_workload(workload)),
            moved_bytes=int(self.moved_bytes),
            time_s=self.seconds,
            bucket_bytes=min(QUEUE_BYTES, int(_WAITED * rate_bit_s * self.seconds / 8)),
            payload_bytes=0,
        )

    def notes(self, testbed: Testbed, workload: Workload) -> list[str]:
        """Return what limited the load, and whether it has left much of a link unused whose rate is known."""
        said = [f"load: {each}" for each in dict.fromkeys((*self.near.notes, *self.far.notes))]
        rate_bit_s, found_bit_s = testbed.links.rate_bit_s, self.facts()["load_bit_s"]
        if rate_bit_s and found_bit_s < _LOADED * rate_bit_s:
            said.append(f"the load ({_name(workload)}) did not fill the link: {rate_of(found_bit_s, rate_bit_s)}")
        return said


def _name(workload: Workload) -> str:
    return str(values_of(workload.levels)[LOAD.name])


def _tcp_workload(workload: Workload) -> Workload:
    """Return the workload of the load, as far as its headers depend on it."""
    return replace(workload, protocol=TCP, payload_bytes=parse_bytes(PROTOCOLS[TCP].payload[0]), levels=())
