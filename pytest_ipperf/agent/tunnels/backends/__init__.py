"""Tunnel backends: one file for each way to carry the end of a tunnel on a host. Each offers `backend`."""

from pytest_ipperf.agent.tunnels.backends.base import Backend
from pytest_ipperf.core.portable.registry import Registry

BACKENDS: Registry[Backend] = Registry(__name__, list(__path__), "backend")


def preferred() -> tuple[str, ...]:
    """In this order they are tried: what real hosts use first, then what comes closest to it."""
    return tuple(sorted(BACKENDS, key=lambda name: BACKENDS[name].rank))
