"""Ways in: one way to reach a host, one file. Each offers `way`."""

from pytest_ipperf.core.portable.registry import Shelf
from pytest_ipperf.lab.access.base import Way

WAYS: Shelf[Way] = Shelf(__name__, list(__path__), "way")
