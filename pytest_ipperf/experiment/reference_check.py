"""End a measurement whose reference completes nothing, as there is nothing to compare with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.measurement.run import Run, leading
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.core.portable.workload_kind import CONNECTIONS, FLOWS, QUERIES, TRANSFERS, WorkloadKind
from pytest_ipperf.lab.runs.result import ServerEndpoint
from pytest_ipperf.protocols.base import CONTENT

# Number of consecutive failed connections, or of runs of a flow without a packet, that end the measurement. Fewer may
# be chance, and are data.
_MAX_FAILURES = 3
_KINDS_SHOWN = 3


def check_reference(kind: WorkloadKind, runs: Sequence[Run], service: ServerEndpoint) -> None:
    """Raise LabError if the last of a reference's `runs` completed nothing."""
    number, lost = 0, Counter[str]()
    for run in reversed(runs):
        if run.completed:
            break
        number += 1
        lost.update(run.failed)
    if why := _CHECKS[kind](runs[-1].arm, number, lost, service):
        raise LabError(why)


def _no_connection(arm: Arm, runs: int, lost: Counter[str], service: ServerEndpoint) -> str:
    del runs
    if lost.total() < _MAX_FAILURES:
        return ""
    kinds = ", ".join(f"{kind}: {count}" for kind, count in leading(lost, _KINDS_SHOWN).items())
    return (
        f"the reference {arm} completed none of {lost.total()} connections ({kinds}), "
        f"so there is nothing to compare with; {_likely_cause(lost, service)}?"
    )


def _no_packet(arm: Arm, runs: int, lost: Counter[str], service: ServerEndpoint) -> str:
    del service
    if runs != _MAX_FAILURES:
        return ""
    return (
        f"nothing arrived in {runs} runs of the reference {arm}, of which {lost.total()} were sent, so "
        "there is nothing to compare with; does a firewall on the path drop them?"
    )


def _no_query(arm: Arm, runs: int, lost: Counter[str], service: ServerEndpoint) -> str:
    del runs
    if lost.total() < _MAX_FAILURES:
        return ""
    kinds = ", ".join(f"{kind}: {count}" for kind, count in leading(lost, _KINDS_SHOWN).items())
    return (
        f"none of {lost.total()} queries of the reference {arm} was answered rightly ({kinds}), so there is nothing to "
        f"compare with; is the name server {service} well?"
    )


def _no_transfer(arm: Arm, runs: int, lost: Counter[str], service: ServerEndpoint) -> str:
    """Return nothing: a run in which no byte arrives is an error of its own."""
    del arm, runs, lost, service
    return ""


_CHECKS: Mapping[WorkloadKind, Callable[[Arm, int, Counter[str], ServerEndpoint], str]] = {
    CONNECTIONS: _no_connection,
    FLOWS: _no_packet,
    TRANSFERS: _no_transfer,
    QUERIES: _no_query,
}


def _likely_cause(lost: Collection[str], service: ServerEndpoint) -> str:
    """Return the likely cause by the kinds of failure, as a question without its question mark."""
    if all(kind.endswith(" unreachable") for kind in lost):
        return f"is there a way from the client to the server {service}"
    if all(kind.startswith(("dns ", f"{CONTENT}: dns: ")) for kind in lost):
        return "is the name server well"
    return f"is the server {service} well"
