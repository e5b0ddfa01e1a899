"""The results of an epoch: the endpoint of its server, and the result of each run."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_ipperf.core.measurement.client_load import ClientFacts
from pytest_ipperf.core.measurement.run_data import RunData


@dataclass(frozen=True, slots=True)
class ServerEndpoint:
    """A server that stands: its name and version for the results, its port, and the name server's port and text.

    Where agents make the traffic there is no server but them, and the port is 0.
    """

    name: str
    version: str
    embedded: bool
    port: int
    resolver_port: int
    resolver: str = ""

    def __str__(self) -> str:
        version = f" {self.version}" if self.version else ""
        return f"{self.name}{version}" + (" (embedded)" if self.embedded else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What one run brought home.

    `samples` holds its rows one after another, each with a value for every one of `columns`. `proof` holds the facts of
    its path, `violations` what speaks against them, `client` what the client reported of itself, `facts` what the
    engine of a flow counted, and `notes` its sentences about what limits the figures. `captures` are the first packets
    by the hosts' roles, as pcap files.
    """

    attempted: int
    failed: Mapping[str, int]
    columns: tuple[str, ...]
    samples: array[float]
    proof: Mapping[str, Any]
    violations: tuple[str, ...]
    unsettled: tuple[str, ...]
    client: ClientFacts | None = None
    facts: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    captures: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(self.samples) // len(self.columns)

    def outcome(self, deadline_s: float) -> RunData:
        """What metrics take of it."""
        return RunData(
            attempted=self.attempted,
            failed=self.failed,
            columns=self.columns,
            samples=self.samples,
            deadline_s=deadline_s,
            facts=self.facts,
        )
