"""The store: what is kept of every session, appended as it comes."""

from pytest_ipperf.store.journal import Journal, run_folder

__all__ = ["Journal", "run_folder"]
