"""Complete the result of each measurement before allure-pytest writes it."""

from __future__ import annotations

import dataclasses
import json
import math
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import allure_commons
import pytest
from allure_commons.model2 import ATTACHMENT_PATTERN, Attachment, Label, Parameter, StatusDetails

from pytest_ipperf.core.design.cell import Cell
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.experiment import Measurement
from pytest_ipperf.plugin.allure.metrics import metrics_json
from pytest_ipperf.plugin.allure.statuses import Classification, classify, crash_text, pending
from pytest_ipperf.plugin.collect.collection import cell_of
from pytest_ipperf.plugin.collect.questions import metric_of
from pytest_ipperf.plugin.session.session import Session
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.report.allure_result import VALUES, Category, result_id
from pytest_ipperf.store import FRESH

_PCAP = "application/vnd.tcpdump.pcap"
_PARAMETERS = {
    *("testbed", "protocol", "connections", "payload", "factors", "ipver", "transport", "twin"),
    *("compared_with", "compared_level"),
}
"""Fixtures that are merely parameters of the test, which the result lists as such."""
_TEARDOWNS = {f"{name}::<lambda>" for name in (*_PARAMETERS, "measured", "margin", "server_state")}
"""Steps of the tear-down that allure-pytest lists for them."""


class Results:
    """Hooks of pytest, which follow the current item, and of allure-pytest, called before a result is written.

    They run in the process that runs the items, so also in xdist's workers.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._item: pytest.Item | None = None
        self._reports: dict[str, pytest.TestReport] = {}
        self._ours: set[str] = set()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        """Forget the last item."""
        self._item, self._reports = None, {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Note an item that measures; the hooks of allure-pytest do not name it."""
        self._item = item if cell_of(item) is not None else None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the report of each phase of the item."""
        if self._item is not None and report.nodeid == self._item.nodeid:
            self._reports[report.when] = report

    @allure_commons.hookimpl(tryfirst=True)
    def report_result(self, result: Any) -> None:
        """Complete the result of the item before it is written."""
        if self._item is None or not self._reports:
            return
        self._ours.add(result.uuid)
        finish(result, self._session, self._item, self._reports)

    @allure_commons.hookimpl(tryfirst=True)
    def report_container(self, container: Any) -> None:
        """Remove parameters, and tear-down steps without content, before a container of our results is written."""
        if self._item is not None or self._ours & set(container.children):
            container.befores = [each for each in container.befores if each.name not in _PARAMETERS]
        # pytest ends parameters and the plugin's own fixtures by nameless functions, which tell a reader nothing.
        container.afters = [each for each in container.afters if each.name not in _TEARDOWNS]


def finish(result: Any, session: Session, item: pytest.Item, reports: Mapping[str, pytest.TestReport]) -> None:
    """Complete a result of allure-pytest with the name, status, times, description and files of a measurement."""
    cell = cell_of(item)
    if cell is None:
        return
    text = getattr(reports.get("call"), "ipperf_record", "")
    record = Record.from_json(text) if text else None
    _name(result, session, item, cell)
    outcome = classify(reports, record)
    # pytest judges each cell of a night's second session alone; the end of the night writes its own decision.
    if record is not None and session.settings.saved.endswith(FRESH) and (waiting := pending(reports, outcome)):
        outcome, record = waiting, dataclasses.replace(record, verdict=Category.FLAGGED.word)
    if outcome is not None:
        _set_status(result, outcome, reports)
    # allure-pytest restarts the clock at the call, but the time is spent in the set-up, which measures.
    result.start = round(1000 * min(report.start for report in reports.values()))
    result.stop = round(1000 * max(report.stop for report in reports.values()))
    _describe(result, record, outcome, measured_of(session, cell, record))
    if record is not None:
        for attachment in _attachments(session, cell, record):
            result.attachments.append(_attached(*attachment))
        body = metrics_json(record, result).encode()
        allure_commons.plugin_manager.hook.report_attached_data(body=body, file_name=f"{result.uuid}-perf.json")


def history_id(item: pytest.Item, cell: Cell, metric: str) -> str:
    """Return the id by which Allure identifies the item's measurement in two sessions."""
    return result_id(item.nodeid, str(cell), metric)


