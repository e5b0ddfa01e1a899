"""Protocols: one workload kind, one file. Each offers `protocol`; its name is a pytest marker too."""

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.registry import Registry
from pytest_ipperf.protocols.base import Application, Flow, Protocol

PROTOCOLS: Registry[Protocol] = Registry(__name__, list(__path__), "protocol")


def application(name: str) -> Application:
    """The application protocol of that name; UsageError where it is another kind of workload."""
    found = PROTOCOLS[name]
    if not isinstance(found, Application):
        raise UsageError(f"{name} has no conversations with a server")
    return found


def applications() -> list[str]:
    """The names of all application protocols."""
    return [name for name in PROTOCOLS if isinstance(PROTOCOLS[name], Application)]


def flow(name: str) -> Flow | None:
    """The protocol of that name where agents make its traffic themselves, else None."""
    found = PROTOCOLS[name]
    return found if isinstance(found, Flow) else None
