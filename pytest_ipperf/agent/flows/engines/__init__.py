"""Traffic engines: one file for each way to generate traffic between two hosts. Each offers `engine`."""

from pytest_ipperf.agent.flows.engines.base import Engine
from pytest_ipperf.core.portable.registry import Shelf

ENGINES: Shelf[Engine] = Shelf(__name__, list(__path__), "engine")
