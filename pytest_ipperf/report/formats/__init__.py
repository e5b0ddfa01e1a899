"""Formats: what a session and its night are written as, one format, one file. Each offers `report`."""

from pytest_ipperf.core.portable.registry import Shelf
from pytest_ipperf.report.formats.base import Report

FORMATS: Shelf[Report] = Shelf(__name__, list(__path__), "report")
