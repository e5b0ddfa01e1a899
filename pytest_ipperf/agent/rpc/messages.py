"""Requests and replies of RPC methods that are more than a few scalars, where no other module owns their type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
