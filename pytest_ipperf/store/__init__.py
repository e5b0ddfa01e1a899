"""The store: what is kept of every session, appended as it comes, read back whole, and found again by an index."""

from pytest_ipperf.store.acceptances import accept, acceptances, withdraw
from pytest_ipperf.store.archive import FRESH, LAST, Archive
from pytest_ipperf.store.index import Entry
from pytest_ipperf.store.journal import Journal, is_being_written, run_folder
from pytest_ipperf.store.migration import SCHEMA
from pytest_ipperf.store.nights import (
    LOST,
    VERDICT,
    Night,
    check_verdict_is_there,
    read_night,
    read_verdict,
    sealed_verdict,
)
from pytest_ipperf.store.reading import KeptSession, KeptWorkload, read_session, records_in
from pytest_ipperf.store.story import read_story
from pytest_ipperf.store.whole import write_whole

__all__ = [
    "FRESH",
    "LAST",
    "LOST",
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
    "check_verdict_is_there",
    "is_being_written",
    "read_night",
    "read_session",
    "read_story",
    "read_verdict",
    "records_in",
    "run_folder",
    "sealed_verdict",
    "withdraw",
    "write_whole",
]
