"""Requests and replies of RPC methods that are more than a few scalars and belong to no other module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, TypeVar

from pytest_ipperf.agent.facts import FACTS
from pytest_ipperf.agent.facts.base import Facts
from pytest_ipperf.agent.flows.spec import Background, FarListening, FlowReport, FlowSpec
from pytest_ipperf.agent.kernel.resources import Resources
from pytest_ipperf.agent.paths.packet_counters import RunPackets
from pytest_ipperf.agent.rpc.codec import ByKey
from pytest_ipperf.agent.servers.accepted_mail import Acceptance, ExpectedMail, QueuedMail
from pytest_ipperf.core.portable.server_state import ServerState

Kind = TypeVar("Kind", bound=Facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """Identity of an agent: its host's name, its Python's version, and its process, unique by number and start."""

    python: str
    host: str
    pid: int
    started_ticks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """Properties that a host's results may depend on; see `agent.kernel.fingerprint`."""

    kernel: str
    machine: str
    cpu: str
    cpus: int
    cpus_allowed: list[int]
    python: str
    implementation: str
    sysctl: dict[str, str]
    device: str
    offloads: dict[str, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonBuild:
    """Properties of a Python that packages depend on; see `agent.packages.installed.interpreter`."""

    markers: dict[str, str]
    abi: str
    libc: list[str]
    magic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledPackages:
    """Versions of distributions on a host, empty for missing ones, and the Python that they are for."""

    versions: dict[str, str]
    python: PythonBuild


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheState:
    """Folder of a host's package cache, empty if there can be none; its contents, or why it is not used."""

    folder: str
    note: str
    entries: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """Leftovers removed from a host: the contents of its cache, and the number of private folders."""

    cache: CacheState
    folders: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedFacts:
    """Facts by name, and for those that could not be collected the reason, a sentence."""

    found: Annotated[dict[str, Facts], ByKey(FACTS)] = field(default_factory=dict)
    troubles: dict[str, str] = field(default_factory=dict)

    def of(self, kind: type[Kind]) -> Kind | None:
        """Return the facts of that kind; None if they were not or could not be collected."""
        return next((each for each in self.found.values() if isinstance(each, kind)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketTrain:
    """Train of `datagrams` packets of `packet_bytes`, of which the kernel queues at most `backlog`."""

    source: str
    address: str
    port: int
    ident: int
    packet_bytes: int
    datagrams: int
    backlog: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeRequest:
    """Server to start: on `addresses`, on a free port of `ports`, with `state` in sizes of `payload_bytes`.

    `zone` has the addresses of names, for a name server. `data` is the folder that `provision` has filled, or empty.
    """

    protocol: str
    addresses: list[str]
    ports: tuple[int, int]
    connections: int
    payload_bytes: int
    zone: Mapping[str, list[str]]
    state: ServerState
    data: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Port and version of a server that was started."""

    port: int
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureRequest:
    """Capture of the first `packets` of a device."""

    device: str
    packets: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainRequest:
    """Wait until no packet of the previous run is on its way; then reset the packet counters.

    First all TCP connections of the host have to be closed, within `closed_s` seconds; 0: they may be open. (When a
    connection is over, each end has the other's last packet.) Then, for `still_s`, no packet may have been seen in a
    tunnel, or that should be in one; the wait for that takes `limit_s` at most.
    """

    closed_s: float = 0.0
    still_s: float = 0.0
    limit_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStart:
    """Request to a host before its load; without `drain` its counters go on, and other None parts are left out."""

    drain: DrainRequest | None = None
    mail: ExpectedMail | None = None
    flow: FlowSpec | None = None
    background: Background | None = None
    capture: CaptureRequest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReady:
    """State of a host before its load: whether it has `drained` and is being `captured`, and the far end of a flow.

    `far_background` is that of background traffic.
    """

    drained: bool
    captured: bool
    far: FarListening | None
    far_background: FarListening | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """Request to a host after its load: to finish a flow whose near end has sent this report, first of all.

    `background` is the report of background traffic's near end.

    The host waits up to `limit_s` until its servers are idle, and drains in the end if asked to. With `resources` it
    reports those of its processes. After a `doubtful` run, running servers are probed. Mail is compared if all of them
    are well.
    """

    limit_s: float = 0.0
    doubtful: bool = False
    mail: QueuedMail | None = None
    flow: FlowReport | None = None
    background: FlowReport | None = None
    captured: bool = False
    resources: bool = False
    drain: DrainRequest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReport:
    """Report of a host after its load, on everything counted there since it began.

    `busy` says what servers still do, `broken` which of them have died, or do not answer. `tcp` holds the error
    counters that moved, `cpu_s` the servers' processor time. `far` is the report of a flow's far end, `far_background`
    that of background traffic, `capture` a pcap file. `resources` are those of the `agent` and of each server, by name,
    if asked for. `drained` tells whether nothing of the run is under way any more, if the host was asked to drain.
    """

    busy: list[str]
    broken: list[str]
    traffic: RunPackets
    tcp: dict[str, int]
    cpu_s: float
    accepted: Acceptance | None
    far: FlowReport | None
    capture: bytes
    resources: dict[str, Resources] = field(default_factory=dict)
    far_background: FlowReport | None = None
    drained: bool = False
