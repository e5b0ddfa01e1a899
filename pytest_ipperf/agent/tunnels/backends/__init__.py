"""Tunnel backends: one file for each way to make a tunnel endpoint on a host. Each offers `backend`."""

from pytest_ipperf.agent.tunnels.backends.base import Backend
from pytest_ipperf.core.portable.registry import Registry

BACKENDS: Registry[Backend] = Registry(__name__, list(__path__), "backend")


def preferred() -> tuple[str, ...]:
    """Return the backends in the order in which they are tried: those closest to real hosts first."""
    return tuple(sorted(BACKENDS, key=lambda name: BACKENDS[name].rank))
