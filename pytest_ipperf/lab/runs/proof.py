"""Facts of a run for its records: the input of path verification, and everything else that hosts have reported."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from pytest_ipperf.agent.flows.spec import FlowReport
from pytest_ipperf.agent.load.results import LoadResult
from pytest_ipperf.agent.rpc.messages import HostReport
from pytest_ipperf.lab.runs.accepted_mail import acceptance_counts
from pytest_ipperf.lab.runs.result import ClientResults
from pytest_ipperf.transports.base import CLIENT, ROUTER, SERVER

_SAMPLES = {"rows", "indices", "bursts", "samples"}
_OF_NEAR_END = {"control", "packets", "protocol41", "bare_ipv6"}


def load_proof(
    load: ClientResults, reports: Mapping[str, HostReport], *, client: str, hosts: Mapping[str, str]
) -> dict[str, Any]:
    """Return the facts of a load; `client` names the client program, `hosts` the testbed's hosts by role."""
    by_role, after = load.by_role, reports[SERVER]
    result = _recorded(load.total)
    if len(by_role) > 1:
        result["clients"] = {
            role: {
                "host": hosts[role],
                **_recorded(each),
                "completed": each.completed,
                "began_s": list(load.began_s[role]),
            }
            for role, each in by_role.items()
        }
    if after.accepted:
        result["accepted"] = acceptance_counts(after.accepted)
    return {
        **result,
        "client": client,
        "completed": load.total.completed,
        "protocol41": {**{role: each.traffic.protocol41 for role, each in by_role.items()}, **_protocol41(reports)},
        "merged": {**{role: each.traffic.merged for role, each in by_role.items()}, **_merged(reports)},
        "tcp": {**{role: each.tcp for role, each in by_role.items()}, SERVER: after.tcp},
        "server_cpu_s": after.cpu_s,
    }


def flow_proof(near: FlowReport, far: FlowReport, completed: int, reports: Mapping[str, HostReport]) -> dict[str, Any]:
    """Return the facts of a flow, of which `completed` packets or streams completed."""
    return {
        **_recorded(near),
        "completed": completed,
        "far": {name: value for name, value in _recorded(far).items() if name not in _OF_NEAR_END},
        "protocol41": {CLIENT: near.traffic.protocol41, **_protocol41(reports)},
        "merged": {CLIENT: near.traffic.merged, **_merged(reports)},
    }


def _recorded(result: LoadResult | FlowReport) -> dict[str, Any]:
    """Return a host's result as in records: without samples, and with its packet counters at the same level."""
    fields = {each.name: getattr(result, each.name) for each in dataclasses.fields(result)}
    traffic = dataclasses.asdict(fields.pop("traffic"))
    del traffic["merged"]  # it is by host
    if sender_clock := fields.pop("sender_clock", None):
        fields["detail"] = {**fields["detail"], **dataclasses.asdict(sender_clock)}
    return {**{name: value for name, value in fields.items() if name not in _SAMPLES}, **traffic}


def _protocol41(reports: Mapping[str, HostReport]) -> dict[str, dict[str, int] | None]:
    """Return the packets of protocol 41 at the server, and at the router if there is one."""
    return {role: reports[role].traffic.protocol41 for role in (SERVER, ROUTER) if role in reports}


def _merged(reports: Mapping[str, HostReport]) -> dict[str, dict[str, int] | None]:
    """Return the packets larger than the MTU at the server, and at the router if there is one."""
    return {role: reports[role].traffic.merged for role in (SERVER, ROUTER) if role in reports}
