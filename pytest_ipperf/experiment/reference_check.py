"""End a measurement whose reference completes nothing: there would be nothing to compare with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.measurement.run import leading
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.core.portable.workload_kind import CONNECTIONS, FLOWS, WorkloadKind
from pytest_ipperf.lab.runs.result import ServerEndpoint
from pytest_ipperf.protocols.base import CONTENT

# Runs of a flow without a packet, or connections, after which it is not tried again.
_HOPELESS = 3
_KINDS = 3


def check_reference(kind: WorkloadKind, arm: Arm, runs: int, lost: Counter[str], service: ServerEndpoint) -> None:
    """Raise LabError if the reference's last `runs` completed nothing; `lost` counts their failures by kind."""
    if why := _WHY[kind](arm, runs, lost, service):
        raise LabError(why)


def _no_connection(arm: Arm, runs: int, lost: Counter[str], service: ServerEndpoint) -> str:
    del runs
    if lost.total() < _HOPELESS:
        return ""
    kinds = ", ".join(f"{kind}: {count}" for kind, count in leading(lost, _KINDS).items())
    return (
        f"the reference {arm} completed none of {lost.total()} connections ({kinds}), "
        f"so there is nothing to compare with; {_suspicion(lost, service)}?"
    )


def _no_packet(arm: Arm, runs: int, lost: Counter[str], service: ServerEndpoint) -> str:
    del service
    if runs != _HOPELESS:
        return ""
    return (
        f"nothing arrived in {runs} runs of the reference {arm}, of which {lost.total()} were sent, so "
        "there is nothing to compare with; does a firewall on the path drop them?"
    )


_WHY: Mapping[WorkloadKind, Callable[[Arm, int, Counter[str], ServerEndpoint], str]] = {
    CONNECTIONS: _no_connection,
    FLOWS: _no_packet,
}


def _suspicion(lost: Collection[str], service: ServerEndpoint) -> str:
    """Return, by the kinds of failure, what to look at first: a question without its mark."""
    if all(kind.endswith(" unreachable") for kind in lost):
        return f"is there a way from the client to the server {service}"
    if all(kind.startswith(("dns ", f"{CONTENT}: dns: ")) for kind in lost):
        return "is the name server well"
    return f"is the server {service} well"
