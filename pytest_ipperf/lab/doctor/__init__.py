"""Examining: a testbed is gone through before anything is measured on it, and a doctor says what he has found."""

from pytest_ipperf.lab.doctor.checks.base import Finding, Grade
from pytest_ipperf.lab.doctor.examination import examined

__all__ = ["Finding", "Grade", "examined"]
