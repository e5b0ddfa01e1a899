"""Check the hosts of a testbed and the paths between them before anything is measured on them."""

from pytest_ipperf.lab.doctor.checks.base import Finding, Grade
from pytest_ipperf.lab.doctor.examination import examine

__all__ = ["Finding", "Grade", "examine"]
