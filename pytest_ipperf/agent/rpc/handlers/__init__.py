"""RPC handlers of an agent. Each file offers `handlers`, a class whose public methods are RPC methods."""

from pytest_ipperf.agent.rpc.handlers.base import Handlers
from pytest_ipperf.core.portable.registry import Registry

HANDLERS: Registry[type[Handlers]] = Registry(__name__, list(__path__), "handlers")
