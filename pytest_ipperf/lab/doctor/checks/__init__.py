"""Registry of the doctor's checks, one file each; each offers `check`."""

from pytest_ipperf.core.portable.registry import Registry
from pytest_ipperf.lab.doctor.checks.base import Check

CHECKS: Registry[Check] = Registry(__name__, list(__path__), "check")
