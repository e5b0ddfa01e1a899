"""Flows: the tables of what agents make themselves, TCP and UDP streams and probes, and their figures as a file."""

from pytest_ipperf.report.flow.figures import figures
from pytest_ipperf.report.flow.table import tables

__all__ = ["figures", "tables"]
