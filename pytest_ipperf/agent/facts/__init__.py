"""Facts of a host, collected before anything is measured on it. Each file offers `facts`, a function to plain data."""

from collections.abc import Callable

from pytest_ipperf.agent.facts.base import FactsRequest
from pytest_ipperf.core.portable.registry import Registry

FACTS: Registry[Callable[[FactsRequest], dict[str, object]]] = Registry(__name__, list(__path__), "facts")
