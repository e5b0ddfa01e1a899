"""Metrics: one quantity, one file. Each offers `measure`."""

from pytest_ipperf.core.portable.registry import Shelf
from pytest_ipperf.metrics.base import Measure

METRICS: Shelf[Measure] = Shelf(__name__, list(__path__), "measure")
