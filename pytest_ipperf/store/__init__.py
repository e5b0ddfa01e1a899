"""The store: what is kept of every session, appended as it comes, and read back whole."""

from pytest_ipperf.store.journal import SCHEMA, Journal, run_folder
from pytest_ipperf.store.reading import KeptSession, KeptWorkload, last_session, read_session

__all__ = ["SCHEMA", "Journal", "KeptSession", "KeptWorkload", "last_session", "read_session", "run_folder"]
