"""Build the specification of a run's load, and read the reports of its clients about themselves."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from pytest_ipperf.agent.load.results import LoadResult
from pytest_ipperf.agent.load.spec import LoadSpec
from pytest_ipperf.core.design.cell import Workload
from pytest_ipperf.core.measurement.client_load import ClientFacts
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.lab.runs.result import ClientResults, ServerEndpoint
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.transports.base import NetworkPath


def load_spec(
    path: NetworkPath,
    ipver: int,
    service: ServerEndpoint,
    workload: Workload,
    state: ServerState,
    *,
    bursts: int,
    deadline_s: float,
    ident: int,
) -> LoadSpec:
    """Return the spec of a run on a path, for any number of clients."""
    protocol = PROTOCOLS[workload.protocol]
    return LoadSpec(
        protocol=protocol.name,
        client=workload.client,
        payload_bytes=workload.payload_bytes,
        connections=workload.connections,
        ipver=ipver,
        # A transaction that is a look-up itself needs no other one before.
        resolver="" if protocol.datagram else path.server,
        resolver_port=service.resolver_port,
        name=path.server if protocol.datagram else protocol.host,
        port=service.port,
        source=path.client,
        # Messages and pages are not needed by clients.
        state=dataclasses.replace(state, messages=(), pages={}),
        rate_per_s=workload.rate_per_s,
        workers=workload.workers,
        bursts=bursts,
        deadline_s=deadline_s,
        ident=ident,
    )


def client_facts(load: ClientResults, server_tcp: Mapping[str, int], workload: Workload) -> ClientFacts:
    """Return the figures that clients reported of themselves after a run, with the TCP errors of the server's host.

    With several clients, the busiest one counts, as the run waited for it.
    """
    total = load.total
    tcp = {name: max(total.tcp.get(name, 0), server_tcp.get(name, 0)) for name in {**total.tcp, **server_tcp}}
    worst = max(load.by_role.values(), key=lambda each: _busy(each, workload))
    return ClientFacts(
        cpu_s=worst.burst_cpu_s,
        wall_s=None if workload.rate_per_s else worst.wall_s,
        connections=worst.attempted,
        lag_s=total.lag_s,
        peak=total.peak,
        processors=worst.processors,
        tcp=tcp,
        content_bytes=total.content_bytes,
    )


def disturbances(control: Mapping[str, int | None], hosts: Mapping[str, str]) -> list[str]:
    """Return a sentence for each client whose control connection was not silent in a run.

    `control` holds the segments of these connections, by role.
    """
    loud = [hosts[role] for role, segments in control.items() if segments]
    return [f"the control connection of host {host} was not silent while its figures were taken" for host in loud]


def _busy(result: LoadResult, workload: Workload) -> float:
    """Return a client's processor time per available time, or per connection if they arrive at a rate."""
    had = result.attempted if workload.rate_per_s else result.processors * result.wall_s
    return result.burst_cpu_s / had if had else 0.0
