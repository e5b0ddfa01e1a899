"""Show three-valued outcomes in pytest.

A cell with too little evidence is `?` INCONCLUSIVE, never passed and never silent. Under a design that never judges,
cells are `unjudged`, with a count of their own.

The exit status is 10, which pytest does not use, if measurements ran and no cell was decided (docs/exit-status.md).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Generator
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import pytest

import pytest_ipperf
from pytest_ipperf.core.design.margin import Margin
from pytest_ipperf.core.portable.errors import InvalidError, IpperfError, UndecidedError, UnjudgedError
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.plugin.collect.collection import cell_of
from pytest_ipperf.plugin.measure.stash import ANSWERS, IN_CALL, INVALID
from pytest_ipperf.plugin.options.aliases import spell_options
from pytest_ipperf.plugin.session.stash import SESSION
from pytest_ipperf.store.kept_records import KeptRecords

NOTHING_DECIDED = 10
_PROPERTY = "ipperf"
_PACKAGE = Path(pytest_ipperf.__file__).parent
_LAST_FAILED = "cache/lastfailed"


class _SubtestResult(NamedTuple):
    """The answer of a subtest; `error` says why it is undecided, and is None where the margin is exceeded."""

    record: Record
    error: UndecidedError | UnjudgedError | None


_SUBTESTS = pytest.StashKey[list[_SubtestResult]]()
_PROPERTIES = pytest.StashKey[list[tuple[str, object]]]()


def explain(op: str, left: object, right: object) -> list[str] | None:
    """Explain a failed claim by its sentence, and that of a slow-down by a picture too; return None for others."""
    # Called for every failed comparison of a suite, which should not import scipy.
    if op not in ("<=", ">=") or not isinstance(right, (Margin, str)):
        return None
    from pytest_ipperf.core.inference.claim import Slowdown  # noqa: PLC0415
    from pytest_ipperf.core.inference.figure import Figure  # noqa: PLC0415

    if isinstance(left, Figure) and isinstance(right, str):
        return [str(left <= right if op == "<=" else left >= right)]
    if op != "<=" or not isinstance(left, Slowdown):
        return None
    from pytest_ipperf.report.terminal.interval_picture import interval_picture  # noqa: PLC0415

    claim = left <= right
    return [claim.sentence(), "", *interval_picture(claim.deciding)]


def make_report(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Turn this plugin's exceptions into its outcomes, and attach the record to the report of the call."""
    if cell_of(item) is None:
        return
    error = call.excinfo.value if call.excinfo else None
    if item.stash.get(IN_CALL, False):
        _make_subtest_report(item, call, report, error)
        return
    attributes: Any = report  # xdist sends plain attributes to the controller
    attributes.ipperf = True
    attributes.ipperf_measured = call.when == "setup" and ANSWERS in item.stash
    record = None
    if call.when == "call" and (record := _record(item, passed=report.passed)) is not None:
        error, record = _settled(item, report, record, error)
        attributes.ipperf_record = record.to_json()
        item.stash[_PROPERTIES] = _properties(record)
    if call.when == "teardown" and _PROPERTIES in item.stash:
        # JUnit takes them from this report. pytest keeps those of an item, and the item, to the end of the session.
        properties = item.stash[_PROPERTIES]
        report.user_properties += properties
        del item.stash[_PROPERTIES]
    if isinstance(error, UnjudgedError):
        attributes.ipperf_unjudged = str(error)
        _skip(item, report, str(error))
    elif isinstance(error, UndecidedError):
        attributes.ipperf_inconclusive = str(error)
        _skip(item, report, str(error))
    elif report.failed and record is not None and record.verdict == "exceeds":
        if item.config.stash[SESSION].settings.flags:
            attributes.ipperf_flagged = record.sentence
            _skip(item, report, f"flagged: {record.sentence}")
    elif report.failed or (call.when == "setup" and error is not None and INVALID in item.stash):
        _name_trouble(item, call, report, error)


def _make_subtest_report(
    item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport, error: BaseException | None
) -> None:
    """Keep the answer of a subtest for the report of its item, which alone is counted."""
    record = _record(item, passed=report.passed)
    if record is not None and isinstance(error, UndecidedError | UnjudgedError):
        item.stash[_SUBTESTS].append(_SubtestResult(record, error))
        _skip(item, report, str(error))
    elif record is not None and report.failed and record.verdict == "exceeds":
        item.stash[_SUBTESTS].append(_SubtestResult(record, None))
        if item.config.stash[SESSION].settings.flags:
            _skip(item, report, f"flagged: {record.sentence}")
    elif report.failed:
        _name_trouble(item, call, report, error)


