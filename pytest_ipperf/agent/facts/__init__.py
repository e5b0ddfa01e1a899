"""Facts of a host, collected before anything is measured on it. Each file offers `facts`, a class of facts."""

from pytest_ipperf.agent.facts.base import Facts
from pytest_ipperf.core.portable.registry import Registry

FACTS: Registry[type[Facts]] = Registry(__name__, list(__path__), "facts")
