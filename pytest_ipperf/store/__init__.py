"""The store: what is kept of every session, appended as it comes."""

from pytest_ipperf.store.journal import SCHEMA, Journal, run_folder

__all__ = ["SCHEMA", "Journal", "run_folder"]
