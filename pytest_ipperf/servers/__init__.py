"""Servers: one program, one file. Each offers `server`, a recipe that an agent carries out on its host."""

from pytest_ipperf.core.portable.registry import Shelf
from pytest_ipperf.servers.base import Server

SERVERS: Shelf[Server] = Shelf(__name__, list(__path__), "server")
