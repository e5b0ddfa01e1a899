"""Servers: one program, one file. Each offers `server`, a recipe that an agent carries out on its host."""

from pytest_ipperf.core.portable.registry import Registry
from pytest_ipperf.servers.base import Server

SERVERS: Registry[Server] = Registry(__name__, list(__path__), "server")
