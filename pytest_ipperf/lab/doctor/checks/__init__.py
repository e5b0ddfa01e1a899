"""What a doctor looks at, one check a file. Each offers `check`."""

from pytest_ipperf.core.portable.registry import Shelf
from pytest_ipperf.lab.doctor.checks.base import Check

CHECKS: Shelf[Check] = Shelf(__name__, list(__path__), "check")
