"""Protocols: one workload kind, one file. Each offers `protocol`, whose name is a pytest marker too."""

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.registry import Registry
from pytest_ipperf.core.portable.workload_kind import CONNECTIONS, WorkloadKind
from pytest_ipperf.protocols.base import Application, Flow, Protocol

PROTOCOLS: Registry[Protocol] = Registry(__name__, list(__path__), "protocol")


def application(name: str) -> Application:
    """Return the application protocol of that name; raise UsageError if it is another kind of workload."""
    found = PROTOCOLS[name]
    if not isinstance(found, Application):
        raise UsageError(f"{name} has no conversations with a server")
    return found


def applications() -> list[str]:
    """Return the names of all application protocols."""
    return of_kind(CONNECTIONS)


def of_kind(kind: WorkloadKind) -> list[str]:
    """Return the names of all protocols of that kind."""
    return [name for name in PROTOCOLS if PROTOCOLS[name].kind == kind]


def server_protocol(name: str) -> str:
    """Return the protocol of the servers that a workload of that protocol needs; empty for flows between agents."""
    found = PROTOCOLS[name]
    return found.server_protocol if isinstance(found, Flow) else name


def flow(name: str) -> Flow:
    """Return the flow of that name; raise UsageError if it is another kind of workload."""
    found = PROTOCOLS[name]
    if not isinstance(found, Flow):
        raise UsageError(f"{name} is no flow between agents")
    return found
