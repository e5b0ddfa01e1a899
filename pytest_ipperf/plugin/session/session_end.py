"""Write the reports at the end of a session: tables, page, and the comparison with the baseline."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from pytest_ipperf.core.measurement.time_ledger import TimeLedger
from pytest_ipperf.core.portable.errors import IpperfError
from pytest_ipperf.core.records.record import strictest
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.plugin.session.journal import SESSION_WRITER, journal_of
from pytest_ipperf.plugin.session.session import Session
from pytest_ipperf.store import Archive, SessionEntry, read_session_summary, records_in, resume_value, times_in
from pytest_ipperf.store.kept_records import KeptRecords

PAGE = "report.html"


class SessionEnd:
    """Plugin of the main process that writes tables and page at the end of the session, after all records.

    `troubles` are the messages about files that could not be written, `changes` the lines about the baseline, and
    `ledger` is where the session's seconds went.
    """

    def __init__(self, session: Session, kept: KeptRecords) -> None:
        self._session = session
        self._kept = kept
        self.troubles: list[str] = []
        self.changes: list[str] = []
        self.ledger = TimeLedger()

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the outcome, tables and page and compare with the baseline, after the journal's last event."""
        self._session.first_looks_s.compact()
        if self._session.settings.outcome is not None:
            self._attempt(
                "--ipperf-outcome",
                partial(self._write_outcome, self._session.settings.outcome, int(session.exitstatus)),
            )
        if not self._session.folder.exists():
            return
        began = time.monotonic()
        if self._kept:
            self._attempt("tables", self._tables)
        self._kept.release()  # the page reads them from the journal, as it is written later too
        self._attempt(PAGE, self._page)
        if self._session.settings.baseline:
            self._attempt("--baseline", self._compare)
        self._attempt("the ledger of time", partial(self._account, began))

    def _attempt(self, name: str, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            self.troubles.append(
                f"{name}: {error.filename or self._session.folder} cannot be written ({error.strerror})"
            )
        except IpperfError as error:
            self.troubles.append(f"{name}: {error}")
        except Exception as error:  # noqa: BLE001 - a defect of a report must not cost the measurement
            self.troubles.append(f"{name}: {type(error).__name__}: {error}; the records are complete")

    def _account(self, began: float) -> None:
        """Add the reports, which began then, and the rest of the session to the ledger of what was measured."""
        measured = TimeLedger.total_of(seconds for _, seconds in times_in(self._session.folder))
        reports_s = time.monotonic() - began
        # The workers of xdist measure side by side.
        rest_s = max(0.0, self._session.config.stash[SESSION_WRITER].seconds - measured.wall_s - reports_s)
        own = {"reports": reports_s, "rest": rest_s}
        journal_of(self._session).append("time", {"seconds": own})
        self.ledger = TimeLedger.total_of((measured.seconds, own))

    def _write_outcome(self, path: Path, status: int) -> None:
        """Write how the session ended, for the program that started it."""
        session = self._session
        facts = {
            "status": status, "records": str(session.settings.records), "left_out": session.left_out_lines,
            "session": str(session.folder) if session.folder.exists() else None,
            "trouble": session.config.stash[SESSION_WRITER].trouble, "allure": self._allure_folder(),
        }  # fmt: skip
        path.write_text(json.dumps(facts), encoding="utf-8")

    def _allure_folder(self) -> str | None:
        """Return the folder of the results for Allure; None if there are none."""
        folder = self._session.config.getoption("allure_report_dir", None)
        return str(self._session.config.invocation_params.dir / folder) if folder else None

    def _tables(self) -> None:
        from pytest_ipperf.report.table_files import write_tables  # noqa: PLC0415 - imports scipy

        write_tables(self._kept.read(), self._session.folder / "tables", datetime.now(UTC))

    def _page(self) -> None:
        """Write the page, with the history of every cell if the session is saved under a name."""
        from pytest_ipperf.report.page import write  # noqa: PLC0415 - imports matplotlib

        resume = resume_value(self._session.folder, self._session.settings.saved)
        summary = read_session_summary(self._session.folder, resume=resume, running=False)
        if not summary.records and not summary.troubles and summary.completeness.is_whole:
            return
        if saved := self._session.settings.saved:
            with self._archive() as archive:
                histories = archive.histories(summary.name, saved=saved)
            summary = dataclasses.replace(summary, histories=histories)
        write(summary, self._session.folder / PAGE)

    def _compare(self) -> None:
        from pytest_ipperf.core.records.comparison import comparison  # noqa: PLC0415 - imports scipy
        from pytest_ipperf.report.terminal.comparison import lines  # noqa: PLC0415 - imports scipy

        then = self._session.baseline
        now = strictest(self._kept.read(), self._session.folder.name)
        if isinstance(then, SessionEntry):
            with self._archive() as archive:
                past = archive.history_entries(then)
        elif then is None:
            self.changes = [f"baseline {self._session.settings.baseline}: there is no earlier session of that name"]
            return
        else:
            past = strictest(records_in(then), then.name)
        self.changes = lines(comparison(now, past, lambda name: METRICS[name].metric), then.name, "this session")

    @contextlib.contextmanager
    def _archive(self) -> Iterator[Archive]:
        with contextlib.closing(Archive(self._session.settings.records)) as archive:
            yield archive


SESSION_END = pytest.StashKey[SessionEnd]()