def _settled(
    item: pytest.Item, report: pytest.TestReport, record: Record, error: BaseException | None
) -> tuple[BaseException | None, Record]:
    """Make what was found the outcome of a test that has not failed; return why it has none, or None, and its record.

    What exceeds its margin takes precedence: first of subtests, then of the record. An assertion that is undecided
    cannot undo it. Then come undecided assertions, subtests and answers that were not asserted, in this order.
    """
    if report.failed and not isinstance(error, UndecidedError | UnjudgedError):
        return error, record
    subtests: list[_SubtestResult] = item.stash[_SUBTESTS]
    beyond = [each.record for each in subtests if each.error is None]
    if beyond:
        _fail(report, beyond[0].sentence)
        return None, beyond[0]
    if record.verdict in ("invalid", "exceeds"):
        why = "mark xfail excuses no verdict" if hasattr(report, "wasxfail") else "the test itself did not fail for it"
        _fail(report, f"{record.sentence}; {why}")
        return (InvalidError(record.sentence) if record.verdict == "invalid" else None), record
    if isinstance(error, UndecidedError | UnjudgedError):
        return error, record
    if error is None and subtests:
        return subtests[0].error, subtests[0].record
    return _unasserted(record), record


def _fail(report: pytest.TestReport, reason: Any) -> None:
    """Make a report failed, whatever the test did, and though mark xfail expects it."""
    report.outcome, report.longrepr = "failed", reason
    vars(report).pop("wasxfail", None)  # pytest would count the report as an expected failure


def _name_trouble(
    item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport, error: BaseException | None
) -> None:
    if not report.failed:
        _fail(report, report.longrepr)  # mark xfail expects it, and excuses no trouble
    attributes: Any = report
    attributes.ipperf_trouble = _trouble_kind(item, call, error)
    if call.when != "setup" and isinstance(error, IpperfError):
        attributes.ipperf_error = True
        if error.__traceback__ is not None:  # raised by the test
            report.longrepr = _without_internals(item, error)


