"""Collect the result of each cell, and of each test without an answer, for all formats.

The results are the decisions of a night, or else the verdict of each record.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_ipperf.core.inference.effect import percent_text
from pytest_ipperf.core.inference.verdict import Verdict
from pytest_ipperf.core.nightly.report import CellReport, GateDecision, cell_of
from pytest_ipperf.core.nightly.session_summary import WHOLE_SESSION, SessionSummary, Trouble
from pytest_ipperf.core.records.completeness import UNMEASURED
from pytest_ipperf.core.records.history_entry import HistoryKey
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.report.tables.intervals import deciding_interval


class ResultKind(enum.Enum):
    """Kind of a result, in the order in which reports show them."""

    RED = "red"
    BROKEN = "trouble"
    UNDECIDED = "undecided"
    UNMEASURED = "not measured"
    UNJUDGED = "unjudged"
    ACCEPTED = "accepted"
    GREEN = "green"


_OF_DECISION = {
    GateDecision.WITHIN: ResultKind.GREEN,
    GateDecision.EXCEEDS: ResultKind.RED,
    GateDecision.WORSE: ResultKind.RED,
    GateDecision.ACCEPTED: ResultKind.ACCEPTED,
    GateDecision.INCONCLUSIVE: ResultKind.UNDECIDED,
    GateDecision.UNJUDGED: ResultKind.UNJUDGED,
    GateDecision.MISSING: ResultKind.BROKEN,
    GateDecision.GONE: ResultKind.ACCEPTED,
    GateDecision.TROUBLE: ResultKind.BROKEN,
}
_OF_VERDICT = {
    Verdict.WITHIN: ResultKind.GREEN,
    Verdict.EXCEEDS: ResultKind.RED,
    Verdict.INCONCLUSIVE: ResultKind.UNDECIDED,
    Verdict.INVALID: ResultKind.BROKEN,
    Verdict.UNJUDGED: ResultKind.UNJUDGED,
}
_OF_TROUBLE = {"inconclusive": ResultKind.UNDECIDED, "failed": ResultKind.RED, UNMEASURED: ResultKind.UNMEASURED}
MEASURED = "measured"
"""Verdict of a cell whose test asked no question under a design that judges."""
UNJUDGED = Verdict.UNJUDGED.value
VERDICTS = ("exceeds", "invalid", "inconclusive", "within", UNJUDGED, MEASURED)
"""Names of verdicts, the worst first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellResult:
    """Result of a cell, or of a test without an answer.

    `word` is the wording of the ruling, verdict or trouble for readers, `code` the one for programs. `nodeid` is empty
    if it is not known; then there is a `key`. `cell` is the night's report of the cell, `record` the data of the
    ruling, None if nothing was measured.
    """

    kind: ResultKind
    code: str
    word: str
    sentence: str
    nodeid: str = ""
    key: HistoryKey | None = None
    record: Record | None = None
    cell: CellReport | None = None

    @property
    def name(self) -> str:
        """Name for readers: the cell with its metric, else the test."""
        return str(self.key) if self.key else self.nodeid

    @property
    def is_twin(self) -> bool:
        """Whether the reference was compared with itself, which is no part of the answer."""
        return self.record is not None and self.record.twin and self.code in VERDICTS


def cell_results(summary: SessionSummary) -> tuple[CellResult, ...]:
    """Return the results of the night's cells, or of the records, then those of tests without an answer."""
    if summary.night is None:
        return (*_of_session(summary),)
    cells = [_of_cell(cell) for cell in summary.night.cells]
    troubles = {trouble.nodeid: trouble for trouble in summary.troubles}
    for nodeid, sentence in summary.night.troubles.items():
        other = "failed" if nodeid == WHOLE_SESSION else "infrastructure"
        kind = troubles[nodeid].kind if nodeid in troubles else other
        troubles[nodeid] = Trouble(nodeid=nodeid, kind=kind, sentence=sentence)
    ruled = {cell.key.cell for cell in summary.night.cells}
    broken = {cell.key.cell for cell in summary.night.with_decision(GateDecision.TROUBLE)}
    return (
        *cells,
        *(
            _of_trouble(each)
            for each in troubles.values()
            # A cell within its margin may have a test that failed for another reason: not part of its decision.
            if cell_of(each.nodeid, ruled) not in (ruled if each.kind == "inconclusive" else broken)
        ),
    )


def verdict_of(record: Record) -> str:
    """Return the wording of a record's verdict, the same in every report."""
    if record.verdict == MEASURED:
        return f"{MEASURED}, and nothing asked"
    return Verdict[record.verdict.upper()].value


def worst_first(records: Iterable[Record]) -> list[Record]:
    """Return the records sorted by verdict, otherwise in their given order."""
    return sorted(records, key=lambda record: VERDICTS.index(record.verdict))


def worst_answers(results: Iterable[CellResult]) -> list[tuple[Record, str]]:
    """Return the data of one result for each measured cell and metric, with its code, as in some formats only one fits.

    Of several tests of a cell the worst, of equally bad ones the last; of a test that ran again its last result.
    """
    last = {(*_place(each.record), each.nodeid): each for each in results if each.record}
    worst: dict[tuple[str, ...], CellResult] = {}
    for place, result in last.items():
        worst[place[:-1]] = min(result, worst.get(place[:-1], result), key=_badness)
    return [(each.record, each.code) for each in worst.values() if each.record]


def _place(record: Record) -> tuple[str, ...]:
    return *record.key, record.server, record.design


