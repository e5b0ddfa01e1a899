"""Kinds of workload: connections to a server, or flows that agents make between themselves.

Whatever differs between the two by kind alone is a method or a value of `WorkloadKind`; a protocol has one as `kind`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

LEAN = "lean"
"""The client that goes without saying: a workload's text names any other."""

Row = tuple[float, ...]


class ClientLoad(NamedTuple):
    """The client program, at which rate connections arrive (0: all at once), and how many processes share them."""

    client: str
    rate_per_s: float
    workers: int


class RunDesign(Protocol):
    """What a design knows of one run, see `Design`."""

    @property
    def warmup_s(self) -> float:
        """Seconds of a flow that count for nothing."""

    @property
    def run_s(self) -> float:
        """Seconds of a flow after them."""

    def bursts(self, connections: int) -> int:
        """Return the number of bursts in a run with `connections` at once."""


class RunSize(NamedTuple):
    """How much one run is: `text` for a workload's version, `amount` to compare runs by.

    `connections` is 0 where time is its size; `warmup_s` and `run_s` are 0 where connections are.
    """

    text: str
    amount: float
    connections: int
    warmup_s: float
    run_s: float


@dataclass(frozen=True)
class WorkloadKind(ABC):
    """What differs between the two kinds of workload."""

    unit: str
    """What the number of connections counts, in the singular."""
    counts_failures: bool
    """True if reports count the failures; where there is no such count, losses are a metric."""
    most_clients: float
    """Largest number of client hosts that can share a run."""
    overhead_s: float
    """Typical seconds that a run takes beside its connections or its traffic."""

    def counted(self, count: int) -> str:
        """Return a number of connections or streams with its unit, such as `10 connections`."""
        return f"{count} {self.unit}{'s' * (count != 1)}"

    @abstractmethod
    def title_of(self, count: int) -> str:
        """Return that number as titles of cells have it; empty where it goes without saying."""

    @abstractmethod
    def load(self, asked: ClientLoad) -> ClientLoad:
        """Return how a workload of this kind is loaded where a session asks for `asked`."""

    @abstractmethod
    def run_size(self, design: RunDesign, connections: int) -> RunSize:
        """Return the size of a run of a workload with that many connections."""

    @abstractmethod
    def server(self, name: str) -> str:
        """Return the server as a workload's version names it; empty where none is measured."""

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


CONNECTIONS: WorkloadKind = _Connections("connection", counts_failures=True, most_clients=math.inf, overhead_s=0.05)
FLOWS: WorkloadKind = _Flows("stream", counts_failures=False, most_clients=1, overhead_s=0.3)
