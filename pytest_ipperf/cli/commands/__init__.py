"""Orders: one order of the program, one file. Each offers `order`."""

from pytest_ipperf.cli.commands.base import Order
from pytest_ipperf.core.portable.registry import Shelf

ORDERS: Shelf[Order] = Shelf(__name__, list(__path__), "order")
