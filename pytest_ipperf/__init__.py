"""Distributed network measurements as pytest tests: IPv4 against IPv6, native or tunnelled."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pytest_ipperf.data import load as load

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Import what the package offers to scripts, which neither hosts nor sessions of pytest need."""
    if name != "load":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pytest_ipperf.data import load  # noqa: PLC0415 - see above

    return load
