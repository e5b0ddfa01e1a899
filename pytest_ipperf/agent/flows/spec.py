"""Specification of one run of a flow, and the reports of its ends; both travel as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_ipperf.agent.paths.clock_sync import ClockSample
from pytest_ipperf.agent.paths.packet_counters import RunPackets
from pytest_ipperf.core.portable.factor import Value
from pytest_ipperf.core.portable.traffic.model import TrafficModel

IDLE_STREAMS = "idle_streams"
"""Fact of a run of streams some of which moved nothing: their number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FarListening:
    """Properties of a listening far end that the near end has to know; each engine sets those that it needs.

    `clock_port` answers exchanges of clocks, and `clock` identifies its host's clock. `boot`, `processors` and those to
    which it is `pinned` show whether both ends share processors.
    """

    port: int = 0
    byteorder: str = ""
    clock_port: int = 0
    clock: dict[str, str] = field(default_factory=dict)
    boot: str = ""
    processors: int = 0
    pinned: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowServer:
    """Server program at the far end: its port, and for each session a user of the same password.

    A name server that answers from a cache has records with a TTL of `cached_ttl_s`.
    """

    port: int = 0
    cached_ttl_s: int = 0
    users: list[str] = field(default_factory=list)
    password: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class FlowSpec:
    """Specification of one run; plain values, as it travels. Both ends receive the same.

    `source` and `address` are the arm's literal addresses of client and server; an empty source leaves the choice to
    the kernel. The far end uses a port of `ports`. `factors` are the protocol's own, by name, all of them.

    Traffic of the first `warmup_s` is not measured, that of the `run_s` after them is the run. A reply that has not
    come after `deadline_s` is lost, and an end that receives nothing at all for so long gives up.

    `backlog_bytes` are sent at once at the start of the warm-up, to fill a queue on the path if more is offered than
    its link carries, so that the run is in the steady state. `far` is what the far end returned when it began to
    listen. `ident` tells the packets of this run from those of others. With `segments` the kernel may split larger
    messages.

    An engine with a server program at its far end uses `service`; `device` is the near end's interface. Modelled
    traffic follows from `model`. Runs with the same `pattern` draw the same random instants, and have the same packets
    of a model.
    """

    engine: str
    ipver: int
    source: str
    address: str
    ports: tuple[int, int]
    connections: int
    payload_bytes: int
    factors: Mapping[str, Value]
    warmup_s: float
    run_s: float
    deadline_s: float
    ident: int
    backlog_bytes: int = 0
    segments: bool = True
    far: FarListening = FarListening()
    service: FlowServer = FlowServer()
    device: str = ""
    model: TrafficModel | None = None
    pattern: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Background:
    """Specification of a run's background traffic: its flow, and the measured run's time in that of the flow, in s."""

    flow: FlowSpec
    measured_s: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderClock:
    """Time `began_ns` of the run by the sender's CLOCK_MONOTONIC, and samples of the far end's offset from it."""

    began_ns: int
    clock_marks: list[ClockSample]


@dataclass(slots=True)
class FlowReport:
    """Report of one end about a run. The two reports are merged; most fields are filled by one end only.

    `samples` are rows of the protocol's `columns`, native float64. `facts` are numbers in base units from which metrics
    are computed, under the names that the engine's file explains; `detail` is further data, kept as JSON. An engine
    that compares clocks sets `sender_clock`, for its far end. `notes` are sentences for people about what limits the
    figures. `peers` (address -> connections), `sources` and `families` (as
    `socket` names them) are those of the near end's sockets. `cpu_s` is this end's processor time, user and kernel, in
    the `wall_s` of the run. The near end's host has the packets of `traffic`, and `control` (see `ProgressReporter`).
    It is not frozen, as an engine fills it during the run.
    """

    samples: bytes = b""
    attempted: int = 0
    failed: dict[str, int] = field(default_factory=dict)
    facts: dict[str, float] = field(default_factory=dict)
    detail: dict[str, object] = field(default_factory=dict)
    sender_clock: SenderClock | None = None
    notes: list[str] = field(default_factory=list)
    families: list[str] = field(default_factory=list)
    peers: dict[str, int] = field(default_factory=dict)
    sources: list[str] = field(default_factory=list)
    cpu_s: float = 0.0
    wall_s: float = 0.0
    control: int | None = None
    traffic: RunPackets = field(default_factory=RunPackets)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """Background traffic that arrived at one end in a part of its run: payload in bytes, and packets (0 of a stream).

    `planned_bytes` is what the schedule of a traffic model has there in that time; None without a schedule.
    """

    payload_bytes: float
    packets: int = 0
    planned_bytes: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NearReports:
    """Reports of the near ends of a run: of the measured flow, and of background traffic if there was any."""

    flow: FlowReport
    load: FlowReport | None = None
