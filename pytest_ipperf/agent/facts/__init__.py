"""Facts of a host, collected before anything is measured on it. Each file offers `facts`, a function to plain data."""

from collections.abc import Callable, Mapping
from typing import Any

from pytest_ipperf.core.portable.registry import Registry

FACTS: Registry[Callable[[Mapping[str, Any]], dict[str, Any]]] = Registry(__name__, list(__path__), "facts")
