"""Specification of a load run: all that a client needs to know."""

from __future__ import annotations

from dataclasses import dataclass, field

from pytest_ipperf.core.portable.server_state import ServerState


@dataclass(frozen=True, slots=True)
class LoadSpec:
    """Load specification, in plain values, as it travels.

    `client` is `lean` or `library`. `resolver` and `source` are literal addresses of the arm's family; without a
    resolver, `name` is an address too, and without a source the kernel chooses one. `deadline_s` holds for each burst:
    a connection that has not completed by then has failed. `ident` numbers the first query, `first_index` the first
    connection. `hold` keeps finished sessions open until the last one has its figure. `state` is the server's, as far
    as a client has to know it.

    With a rate, connections arrive at the instants of a Poisson process, which is the same for the same `pattern`;
    `deadline_s` then holds for each connection, and sessions are held only by protocols whose sessions stay until the
    end of the run. The connections of each burst are spread over `workers`, processes that begin together.

    If several hosts share a run, this one opens every `stride`-th connection, from the `offset`-th on.
    """

    protocol: str
    client: str
    payload_bytes: int
    connections: int
    bursts: int
    ipver: int
    resolver: str
    resolver_port: int
    name: str
    port: int
    source: str
    deadline_s: float
    ident: int
    hold: bool = True
    first_index: int = 0
    state: ServerState = field(default_factory=ServerState)
    rate_per_s: float = 0.0
    pattern: str = ""
    workers: int = 1
    offset: int = 0
    stride: int = 1

    @property
    def connection_count(self) -> int:
        """Return the number of connections of each burst that this host opens."""
        return len(range(self.offset, self.connections, self.stride))
