"""The orders of an agent, in parts. Each file offers `part`, a class whose public methods are orders."""

from pytest_ipperf.agent.rpc.handlers.base import Part
from pytest_ipperf.core.portable.registry import Registry

PARTS: Registry[type[Part]] = Registry(__name__, list(__path__), "part")