def _name(result: Any, session: Session, item: pytest.Item, cell: Cell) -> None:
    from pytest_ipperf.report.allure_card import factor_texts, title  # noqa: PLC0415 - needed only by this report

    metric = metric_of(item, cell.workload.protocol)
    # A title set by @allure.title takes precedence.
    if not getattr(getattr(item, "obj", None), "__allure_display_name__", ""):
        result.name = title(cell, metric, testbed=len(session.testbeds) > 1)
    # Allure 3 derives the id from the test case id and the parameters, Allure 2 uses the history id.
    result.historyId = result.testCaseId = history_id(item, cell, metric)
    plain = [Parameter(name=name, value=text) for name, text in factor_texts(cell).items()]
    settings = session.settings
    changing = {"design": settings.design.name, "seed": str(settings.seed), "session": session.folder.name}
    result.parameters = [*plain, *(Parameter(name=name, value=each, excluded=True) for name, each in changing.items())]
    given = {label.name for label in result.labels}
    labels = {
        "epic": _suite(item),
        "feature": PROTOCOLS[cell.workload.protocol].title,
        "story": cell.arm.title,
    }
    result.labels += [Label(name=name, value=text) for name, text in labels.items() if name not in given]


def _suite(item: pytest.Item) -> str:
    """Return the suite's folder name as words, or the file's name if it lies in the root directory."""
    folder = item.path.parent
    name = item.path.stem.removeprefix("test_") if folder == item.config.rootpath else folder.name
    return name.replace("_", " ").capitalize()


def _set_status(result: Any, outcome: Classification, reports: Mapping[str, pytest.TestReport]) -> None:
    result.status = outcome.category.status
    trace = getattr(result.statusDetails, "trace", None)
    if outcome.category is Category.REGRESSION:
        trace = crash_text(reports["call"])
    # A traceback is kept for a broken fixture only; otherwise the message says everything.
    elif outcome.category is not Category.INFRASTRUCTURE or (trace or "").strip() == outcome.sentence:
        trace = None
    result.statusDetails = StatusDetails(message=outcome.message, trace=trace)


def _describe(result: Any, record: Record | None, outcome: Classification | None, measured: object) -> None:
    from pytest_ipperf.report import allure_card  # noqa: PLC0415 - imports scipy

    result.description = None
    if record is not None and record.verdict != Category.FLAGGED.word:
        result.descriptionHtml = allure_card.description(record, allure_card.plot(record), _spread(record, measured))
    elif outcome is not None:
        result.descriptionHtml = allure_card.without_answer(outcome.category.value[1], outcome.sentence)


def measured_of(session: Session, cell: Cell, record: Record | None) -> object:
    """Return the measurement whose runs gave the record: the workload's first one, or the arm's fresh epochs."""
    if record is None or record.confirms is None:
        return session.results.get(cell.workload)
    sets = session.fresh_epochs.get(cell.workload, [])
    return next((each.measurement for each in sets if record.test.arm in each.arms), None)


def _spread(record: Record, measured: object) -> bytes | None:
    """Return the plot of the distribution and the course of the runs that gave the record; None if there is none."""
    from pytest_ipperf.report import allure_card  # noqa: PLC0415 - imports scipy

    if not isinstance(measured, Measurement):
        return None
    runs = {side.arm: [run for run in measured.runs if run.arm == side.arm and not run.warmup] for side in record.sides}
    times = {
        arm: [*(time for run in own for time in run.times), *[math.inf] * sum(run.failures for run in own)]
        for arm, own in runs.items()
        if any(len(run.times) for run in own)
    }
    began = {
        arm: [run.began_at for run in own if run.values.get(record.metric) is not None] for arm, own in runs.items()
    }
    return allure_card.distribution_plot(record, times, began)


def _attachments(session: Session, cell: Cell, record: Record) -> Iterator[tuple[str, str, str, bytes | Path]]:
    """Yield the name, media type, suffix and content of each attachment."""
    from pytest_ipperf.report.allure_card import values_csv  # noqa: PLC0415 - imports scipy
    from pytest_ipperf.report.studies.ministat import comparison_reports  # noqa: PLC0415 - imports scipy

    yield VALUES, "text/csv", "csv", values_csv(record).encode()
    for report in comparison_reports([record]):
        yield "ministat", "text/plain", "txt", "".join(f"{line}\n" for line in report).encode()
    yield "record", "application/json", "json", json.dumps(json.loads(record.to_json()), indent=2).encode()
    for arm in (side.arm for side in record.sides):
        for file in sorted((session.folder / "captures").glob(f"{cell.workload}-{arm}-*.pcap")):
            host = file.stem.removeprefix(f"{cell.workload}-{arm}-")
            # The name of one arm may be a prefix of another's.
            if "-" not in host:
                yield f"capture, {arm}, {host}", _PCAP, "pcap", file


def _attached(name: str, kind: str, suffix: str, body: bytes | Path) -> Attachment:
    source = ATTACHMENT_PATTERN.format(prefix=uuid.uuid4(), ext=suffix)
    hooks = allure_commons.plugin_manager.hook
    if isinstance(body, Path):
        hooks.report_attached_file(source=str(body), file_name=source)
    else:
        hooks.report_attached_data(body=body, file_name=source)
    return Attachment(name=name, source=source, type=kind)
