"""An Allure result for the session as a whole, which is broken until every item has an answer.

It is written when the first item begins and removed at the end of a complete session, so that the results of a killed
session do not look like those of a smaller, successful one.
"""

from __future__ import annotations

import dataclasses
import json
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from pytest_ipperf.core.records.completeness import Completeness, SessionState
from pytest_ipperf.plugin.session.journal import SESSION_WRITER
from pytest_ipperf.plugin.session.session_end import SESSION_END
from pytest_ipperf.plugin.session.stash import SESSION

TITLE = "The session as a whole"
_KILLED = "if nothing is running any more it was killed, and --ipperf-resume=last continues it"
_NAMED = 200
"""Number of items without an answer that are named; the others are counted."""


class SessionResult:
    """Plugin of the main process that writes the session's result."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._uuid = str(uuid.uuid4())
        self._began_s: float | None = None

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Write the result before the first item that measures."""
        if self._began_s is None and nodeid in self._config.stash[SESSION].items:
            self._began_s = time.time()
            self._write(self._running())

    @pytest.hookimpl(trylast=True)
    def pytest_ipperf_measured(self) -> None:
        """Update the result."""
        if self._began_s is not None:
            self._write(self._running())

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Remove the result of a complete session; otherwise write how far the session came."""
        if self._began_s is None:
            return
        found = self._config.stash[SESSION_WRITER].completeness
        if found.is_whole:
            self._path.unlink(missing_ok=True)
        else:
            self._write(found)

    def _running(self) -> Completeness:
        return dataclasses.replace(
            self._config.stash[SESSION_WRITER].completeness, state=SessionState.RUNNING, resume=""
        )

    @property
    def _path(self) -> Path:
        folder: Path = self._config.invocation_params.dir / self._config.getoption("allure_report_dir")
        return folder / f"{self._uuid}-result.json"

    def _write(self, found: Completeness) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            part = self._path.with_suffix(".part")
            part.write_text(json.dumps(self._result(found)), encoding="utf-8")
            part.replace(self._path)
        except OSError as error:
            trouble = f"allure: {self._path.parent} cannot be written ({error.strerror})"
            troubles = self._config.stash[SESSION_END].troubles
            troubles += [trouble] * (trouble not in troubles)

    def _result(self, found: Completeness) -> dict[str, Any]:
        """Return the result in the format of Allure 2 and 3."""
        running = found.state is SessionState.RUNNING
        names = [f"- {nodeid}" for nodeid, _ in found.missing[:_NAMED]]
        more = [f"- and {len(found.missing) - _NAMED} more"] * (len(found.missing) > _NAMED)
        return {
            "uuid": self._uuid,
            "historyId": "ipperf-session",
            "testCaseId": "ipperf-session",
            "fullName": "ipperf.session",
            "name": TITLE,
            "status": "broken",
            "statusDetails": {"message": f"{found.banner}; {_KILLED}" if running else found.banner},
            "description": "\n".join(["Without an answer:", "", *names, *more]),
            "stage": "finished",
            "start": round(1000 * (self._began_s or time.time())),
            "stop": round(1000 * time.time()),
            "labels": [{"name": "epic", "value": "Session"}],
        }
