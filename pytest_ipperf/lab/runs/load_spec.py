"""Build the specification of a run's load, and read what its clients report of themselves."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from pytest_ipperf.agent.load.spec import LoadSpec
from pytest_ipperf.core.design.cell import Workload
from pytest_ipperf.core.measurement.client_load import ClientFacts
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.lab.runs.result import ServerEndpoint
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.transports.base import NetworkPath


def load_spec(
    path: NetworkPath, ipver: int, service: ServerEndpoint, workload: Workload, state: ServerState, **settings: Any
) -> LoadSpec:
    """The spec of a run on a path, whatever its clients; `settings` are those of a `LoadSpec` beside."""
    protocol = PROTOCOLS[workload.protocol]
    return LoadSpec(
        protocol=protocol.name,
        client=workload.client,
        payload_bytes=workload.payload_bytes,
        connections=workload.connections,
        ipver=ipver,
        # A transaction that is a look-up itself needs none before.
        resolver="" if protocol.datagram else path.server,
        resolver_port=service.resolver_port,
        name=path.server if protocol.datagram else protocol.host,
        port=service.port,
        source=path.client,
        # What is never fetched need not travel.
        state=dataclasses.asdict(dataclasses.replace(state, messages=(), pages={})),
        rate_per_s=workload.rate_per_s,
        workers=workload.workers,
        **settings,
    )


def client_facts(report: Mapping[str, Any], after: Mapping[str, Any], workload: Workload) -> ClientFacts:
    """What clients reported of themselves after a run, and the server's host of TCP's trouble.

    Of several clients, the one that was busiest tells how busy they were, as the run waited for that one.
    """
    tcp = {
        name: max(report["tcp"].get(name, 0), after["tcp"].get(name, 0)) for name in {**report["tcp"], **after["tcp"]}
    }
    worst = max(report.get("clients", {"": report}).values(), key=lambda each: _busy(each, workload))
    return ClientFacts(
        cpu_s=worst["burst_cpu_s"],
        wall_s=None if workload.rate_per_s else worst["wall_s"],
        connections=worst["attempted"],
        lag_s=report["lag_s"],
        peak=report["peak"],
        processors=worst["processors"],
        tcp=tcp,
        content_bytes=report["content_bytes"],
    )


def disturbances(clients: Mapping[str, Mapping[str, Any]], hosts: Mapping[str, str]) -> list[str]:
    """Return a sentence for each client whose control connection was not silent in a run."""
    loud = [hosts[role] for role, report in clients.items() if report.get("control")]
    return [f"the control connection of host {host} was not silent while its figures were taken" for host in loud]


def _busy(report: Mapping[str, Any], workload: Workload) -> float:
    """Its processor time by the time that it had; where connections arrive at a rate, by their number."""
    had = report["attempted"] if workload.rate_per_s else report["processors"] * report["wall_s"]
    return float(report["burst_cpu_s"] / had) if had else 0.0
