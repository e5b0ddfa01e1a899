"""Requests and replies of RPC methods that are more than a few scalars, where no other module owns their type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_ipperf.agent.flows.spec import FarListening, FlowReport, FlowSpec
from pytest_ipperf.agent.paths.packet_counters import RunPackets
from pytest_ipperf.agent.servers.accepted_mail import Acceptance, ExpectedMail, QueuedMail
from pytest_ipperf.core.portable.server_state import ServerState


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """Identity of an agent: its host's name, its Python's version, and its process, named for ever by its start."""

    python: str
    host: str
    pid: int
    started_ticks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """What results of a host may depend on; see `agent.kernel.fingerprint`."""

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
    """Versions of distributions on a host, empty where one is missing, and the Python that they are for."""

    versions: dict[str, str]
    python: PythonBuild


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheState:
    """Folder of a host's package cache, empty where there can be none; what it holds, or why it is not used."""

    folder: str
    note: str
    entries: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """What was removed from a host: the content of its cache, and the number of private folders."""

    cache: CacheState
    folders: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Route to an address, as `agent.paths.routes.route` explains it; only `error` where there is none."""

    device: str = ""
    gateway: str = ""
    source: str = ""
    mtu: int = 0
    type: int = 0
    path_mtu: int = 0
    mss: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketTrain:
    """Train of `datagrams` packets of `packet_bytes`, of which the kernel holds at most `backlog` at once."""

    source: str
    address: str
    port: int
    ident: int
    packet_bytes: int
    datagrams: int
    backlog: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeRequest:
    """Server to start: on `addresses`, on a free port of `ports`, holding `state` in sizes of `payload_bytes`.

    `zone` holds the addresses of names, for a name server. `data` is the folder that `provision` has filled, or empty.
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
    """Wait until nothing of the run before is on its way; then reset the packet counters.

    First no TCP connection of the host may be open any more, for at most `closed_s` seconds; 0: they may be. Each end
    of a connection that is over has the other's last packet. Then for `still_s` no packet may have been seen in a
    tunnel, or that should be in one; `limit_s` is the longest that this is waited for.
    """

    closed_s: float = 0.0
    still_s: float = 0.0
    limit_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStart:
    """What a host does before its load; without `drain` its counters go on, and of the others None is nothing."""

    drain: DrainRequest | None = None
    mail: ExpectedMail | None = None
    flow: FlowSpec | None = None
    capture: CaptureRequest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReady:
    """A host before its load: whether the run before has `drained`, and is being `captured`; the far end of a flow."""

    drained: bool
    captured: bool
    far: FarListening | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """What a host is asked after its load: to finish a flow whose near end has sent this report, first of all.

    It waits up to `limit_s` until its servers have nothing left to do. Where a run is `doubtful`, servers that live
    are asked whether they answer. Mail is compared where all of them are well.
    """

    limit_s: float = 0.0
    doubtful: bool = False
    mail: QueuedMail | None = None
    flow: FlowReport | None = None
    captured: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReport:
    """Report of a host after its load, of all that was counted there since it began.

    `busy` says what servers still do, `broken` which of them have died, or do not answer. `tcp` holds the error
    counters that moved, `cpu_s` the servers' processor time. `far` is the report of a flow's far end, `capture` a pcap
    file.
    """

    busy: list[str]
    broken: list[str]
    traffic: RunPackets
    tcp: dict[str, int]
    cpu_s: float
    accepted: Acceptance | None
    far: FlowReport | None
    capture: bytes
