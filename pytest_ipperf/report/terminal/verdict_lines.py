"""Print the answer first: a sentence, then a line for each cell, the worst first, fitted to the width."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.report.answer.sentence import plain_answer
from pytest_ipperf.report.answer.values import arrow_text, note_on_change, typical_mark
from pytest_ipperf.report.flow.quantity import shown_time_unit
from pytest_ipperf.report.tables.cell_results import CellResult, ResultKind, cell_results, change_text, headline
from pytest_ipperf.report.tables.component_rows import component_text, deciding_part, title_of
from pytest_ipperf.report.tables.layout import fitted

_GAP = "  "
_MOST = 40
"""Number of lines above which green cells are counted, as unmeasured ones always are; all are listed on request."""
_COLOURS = {
    ResultKind.RED: "red",
    ResultKind.BROKEN: "red",
    ResultKind.UNDECIDED: "yellow",
    ResultKind.UNMEASURED: "yellow",
    ResultKind.UNJUDGED: "yellow",
    ResultKind.ACCEPTED: "green",
    ResultKind.GREEN: "green",
}
_OPTIONAL, _LEAST = 5, 12
"""Index of the first column that can be left out where the width does not suffice; characters kept of a name."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the terminal; `colour` is `red`, `yellow`, `green` or empty."""

    text: str
    colour: str = ""


def answer_lines(
    summary: SessionSummary,
    width: int | None = None,
    *,
    detail: bool = False,
    flags: bool = False,
    banner: bool = True,
) -> list[Line]:
    """Return the state of an incomplete session if there is to be a `banner`, the answer, and a line for each cell.

    Lines of cells have at most `width` characters if that is possible: columns are left out from the right, and
    sentences are cut. Many green cells are counted unless there is `detail`. `flags` says that cells beyond their
    margins are only flagged, as in a night, which measures them again.
    """
    results = tuple(map(_flagged, cell_results(summary))) if flags else cell_results(summary)
    state = summary.completeness.banner if banner else ""
    worst = min((result.kind for result in results), key=list(ResultKind).index, default=ResultKind.GREEN)
    return [
        *(Line(text, "red") for text in (fitted(state, width) if state else ())),
        *(Line(part, _COLOURS[worst]) for text in _sentences(summary, results) for part in fitted(text, width)),
        *(Line(part) for text in _notes(summary, results) for part in fitted(text, width)),
        *verdict_lines(results, width, detail=detail),
    ]


def _sentences(summary: SessionSummary, results: Sequence[CellResult]) -> list[str]:
    """Return the answer in plain words; with counts where that does not say all, as in a night or after trouble."""
    counts = headline(summary, results)
    if summary.night is not None or not summary.records or not summary.completeness.is_whole:
        return [counts]
    return [plain_answer(summary.records, summary.troubles).sentence, *([counts] if summary.troubles else [])]


def _notes(summary: SessionSummary, results: Sequence[CellResult]) -> list[str]:
    """Return how the change in the answer comes about, if the answer has one beside two values."""
    found = (note_on_change(sentence, summary.records) for sentence in _sentences(summary, results)[:1])
    return [note for note in found if note]


def verdict_lines(results: Iterable[CellResult], width: int | None = None, *, detail: bool = False) -> list[Line]:
    """Return a line for each result, the worst first; see `answer_lines`."""
    order = list(ResultKind)
    ordered = sorted(results, key=lambda result: order.index(result.kind))
    several = len({result.record.testbed for result in ordered if result.record}) > 1
    shown, counted = _chosen(ordered, detail=detail)
    rows = [_columns(result, several=several) if result.record else [] for result in shown]
    texts = iter(_aligned([row for row in rows if row], width))
    pad = max((len(result.code) for result in shown if result.record), default=0)
    lines = [
        Line(next(texts) if row else _cut(_without_record(result, pad), width), _COLOURS[result.kind])
        for result, row in zip(shown, rows, strict=True)
    ]
    more = "; ".join(f"{count} more {code}" for code, count in counted.items())
    return [*lines, *([Line(f"and {more} (-v lists them)")] if more else [])]


