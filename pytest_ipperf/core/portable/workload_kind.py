"""Kinds of workload: connections to a server, flows between agents, transfers from a server, or queries to one.

Whatever differs between them by kind alone is a method or a value of `WorkloadKind`; a protocol has one as `kind`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

LEAN = "lean"
"""Client that is left out of a workload's text, which names any other."""

Row = tuple[float, ...]


class ClientLoad(NamedTuple):
    """Client program, arrival rate of connections (0: all at once), and number of processes that share them."""

    client: str
    rate_per_s: float
    workers: int


class RunDesign(Protocol):
    """Properties of one run that a design determines, see `Design`."""

    @property
    def warmup_s(self) -> float:
        """Seconds at the beginning of a flow that are not measured."""

    @property
    def run_s(self) -> float:
        """Measured seconds of a flow."""

    def bursts(self, connections: int) -> int:
        """Return the number of bursts in a run with `connections` at once."""


class RunSize(NamedTuple):
    """Size of a run: `text` for a workload's version, `amount` to compare runs by.

    `connections` is 0 if the size is a time; `warmup_s` and `run_s` are 0 if it is a number of connections.
    """

    text: str
    amount: float
    connections: int
    warmup_s: float
    run_s: float


@dataclass(frozen=True)
class WorkloadKind(ABC):
    """Differences between the kinds of workload."""

    name: str
    unit: str = field(compare=False)
    """Thing counted by the number of connections, in the singular; a protocol may have another word for its own."""
    counts_failures: bool
    """True if reports count the failures; otherwise losses are a metric."""
    has_times: bool
    """True if its samples are single connections with their times."""
    most_clients: float
    """Largest number of client hosts that can share a run."""
    overhead_s: float
    """Typical seconds that a run takes beside its connections or its traffic."""

    def counted(self, count: int) -> str:
        """Return a number of connections or streams with its unit, such as `10 connections`."""
        return f"{count} {self.unit}{'s' * (count != 1)}"

    @abstractmethod
    def title_of(self, count: int) -> str:
        """Return that number as titles of cells have it; empty if it is left out."""

    @abstractmethod
    def load(self, asked: ClientLoad) -> ClientLoad:
        """Return how a workload of this kind is loaded if a session asks for `asked`."""

    @abstractmethod
    def run_size(self, design: RunDesign, connections: int) -> RunSize:
        """Return the size of a run of a workload with that many connections."""

    @abstractmethod
    def server(self, name: str) -> str:
        """Return the server as a workload's version names it; empty if none is measured."""

    @abstractmethod
    def connection_rows(self, rows: Iterable[Row]) -> Iterable[Row]:
        """Return the samples of a run that are single connections, for their phases."""


class _Connections(WorkloadKind):
    """Connections to a server, each with one transaction."""

    def title_of(self, count: int) -> str:
        return self.counted(count)

    def load(self, asked: ClientLoad) -> ClientLoad:
        return asked

    def run_size(self, design: RunDesign, connections: int) -> RunSize:
        bursts = design.bursts(connections)
        return RunSize(f"{connections * bursts}x", bursts, connections * bursts, 0.0, 0.0)

    def server(self, name: str) -> str:
        return name

    def connection_rows(self, rows: Iterable[Row]) -> Iterable[Row]:
        return rows


class _Flows(WorkloadKind):
    """Traffic between two agents for some seconds, without a server or a client program."""

    def title_of(self, count: int) -> str:
        return "" if count == 1 else self.counted(count)

    def load(self, asked: ClientLoad) -> ClientLoad:
        del asked
        return ClientLoad(LEAN, 0.0, 1)

    def run_size(self, design: RunDesign, connections: int) -> RunSize:
        del connections
        return RunSize(f"{design.run_s:g}s+{design.warmup_s:g}s", design.run_s, 0, design.warmup_s, design.run_s)

    def server(self, name: str) -> str:
        del name
        return ""

    def connection_rows(self, rows: Iterable[Row]) -> Iterable[Row]:
        del rows
        return ()


class _Transfers(_Flows):
    """Traffic for some seconds between an agent and a server, which is measured too."""

    def server(self, name: str) -> str:
        return name


CONNECTIONS: WorkloadKind = _Connections(
    "connections", "connection", counts_failures=True, has_times=True, most_clients=math.inf, overhead_s=0.05
)
FLOWS: WorkloadKind = _Flows("flows", "stream", counts_failures=False, has_times=False, most_clients=1, overhead_s=0.3)
QUERIES: WorkloadKind = _Transfers(
    "queries", "client", counts_failures=True, has_times=False, most_clients=1, overhead_s=0.6
)
TRANSFERS: WorkloadKind = _Transfers(
    "transfers", "session", counts_failures=True, has_times=False, most_clients=1, overhead_s=0.6
)
