"""The results of an epoch: the endpoint of its server, and the result of each run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_ipperf.agent.load.results import LoadResult
from pytest_ipperf.core.measurement.client_load import ClientFacts
from pytest_ipperf.core.measurement.run_data import RunData


@dataclass(frozen=True, slots=True)
class ServerEndpoint:
    """A running server: its name and version for the results, its port, and the name server's port and text.

    If agents make the traffic, the server is the agent, and the port is 0.
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
class ClientResults:
    """Results of a load on the hosts of its clients, by role, and in `total` as if one host had made it all.

    With several clients, `began_s` holds by role when each burst began, in seconds after the first host's start of it.
    `skew` holds the largest difference between their starts in any burst, and its maximum error. `notes` are sentences
    about hosts that began late and clocks that moved.
    """

    total: LoadResult
    by_role: Mapping[str, LoadResult]
    began_s: Mapping[str, list[float]] = field(default_factory=dict)
    skew: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """Result of one run: its data, the facts of its path in `proof`, and the `violations` that contradict them.

    `unsettled` says what servers were still doing when it was over. `client` holds the client's report of itself,
    `notes` are sentences about what limits the figures. `captures` are the first packets by the hosts' roles, as pcap
    files. `drain_s` is the time until nothing of the previous run was under way, `finish_s` that until the servers were
    idle and everything was counted.
    """

    data: RunData
    proof: Mapping[str, Any]
    violations: tuple[str, ...]
    unsettled: tuple[str, ...]
    client: ClientFacts | None = None
    notes: tuple[str, ...] = ()
    captures: Mapping[str, bytes] = field(default_factory=dict)
    drain_s: float = 0.0
    finish_s: float = 0.0
