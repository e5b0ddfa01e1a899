"""Transports: one file for each way to carry IP. Each offers `transport`."""

from pytest_ipperf.core.portable.registry import Registry
from pytest_ipperf.transports.base import Transport

TRANSPORTS: Registry[Transport] = Registry(__name__, list(__path__), "transport")
