"""The store: records of every session, appended as they come, read back whole, and found again by an index."""

from pytest_ipperf.store.archive import FRESH, LAST, Archive, resume_value
from pytest_ipperf.store.atomic_files import opened_atomically, write_atomically
from pytest_ipperf.store.history.acceptances import accept, acceptances, withdraw
from pytest_ipperf.store.history.nights import (
    LOST,
    VERDICT,
    StoredNight,
    check_verdict_is_there,
    read_night,
    read_verdict,
    verdict_with_checksum,
)
from pytest_ipperf.store.index.index import SessionEntry
from pytest_ipperf.store.log.event_log import EventLog, is_being_written, run_folder
from pytest_ipperf.store.log.migration import SCHEMA
from pytest_ipperf.store.session_reader import (
    StoredSession,
    StoredWorkload,
    event_logs_in,
    read_session,
    records_in,
    times_in,
)
from pytest_ipperf.store.session_summary import read_session_summary

__all__ = [
    "FRESH",
    "LAST",
    "LOST",
    "SCHEMA",
    "VERDICT",
    "Archive",
    "EventLog",
    "SessionEntry",
    "StoredNight",
    "StoredSession",
    "StoredWorkload",
    "accept",
    "acceptances",
    "check_verdict_is_there",
    "event_logs_in",
    "is_being_written",
    "opened_atomically",
    "read_night",
    "read_session",
    "read_session_summary",
    "read_verdict",
    "records_in",
    "resume_value",
    "run_folder",
    "times_in",
    "verdict_with_checksum",
    "withdraw",
    "write_atomically",
]
