"""What a doctor looks at, one check a file. Each offers `check`."""

from pytest_ipperf.core.portable.registry import Registry
from pytest_ipperf.lab.doctor.checks.base import Check

CHECKS: Registry[Check] = Registry(__name__, list(__path__), "check")
