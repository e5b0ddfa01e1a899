"""Release samples, plan and questions of a workload once the last of its items has run: a long session stays small.

An item that asks once more, as where a plugin runs the loop of tests again, gets them from the session's records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping
from typing import Any

import pytest

from pytest_ipperf.core.design.cell import Cell, Workload
from pytest_ipperf.core.design.plan import Plan
from pytest_ipperf.core.portable.errors import IpperfError
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.experiment import Measurement
from pytest_ipperf.plugin.collect.collection import cell_of
from pytest_ipperf.plugin.measure.stash import ANSWERS
from pytest_ipperf.plugin.session.rebuild import load_measurement
from pytest_ipperf.plugin.session.session import Session
from pytest_ipperf.store import read_session


class Release:
    """Plugin of each process that measures."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._left: dict[Workload, set[str]] = {}
        self._reports: list[Any] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note the items of each workload."""
        for item in session.items:
            if (cell := cell_of(item)) is not None:
                self._left.setdefault(cell.workload, set()).add(item.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a report with a record as text, which pytest keeps to the end of the session."""
        if hasattr(report, "ipperf_record"):
            self._reports.append(report)

    # Outermost, as reporters read the measurement until the item's last report, and reruns are made within.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Release the text of the item's record, and a workload's measurement after the last of its items."""
        result = yield
        for report in self._reports:
            vars(report).pop("ipperf_record", None)  # another plugin may report it twice
        self._reports.clear()
        if (cell := cell_of(item)) is not None:
            if ANSWERS in item.stash:  # the record is in the reports by now
                del item.stash[ANSWERS]
            left = self._left.get(cell.workload, set())
            left.discard(item.nodeid)
            if not left:
                self._left.pop(cell.workload, None)
                self._release(cell.workload)
        return result

    def _release(self, workload: Workload) -> None:
        session, found = self._session, self._session.results.get(workload)
        # An arm with trouble has its error here, and fresh epochs refer to the first ones; both are few.
        if found is None or isinstance(found, IpperfError) or found.trouble or session.fresh_epochs.get(workload):
            return
        session.release(workload)


class PlanRelease:
    """Plugin of the controller of xdist that releases plan and questions of a workload after its last item."""

    def __init__(self, session: Session, cells: Mapping[str, Cell]) -> None:
        self._session = session
        self._workloads = {nodeid: cell.workload for nodeid, cell in cells.items()}
        self._left = Counter(self._workloads.values())

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Count the items that have ended; those in which a worker dies do not."""
        workload = self._workloads.pop(str(nodeid), None)
        if workload is None:
            return
        self._left[workload] -= 1
        if not self._left[workload]:
            del self._left[workload]
            self._session.release(workload)


def reload(session: Session, plan: Plan, state: ServerState, deadline_s: float) -> Measurement:
    """Return a released measurement, from this session's records; UsageError or DamageError if they were changed."""
    return load_measurement(read_session(session.folder).workloads[plan.name], plan, state, deadline_s)