def _flagged(result: CellResult) -> CellResult:
    """Return the result of a cell that a night measures again if it is beyond its margin."""
    return replace(result, code="flagged", kind=ResultKind.UNDECIDED) if result.code == "exceeds" else result


def _chosen(results: Sequence[CellResult], *, detail: bool) -> tuple[Sequence[CellResult], Counter[str]]:
    """Return the results to list, and the number of the others by their code."""
    folded = set() if detail else {ResultKind.UNMEASURED, *([ResultKind.GREEN] if len(results) > _MOST else [])}
    listed = [result for result in results if result.kind not in folded]
    return listed, Counter(result.code for result in results if result.kind in folded)


def _columns(result: CellResult, *, several: bool) -> list[str]:
    """Return the columns of a cell: verdict, protocol, arm, level, change, margin, values, 95th percentile."""
    record = result.record
    if record is None:
        return []
    part = deciding_part(record)
    name = PROTOCOLS[record.protocol].title
    if len(PROTOCOLS[record.protocol].metrics) > 1 and record.metric != record.protocol:
        name = f"{name} {record.metric.replace('_', ' ').removeprefix(f'{record.protocol} ')}"
    margin = f"margin {_margin(part)}" if part.judges and part.margin_fraction is not None else ""
    return [
        result.code,
        f"{record.testbed} {name}" if several else name,
        record.test.arm.title,
        record.workload.removeprefix(f"{record.testbed}-{record.protocol}-"),
        _change(record, part),
        margin,
        _values(record),
        _tail(record),
    ]


def _change(record: Record, part: Record) -> str:
    if not record.compared:
        return f"{title_of(part.metric)}: {component_text(part)}"
    change = change_text(part)
    return change if part.metric == record.metric else f"{title_of(part.metric)} {change}"


def _margin(part: Record) -> str:
    return f"{100 * (part.margin_fraction or 0.0):.3g} {part.change_unit}"


def _values(record: Record) -> str:
    """Return the values of both arms: their means, or typical values where the means contradict the change."""
    return f"{arrow_text(record).replace('→', '->')} {typical_mark(record)}".rstrip()


def _tail(record: Record) -> str:
    """Return the 95th percentile of both arms; empty for flows."""
    if not all(side.quantiles for side in record.sides):
        return ""
    found = [side.quantiles.get("p95") for side in record.sides]
    unit = shown_time_unit(max((value for value in found if value is not None), default=0.0))
    return f"p95 {' -> '.join('failed' if value is None else unit.text(value) for value in found)} {unit.name}"


def _aligned(rows: Sequence[Sequence[str]], width: int | None) -> Iterator[str]:
    """Yield the rows in aligned columns, of which so many are left out at the right that the rest fits.

    If that does not suffice, the columns that name the cell become one, of which each name takes only its own width.
    """
    if not rows:
        return
    widths = _widths(rows)
    if width is not None and _size(widths[:_OPTIONAL]) > width:
        rows = [[row[0], " ".join(filter(None, row[1:4])), *row[4:]] for row in rows]
        widths = _widths(rows)
        room = width - widths[0] - widths[2] - 2 * len(_GAP)
        rows = [[row[0], _cut(row[1], max(room, _LEAST)), *row[2:]] for row in rows]
        widths = _widths(rows)
    kept = len(widths)
    while width is not None and kept > 1 and _size(widths[:kept]) > width:
        kept -= 1
    for row in rows:
        texts = zip(row[:kept], widths, strict=False)
        yield _GAP.join(text.ljust(each) for text, each in texts if each).rstrip()


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]


def _size(widths: Sequence[int]) -> int:
    return sum(each + len(_GAP) for each in widths if each) - len(_GAP)


def _without_record(result: CellResult, pad: int) -> str:
    name = str(result.key) if result.key else result.nodeid.rpartition("::")[2] or result.nodeid
    return f"{result.code.ljust(pad)}{_GAP}{name}: {result.sentence.removeprefix(f'{result.code}: ')}"


def _cut(text: str, width: int | None) -> str:
    first = text.partition("\n")[0]
    return first if width is None or len(first) <= width else f"{first[: max(1, width - 3)]}..."
