"""Ways in: one way to reach a host, one file. Each offers `way`."""

from pytest_ipperf.core.portable.registry import Registry
from pytest_ipperf.lab.access.base import Way

WAYS: Registry[Way] = Registry(__name__, list(__path__), "way")
