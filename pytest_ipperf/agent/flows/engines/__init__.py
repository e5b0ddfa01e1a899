"""Traffic engines: one file for each way to generate traffic between two hosts. Each offers `engine`."""

from pytest_ipperf.agent.flows.engines.base import Engine
from pytest_ipperf.core.portable.registry import Registry

ENGINES: Registry[Engine] = Registry(__name__, list(__path__), "engine")
