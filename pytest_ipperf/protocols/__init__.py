"""Protocols: one workload kind, one file. Each offers `protocol`; its name is a pytest marker too."""

from pytest_ipperf.core.shelf import Shelf
from pytest_ipperf.protocols.base import Protocol

PROTOCOLS: Shelf[Protocol] = Shelf(__name__, list(__path__), "protocol")
