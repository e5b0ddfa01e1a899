"""Metrics: one quantity, one file. Each offers `measure`."""

from pytest_ipperf.core.portable.registry import Registry
from pytest_ipperf.metrics.base import Measure

METRICS: Registry[Measure] = Registry(__name__, list(__path__), "measure")
