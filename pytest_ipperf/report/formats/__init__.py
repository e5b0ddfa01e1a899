"""Registry of formats for sessions and nights: one file for each, which offers `report`."""

from pytest_ipperf.core.portable.registry import Registry
from pytest_ipperf.report.formats.base import Report

FORMATS: Registry[Report] = Registry(__name__, list(__path__), "report")
