"""The store: what is kept of every session, appended as it comes, read back whole, and found again by an index."""

from pytest_ipperf.store.acceptances import accept, acceptances, withdraw
from pytest_ipperf.store.archive import FRESH, LAST, Archive, records_in
from pytest_ipperf.store.index import Entry
from pytest_ipperf.store.journal import Journal, is_being_written, run_folder
from pytest_ipperf.store.migration import SCHEMA
from pytest_ipperf.store.nights import VERDICT, Night
from pytest_ipperf.store.reading import KeptSession, KeptWorkload, read_session
from pytest_ipperf.store.story import read_story

__all__ = [
    "FRESH",
    "LAST",
    "SCHEMA",
    "VERDICT",
    "Archive",
    "Entry",
    "Journal",
    "KeptSession",
    "KeptWorkload",
    "Night",
    "accept",
    "acceptances",
    "is_being_written",
    "read_session",
    "read_story",
    "records_in",
    "run_folder",
    "withdraw",
]
