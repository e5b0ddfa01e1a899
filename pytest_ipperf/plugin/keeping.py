"""Keeping: the journal of the session, and the answers that go into it beside the runs."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from pytest_ipperf import __version__
from pytest_ipperf.core.errors import LabError
from pytest_ipperf.core.record import Record
from pytest_ipperf.plugin.session import Session
from pytest_ipperf.store import SCHEMA, Journal

_JOURNAL = pytest.StashKey[Journal]()


def journal_of(session: Session) -> Journal:
    """The journal of this process, opened at the first call and closed with the session."""
    stash = session.config.stash
    if _JOURNAL not in stash:
        stash[_JOURNAL] = Journal(session.folder, session.writer)
        session.config.add_cleanup(stash[_JOURNAL].close)
        stash[_JOURNAL].append("session", _facts(session))
    return stash[_JOURNAL]


def _facts(session: Session) -> dict[str, Any]:
    settings = session.settings
    return {
        "schema": SCHEMA,
        "seed": settings.seed,
        "design": settings.design,
        "reference": str(settings.reference),
        "server": settings.server,
        "client": settings.client,
        "deadline_s": settings.deadline_s,
        "arguments": list(session.config.invocation_params.args),
        "pytest": pytest.__version__,
        "pytest_ipperf": __version__,
    }


class Keeper:
    """Writes every answer down, in the main process also under xdist, and every cell that got none.

    `trouble` is the sentence about an answer that could not be written; the summary tells it.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self.trouble = ""

    def pytest_ipperf_measured(self, record: Record) -> None:
        """An answer, with its question."""
        self._keep("record", dataclasses.asdict(record))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A cell that was not measured, as the budget was spent."""
        if report.when == "setup" and (sentence := getattr(report, "ipperf_inconclusive", "")):
            self._keep("undecided", {"nodeid": report.nodeid, "sentence": sentence})

    def _keep(self, event: str, facts: dict[str, Any]) -> None:
        try:
            journal_of(self._session).append(event, facts)
        except LabError as error:
            self.trouble = str(error)


KEEPER = pytest.StashKey[Keeper]()
