"""Protocols: one workload kind, one file. Each offers `protocol`, whose name is a pytest marker too."""

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.registry import Registry
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
    return [name for name in PROTOCOLS if isinstance(PROTOCOLS[name], Application)]


def flow(name: str) -> Flow | None:
    """Return the protocol of that name if it is a flow, whose traffic the agents make themselves, else None."""
    found = PROTOCOLS[name]
    return found if isinstance(found, Flow) else None