class CallPhase:
    """Plugin that marks the items whose body is running: a report made meanwhile belongs to a subtest."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None]:
        """Mark the item while its body runs, with an empty list of subtests."""
        item.stash[IN_CALL], item.stash[_SUBTESTS] = True, []
        try:
            yield
        finally:
            item.stash[IN_CALL] = False


def _unasserted(record: Record) -> UndecidedError | UnjudgedError | None:
    """Return why a test is undecided that computed its verdict without asserting it; None if it is decided."""
    if record.verdict == "inconclusive":
        return UndecidedError(record.sentence)
    asked = record.margin or any(each.limit for each in record.components)
    if record.verdict == "unjudged" and asked:
        return UnjudgedError(record.sentence)
    return None


def _without_internals(item: pytest.Item, error: BaseException) -> Any:
    """Return the failure text of an error without this package's frames, which do not help the test's author."""
    entries, entry = [], error.__traceback__
    while entry is not None:
        if not Path(entry.tb_frame.f_code.co_filename).is_relative_to(_PACKAGE):
            entries.append(entry)
        entry = entry.tb_next
    shown = None
    for each in reversed(entries):
        shown = TracebackType(shown, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return item.repr_failure(pytest.ExceptionInfo.from_exception(error.with_traceback(shown)))


def _record(item: pytest.Item, *, passed: bool) -> Record | None:
    """Return the record of what a test has asked; None if it has measured nothing. `passed` is as in `Answers`."""
    answers = item.stash.get(ANSWERS, None)
    return dataclasses.replace(answers.record(passed=passed), nodeid=item.nodeid) if answers else None


def _skip(item: pytest.Item, report: pytest.TestReport, sentence: str) -> None:
    path, line, _ = item.location
    report.outcome = "skipped"
    report.longrepr = (path, (line or 0) + 1, spell_options(item.config, sentence))


def _trouble_kind(item: pytest.Item, call: pytest.CallInfo[None], error: BaseException | None) -> str:
    """Return the kind of a failure: `invalid` measurement, `infrastructure` (outside the call), or `failed` test."""
    if isinstance(error, InvalidError) or item.stash.get(INVALID, False):
        return "invalid"
    return "failed" if call.when == "call" else "infrastructure"


def _properties(record: Record) -> list[tuple[str, object]]:
    """Return the properties of a cell for a JUnit file, in which the whole record would be too long.

    They are those of `pytest-ipperf export --format junit` with a prefix; numbers are plain, in `unit`.
    """
    from pytest_ipperf.report.tables.intervals import deciding_interval  # noqa: PLC0415 - imports scipy

    properties: dict[str, object] = {"cell": record.cell, "metric": record.metric, "verdict": record.verdict}
    properties |= {"version": record.workload_version, "fingerprint": record.fingerprint, "design": record.design}
    if (own := deciding_interval(record)) is not None:
        properties["interval_level"] = own.level
    if record.estimate is not None:
        properties["change"] = f"{record.estimate:.4g}"
        bounds = (record.lower_bound, record.upper_bound)
        low, high = (record.low, record.high) if None in bounds else bounds
        if low is not None and high is not None:
            properties["interval"] = f"[{low:.4g}, {high:.4g}]"
        properties["unit"] = record.change_unit
    if record.confirms is not None:
        properties["first_change"] = f"{record.confirms.estimate:.4g}"
    properties["margin"] = record.margin
    properties |= _component_properties(record)
    for side in record.sides:
        for name, value in side.quantiles.items():
            properties[f"{name.replace('.', '')}_s_{side.arm}"] = "inf" if value is None else f"{value:.6g}"
    return [(f"{_PROPERTY}_{name}", value) for name, value in {**properties, "epochs": record.epochs}.items()]


def _component_properties(record: Record) -> dict[str, object]:
    """Return the properties of what is judged beside the metric, by names that begin with its own."""
    from pytest_ipperf.report.tables.intervals import deciding_interval  # noqa: PLC0415 - imports scipy

    properties: dict[str, object] = {}
    for each in record.components:
        if each.estimate is not None:
            properties[each.metric] = f"{each.estimate:.4g}"
        if each.lower_bound is not None and each.upper_bound is not None:
            properties[f"{each.metric}_interval"] = f"[{each.lower_bound:.4g}, {each.upper_bound:.4g}]"
        properties |= {f"{each.metric}_margin": each.margin, f"{each.metric}_verdict": each.verdict}
    for part in record.parts():
        if part.metric != record.metric and (beside := deciding_interval(part)) is not None:
            properties[f"{part.metric}_interval_level"] = beside.level
    return properties


def status(report: pytest.CollectReport | pytest.TestReport) -> Any:
    """Return the category, letter and word of a cell that is unjudged, inconclusive, flagged or in error."""
    if getattr(report, "ipperf_unjudged", ""):
        return "unjudged", "u", ("UNJUDGED", {"yellow": True})
    if getattr(report, "ipperf_inconclusive", ""):
        return "inconclusive", "?", ("INCONCLUSIVE", {"yellow": True})
    if getattr(report, "ipperf_flagged", ""):
        return "flagged", "!", ("FLAGGED", {"yellow": True})
    if getattr(report, "ipperf_error", False):
        return "error", "E", ("ERROR", {"red": True})
    return None


class VerdictCollector:
    """Plugin of the main process that collects verdicts, calls the hook for each record and sets the exit status.

    `decided` is the number of cells that are within or beyond their margin. `measured` says that a set-up measured,
    whether or not its test ran.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self.kept = KeptRecords()
        self.decided = 0
        self.undecided: dict[str, str] = {}
        self.unjudged: dict[str, str] = {}
        self.flagged: set[str] = set()
        self.measurements = 0
        self.measured = False
        self.nothing_decided = False
        self.inconclusive_failed = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the verdict of a report, which may come from a worker of xdist."""
        if not getattr(report, "ipperf", False) or str(report.outcome) == "rerun":  # pytest-rerunfailures' first tries
            return
        # Under --setup-plan a set-up passes without measuring, and no call follows; under --setup-only it measures.
        self.measured |= getattr(report, "ipperf_measured", False)
        undecided = getattr(report, "ipperf_inconclusive", "")
        # Of the set-ups that pytest skipped, those that the plugin did not skip are of marks, and measured nothing.
        self.measurements += report.when == "call" or (report.when == "setup" and bool(report.failed or undecided))
        if undecided:
            self.undecided[report.nodeid] = undecided
        if sentence := getattr(report, "ipperf_unjudged", ""):
            self.unjudged[report.nodeid] = sentence
        if getattr(report, "ipperf_flagged", ""):
            self.flagged.add(report.nodeid)
        if text := getattr(report, "ipperf_record", ""):
            # With the node id that pytest keeps, as others keep it too.
            record = dataclasses.replace(Record.from_json(text), nodeid=report.nodeid)
            self.kept.append(text)
            self.decided += record.verdict in ("within", "exceeds")
            if hasattr(report, "node"):  # from a worker of xdist, which has used the text; pytest keeps all reports
                del report.ipperf_record
            self._config.hook.pytest_ipperf_measured(config=self._config, record=record)

    @property
    def records(self) -> list[Record]:
        """Return the records of the session so far; they are decoded, for use at its end."""
        return self.kept.read()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None]:
        """Set the exit status; add undecided cells to the cache of `--lf` after pytest has written it."""
        if session.exitstatus == pytest.ExitCode.OK and (self.measurements or self.measured):
            if self.undecided and self._config.stash[SESSION].settings.fail_inconclusive:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
                self.inconclusive_failed = True
            elif not self.decided:
                session.exitstatus = NOTHING_DECIDED
                self.nothing_decided = True
        yield
        cache = getattr(self._config, "cache", None)  # `-p no:cacheprovider` removes the attribute
        if (unanswered := {**self.undecided, **self.unjudged}) and cache is not None:
            failed = cache.get(_LAST_FAILED, {})
            cache.set(_LAST_FAILED, {**failed, **dict.fromkeys(unanswered, True)})


VERDICTS = pytest.StashKey[VerdictCollector]()
