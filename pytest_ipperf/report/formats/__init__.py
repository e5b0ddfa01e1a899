"""Formats: what a session and its night are written as, one format, one file. Each offers `report`."""

from pytest_ipperf.core.portable.registry import Registry
from pytest_ipperf.report.formats.base import Report

FORMATS: Registry[Report] = Registry(__name__, list(__path__), "report")
