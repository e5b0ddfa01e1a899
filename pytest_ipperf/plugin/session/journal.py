"""Write the journal of a session: its measurements, every answer, and its end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_ipperf import __version__
from pytest_ipperf.core.design.cell import Workload
from pytest_ipperf.core.nightly.session_summary import SessionSummary, Trouble
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.core.records.completeness import Completeness, SessionState, completeness_of
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.plugin.session.commit import commit_facts
from pytest_ipperf.plugin.session.plan_text import model_digests, question_texts
from pytest_ipperf.plugin.session.session import Session
from pytest_ipperf.store import SCHEMA, EventLog, resume_value

if TYPE_CHECKING:
    from pytest_ipperf.experiment import Measurement

_JOURNAL = pytest.StashKey[EventLog]()


def journal_of(session: Session) -> EventLog:
    """Return the journal of this process, opened at the first call and closed with the session."""
    stash = session.config.stash
    if _JOURNAL not in stash:
        stash[_JOURNAL] = EventLog(session.folder, session.writer)
        session.config.add_cleanup(stash[_JOURNAL].close)
        stash[_JOURNAL].append("session", _session_facts(session))
        # A reader of a session that was broken off needs the list of its items.
        stash[_JOURNAL].append("plan", {"items": session.items})
        # All at once: a later session that resumes this one, if it is broken off, needs every reused workload.
        for workload, folder in session.resumed.reused_folders() if session.resumed else ():
            log_taken(session, str(workload), folder)
        for workload, folder in session.resumed.begun_folders() if session.resumed else ():
            stash[_JOURNAL].append("begun", {"workload": str(workload), "session": folder.name, "folder": str(folder)})
    return stash[_JOURNAL]


def _session_facts(session: Session) -> dict[str, Any]:
    settings = session.settings
    return {
        "schema": SCHEMA,
        "seed": settings.seed,
        "design": settings.design,
        "reference": str(settings.reference),
        "server": settings.server,
        "backend": settings.backend,
        "client": settings.client,
        "rate_per_s": settings.rate_per_s,
        "workers": settings.workers,
        "deadline_s": settings.deadline_s,
        "reboot": settings.reboot,
        "confirm": session.confirms,
        "saved": settings.saved,
        "arguments": list(session.config.invocation_params.args),
        "pytest": pytest.__version__,
        "pytest_ipperf": __version__,
        **commit_facts(session.config.rootpath),
    }


def log_not_resumed(session: Session, workload: Workload) -> None:
    """Log why a workload is measured anew, as another process of the session may have logged that it is reused."""
    if session.resumed and (why := session.resumed.not_reused.get(workload)):
        journal_of(session).append("anew", {"workload": str(workload), "why": why})


def log_taken(session: Session, name: str, folder: Path) -> None:
    """Log that what is kept under `name` is reused from the session in `folder`."""
    journal_of(session).append("taken", {"workload": name, "session": folder.name, "folder": str(folder)})


def begun_facts(session: Session, workload: Workload, state: ServerState) -> dict[str, Any]:
    """Return what a later session has to know to go on with a workload that breaks off."""
    return {
        "testbed": session.settings.inventory[workload.testbed],
        "state": state.digest_without_password,
        "models": model_digests(session.plan_of(workload), session.settings.models),
        "asked": question_texts(session.questions_of(workload)),
    }


def log_complete(session: Session, measurement: Measurement, state: ServerState) -> None:
    """Log that a workload is complete, with the facts that its runs do not contain, and sync the journal to disk."""
    workload = measurement.plan.workload
    facts = {
        "workload": measurement.plan.name,
        **begun_facts(session, workload, state),
        "service": measurement.service,
        "network": measurement.network,
        "looks": {str(arm): looks for arm, looks in measurement.looks.items()},
        "answered": [str(arm) for arm in measurement.answered],
        "trouble": {str(arm): str(error) for arm, error in measurement.trouble.items()},
        "stopped": measurement.stopped,
        "seconds": measurement.seconds,
    }
    journal = journal_of(session)
    journal.append("complete", facts)
    journal.sync()


class SessionWriter:
    """Plugin of the main process that writes the journal: every answer, every cell without one, and the end.

    `trouble` is the message about an answer that could not be written, which the summary shows. `unanswered` are the
    items without an answer so far.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._began = time.monotonic()
        # By node id: the cell that has a record, empty if the item is done without one, None if it is not done. It has
        # all items from the first that is done, so that the table is not larger at the end of a long session.
        self._done: dict[str, str | None] = {}
        self._unwritten: set[str] = set()
        self.trouble = ""
        self.unanswered: list[Trouble] = []

    @property
    def seconds(self) -> float:
        """Seconds since the session began."""
        return time.monotonic() - self._began

    @property
    def completeness(self) -> Completeness:
        """Completeness of the session, which is whole once each of its items is done and kept."""
        missing = self._missing()
        state = SessionState.BROKEN_OFF if missing or self.trouble else SessionState.WHOLE
        folder, saved = self._session.folder, self._session.settings.saved
        resume = resume_value(folder, saved) if folder.exists() else ""
        measured = filter(None, self._done.values())
        return completeness_of(self._session.items, frozenset(measured), missing, state=state, resume=resume)

    def summary(self, records: Sequence[Record]) -> SessionSummary:
        """Return the session so far, with these records, from memory: its files may be unwritable."""
        return SessionSummary(
            name=self._session.folder.name,
            folder=self._session.folder,
            began_at=time.time(),
            seconds=None,
            question={},
            records=tuple(records),
            troubles=tuple(self.unanswered),
            completeness=self.completeness,
        )

    def _missing(self) -> list[str]:
        """Return the node ids that are not done, and those whose answer could not be kept."""
        return [each for each in self._session.items if self._done.get(each) is None or each in self._unwritten]

    def _note_done(self, nodeid: str, cell: str = "") -> None:
        """Note that an item is done, and the cell that has a record."""
        self._done = self._done or dict.fromkeys(self._session.items)
        self._done[nodeid] = cell or self._done.get(nodeid) or ""

    def pytest_ipperf_measured(self, record: Record) -> None:
        """Write the record of a cell."""
        if self._append("record", record.to_plain(), record.nodeid):
            self._note_done(record.nodeid, self._session.items.get(record.nodeid, record.cell))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write why a cell has no answer, such as a spent budget or an error, and note the items that are done."""
        if report.when == "setup" and (sentence := getattr(report, "ipperf_inconclusive", "")):
            self._append("undecided", {"nodeid": report.nodeid, "sentence": sentence}, report.nodeid)
            self.unanswered.append(Trouble(nodeid=report.nodeid, kind="inconclusive", sentence=sentence))
        # For an item in which a worker died, xdist reports a failure in phase "???".
        kind = "infrastructure" if str(report.when) == "???" else getattr(report, "ipperf_trouble", "")
        if kind:
            text = _failure_text(report)
            self._append("trouble", {"nodeid": report.nodeid, "kind": kind, "sentence": text}, report.nodeid)
            self.unanswered.append(Trouble(nodeid=report.nodeid, kind=kind, sentence=text))
        if report.when == "teardown":  # also reported for skipped items
            self._note_done(report.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write the end of the session."""
        del exitstatus  # another hook may have changed it since
        if self._session.folder.exists():
            end = {"status": int(session.exitstatus), "seconds": round(self.seconds, 3), "missing": self._missing()}
            self._append("end", {**end, "files": self._files()})

    def _files(self) -> dict[str, int]:
        """Return the sizes of the workers' journals and of all samples, by which readers check their completeness."""
        try:
            return journal_of(self._session).sizes()
        except LabError as error:
            self.trouble = str(error)
            return {}

    def _append(self, event: str, facts: dict[str, Any], nodeid: str = "") -> bool:
        """Append an event, the answer to the item `nodeid` if given; return False if it could not be written."""
        self._note_done(nodeid)
        try:
            journal_of(self._session).append(event, facts)
        except LabError as error:
            self.trouble = str(error)
            self._unwritten.add(nodeid)
            return False
        return True


def _failure_text(report: pytest.TestReport) -> str:
    """Return the error of a report without the test's source lines."""
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash else report.longrepr).strip()


SESSION_WRITER = pytest.StashKey[SessionWriter]()
