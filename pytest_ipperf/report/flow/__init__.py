"""Report flows (TCP and UDP streams, probes): their tables, and their figures as a file."""

from pytest_ipperf.report.flow.csv_rows import figures
from pytest_ipperf.report.flow.tables import tables

__all__ = ["figures", "tables"]
