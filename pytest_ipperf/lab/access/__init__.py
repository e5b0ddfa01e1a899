"""Registry of access methods; each file offers `access_method`."""

from pytest_ipperf.core.portable.registry import Registry
from pytest_ipperf.lab.access.base import AccessMethod

ACCESS_METHODS: Registry[AccessMethod] = Registry(__name__, list(__path__), "access_method")