def _badness(result: CellResult) -> tuple[int, int]:
    """Return a key that sorts results by their kind, those of one kind by their verdict, the worst first."""
    at = VERDICTS.index(result.code) if result.code in VERDICTS else len(VERDICTS)
    return list(ResultKind).index(result.kind), at


def headline(summary: SessionSummary, results: Sequence[CellResult]) -> str:
    """Return the answer in one sentence: the night's headline, or a summary of the session's cells.

    For a session that is not complete it is worded as the answer so far.
    """
    if summary.night is not None:
        return summary.night.headline
    cells_of = [result for result in results if result.key and not result.is_twin]
    codes, count = Counter(result.code for result in cells_of), len(cells_of)
    beyond, within, cells = codes["exceeds"], codes["within"], f"{count} cell{'s' * (count != 1)}"
    others = {
        # Inconclusive cells are mentioned beside decided ones, so that "none exceeds" is no all-clear.
        "inconclusive": codes["inconclusive"] if beyond or within or not summary.completeness.is_whole else 0,
        "unjudged": codes[UNJUDGED],
        "failed": sum(result.code == "failed" for result in results),
        "in trouble": sum(result.kind is ResultKind.BROKEN for result in results),
        "not measured": sum(result.kind is ResultKind.UNDECIDED and result.key is None for result in results),
    }
    more = "".join(f"; {count} {word}" for word, count in others.items() if count)
    if not summary.completeness.is_whole:
        return _so_far(count, beyond, within, more)
    if beyond:
        return f"{beyond} of {cells} exceed{'s' * (beyond == 1)} {'its' if beyond == 1 else 'their'} margin{more}"
    if within:
        return f"No cell exceeds its margin; {within} of {cells} {'is' if within == 1 else 'are'} within{more}"
    return f"No cell was decided, of {cells}{more}" if count else f"Nothing was measured{more}"


def _so_far(count: int, beyond: int, within: int, more: str) -> str:
    cells = f"{count} measured cell{'s' * (count != 1)}"
    if not count:
        return f"So far nothing was measured{more}"
    answers = ((beyond, "beyond"), (within, "within"))
    counts = ", ".join(
        f"{number} {word} {'its' if number == 1 else 'their'} margin" for number, word in answers if number
    )
    return (
        f"So far, of {cells}: {counts}{more}"
        if counts
        else f"So far, of {cells}: {more.removeprefix('; ') or 'no answer'}"
    )


def asked(summary: SessionSummary) -> dict[str, str]:
    """Return the settings shared by all cells of a session, as far as they are known: design, seed, reference."""
    question = summary.question
    design = question.get("design", "")
    settings = {"design": design["name"] if isinstance(design, Mapping) else design}
    settings |= {name: f"{question[name]}" for name in ("seed", "reference") if name in question}
    return {name: text for name, text in settings.items() if text}


def counts_text(results: Iterable[CellResult]) -> str:
    """Count the results of each wording, the worst first: `2 exceeds; 10 within`."""
    counts = Counter((result.kind, result.word) for result in results)
    order = list(ResultKind)
    return "; ".join(f"{counts[each]} {each[1]}" for each in sorted(counts, key=lambda each: order.index(each[0])))


def unruled(summary: SessionSummary) -> tuple[Record, ...]:
    """Return the records of a night that are not among its cells: those of the reference's twin."""
    ruled = {cell.key for cell in summary.night.cells} if summary.night else {record.key for record in summary.records}
    return tuple(record for record in summary.records if record.key not in ruled)


def _of_session(summary: SessionSummary) -> Iterator[CellResult]:
    troubles = {trouble.nodeid: trouble for trouble in summary.troubles}
    for record in summary.records:
        # If a test fails after its answer, the failure takes precedence.
        trouble = troubles.pop(record.nodeid, None) if record.nodeid else None
        yield _of_trouble(trouble, record) if trouble else _of_record(record)
    yield from map(_of_trouble, troubles.values())


def _of_cell(cell: CellReport) -> CellResult:
    return CellResult(
        kind=_OF_DECISION[cell.decision],
        code=cell.decision.name.lower(),
        word=cell.decision.value,
        sentence=cell.sentence,
        nodeid=cell.record.nodeid if cell.record else "",
        key=cell.key,
        record=cell.record,
        cell=cell,
    )


def _of_record(record: Record) -> CellResult:
    return CellResult(
        kind=ResultKind.GREEN if record.verdict == MEASURED else _OF_VERDICT[Verdict[record.verdict.upper()]],
        code=record.verdict,
        word=verdict_of(record),
        sentence=record.sentence,
        nodeid=record.nodeid,
        key=record.key,
        record=record,
    )


def _of_trouble(trouble: Trouble, record: Record | None = None) -> CellResult:
    return CellResult(
        kind=_OF_TROUBLE.get(trouble.kind, ResultKind.BROKEN),
        code=trouble.kind,
        word=ResultKind.UNMEASURED.value if trouble.kind == UNMEASURED else trouble.kind,
        sentence=trouble.sentence,
        nodeid=trouble.nodeid,
        key=record.key if record else None,
        record=record,
    )


def margin_change(record: Record) -> float | None:
    """Return the margin as a change in the record's unit, negative if less is worse; None if nothing was judged."""
    if record.margin_fraction is None or not record.judges:
        return None
    worse = 1 if METRICS[record.metric].metric.direction == "lower_is_better" else -1
    return 100 * record.margin_fraction * worse


def change_text(record: Record) -> str:
    """Return the change with the interval that decides: `+14 % [+11, +17]`; empty if there is none."""
    if record.estimate is None:
        return ""
    found = deciding_interval(record)
    return f"{percent_text(record.estimate)} {record.change_unit}{f' {found.text}' if found else ''}"
