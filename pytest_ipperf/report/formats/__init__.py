"""Registry of formats: one format in which a session and its night are written, one file. Each offers `report`."""

from pytest_ipperf.core.portable.registry import Registry
from pytest_ipperf.report.formats.base import Report

FORMATS: Registry[Report] = Registry(__name__, list(__path__), "report")
