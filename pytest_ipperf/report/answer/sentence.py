"""Answer a session in one plain sentence: `IPv6 is as fast as IPv4 for HTTP, except HTTP at 100 connections: ...`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.limit import Limit
from pytest_ipperf.core.nightly.session_summary import WHOLE_SESSION, Trouble
from pytest_ipperf.core.records.completeness import UNMEASURED
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.report.answer.names import Names
from pytest_ipperf.report.answer.values import allowed_text, instead_text, short_change
from pytest_ipperf.report.answer.words import level_words, listed
from pytest_ipperf.report.flow.tables import answered
from pytest_ipperf.report.tables.arm_rows import arm_rank
from pytest_ipperf.report.tables.cell_results import MEASURED, UNJUDGED, VERDICTS
from pytest_ipperf.report.tables.component_rows import deciding_part

_INCONCLUSIVE = "inconclusive"
_WITHOUT_DECISION = {_INCONCLUSIVE: _INCONCLUSIVE, "invalid": "invalid", UNJUDGED: "unjudged"}
"""Words for cells without a decision, by their verdict."""
_FEW = 6
"""Number of cells up to which a single inconclusive one is named too."""
_RATES_AND_TIMES = ("s", "bit/s")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainAnswer:
    """Answer of a session: the worst `verdict` of its cells, empty without any, and the sentence."""

    verdict: str
    sentence: str


def plain_answer(records: Iterable[Record], troubles: Iterable[Trouble] = ()) -> PlainAnswer:
    """Return the answer of a session's records; twins are no part of it.

    The sentence ends with the number of tests in `troubles`, so that it claims nothing about them.
    """
    given = list(records)
    cells = [record for record in answered(given) if not record.twin]
    left = "".join(f"; {each}" for each in _unanswered(given, troubles))
    if not cells:
        return PlainAnswer(verdict="", sentence=f"Nothing was {'judged' if given else 'measured'}{left}.")
    verdict = min((record.verdict for record in cells), key=VERDICTS.index)
    if verdict in (UNJUDGED, MEASURED):
        text = _without_verdict(cells)
    else:
        compared = [record for record in cells if _asks_change(record)]
        limited = [record for record in cells if not _asks_change(record)]
        parts = (_compared(compared) if compared else "", _limits(limited) if limited else "")
        text = "; ".join(filter(None, parts))
    return PlainAnswer(verdict=verdict, sentence=f"{text}{left}.")


def _asks_change(record: Record) -> bool:
    """Return whether a cell was asked how much it differs from the reference, and not for limits or tails alone."""
    return record.compared and record.metric_verdict != MEASURED


def worse_by(record: Record) -> float:
    """Return the change for the worse from the reference, whatever the metric's direction."""
    change, metric = record.estimate, METRICS[record.metric].metric
    if change is None:
        test, reference = record.test.mean, record.reference.mean
        change = test - reference if metric.scale == "difference" else test / reference - 1 if reference else 0.0
    return change if metric.direction == "lower_is_better" else -change


def _unanswered(records: Iterable[Record], troubles: Iterable[Trouble]) -> Iterator[str]:
    """Yield the numbers of tests without an answer and of those that failed after it, and an unexplained status."""
    known = {record.nodeid for record in records}
    nodes = {trouble.nodeid for trouble in troubles if trouble.kind != UNMEASURED}
    failed = WHOLE_SESSION in nodes
    nodes.discard(WHOLE_SESSION)
    if count := len(nodes - known):
        yield f"{count} test{'s have' if count > 1 else ' has'} no answer"
    if count := len(nodes & known):
        yield f"{count} test{'s' * (count > 1)} failed for another reason"
    if failed:
        yield "pytest ended with status 1"


def _compared(cells: Sequence[Record]) -> str:
    """Return the sentence about cells that are compared with the reference."""
    of = {name: [record for record in cells if record.verdict == name] for name in VERDICTS}
    names, within, beyond = Names(cells), of["within"], of["exceeds"]
    left = {word: of[verdict] for verdict, word in _WITHOUT_DECISION.items() if of[verdict]}
    if within:
        head = f"{_claim(within)}{_scope(within, beyond, cells)}"
        head += f", except {_named(beyond, names)}" if beyond else ""
    elif beyond:
        head = f"{_claim(beyond, denied=True)}{_worst(beyond, cells, names)}"
    else:
        return "; ".join(_alone(found, word, cells, names) for word, found in left.items()) or _without_verdict(cells)
    return "; ".join(filter(None, (head, _left(left, cells, names, is_red=bool(beyond)))))


def _claim(cells: Sequence[Record], *, denied: bool = False) -> str:
    """Return `IPv6 is as fast as IPv4 for HTTP and SMTP`."""
    several = len({record.test.arm.level if record.own_reference else record.test.arm for record in cells}) > 1
    verb = f"{'are' if several else 'is'}{' not' if denied else ''}"
    timed = {METRICS[record.metric].metric.unit for record in cells} <= set(_RATES_AND_TIMES)
    how = f"as {'fast' if timed else 'good'} as"
    subjects, against, over = _subjects(cells)
    return f"{subjects} {verb} {how} {against} for {_protocols(cells)}{over}"


def _subjects(cells: Sequence[Record]) -> tuple[str, str, str]:
    """Return the arms, the reference, and the IP versions of both if levels of a factor are compared: ` over IPv6`."""
    arms = sorted({record.test.arm for record in cells}, key=arm_rank)
    references = sorted({record.reference.arm for record in cells}, key=arm_rank)
    if all(record.own_reference for record in cells):
        ways = listed(dict.fromkeys(replace(arm, level="").title for arm in arms))
        levels = (listed(dict.fromkeys(map(level_words, own))) for own in (arms, references))
        return next(levels), next(levels), f" over {ways}"
    return _titles(arms), _titles(references), ""


def _titles(arms: Sequence[Arm]) -> str:
    """Return the names of the arms: `IPv6, IPv6 tunnel and IPv6 isatap`."""
    return listed(arm.title for arm in arms)


def _protocols(cells: Iterable[Record]) -> str:
    return listed(sorted({PROTOCOLS[record.protocol].title for record in cells}))


def _scope(within: Sequence[Record], beyond: Sequence[Record], cells: Sequence[Record]) -> str:
    """Return in how many cells the claim was shown, if not in all."""
    decided = len(within) + len(beyond)
    if decided == len(cells) and not beyond:
        if len(cells) > 1:
            return f": all {len(cells)} cells are within their margin"
        return (
            f", within its margin{f': {instead_text(cells[0])} ({figures})' if (figures := _change(cells[0])) else ''}"
        )
    return "" if decided == len(cells) else f" in {len(within)} of {len(cells)} cells"


def _named(beyond: Sequence[Record], names: Names) -> str:
    """Return the worst cell with its figures, and count the others."""
    figures, more = figures_of(max(beyond, key=worse_by), names), len(beyond) - 1
    return f"{figures} and {more} other cell{'s' * (more > 1)}" if more else figures


def _worst(beyond: Sequence[Record], cells: Sequence[Record], names: Names) -> str:
    """Return in how many cells the claim is denied, and the figures of the worst."""
    if len(cells) == 1:
        return f": {_only(cells[0])}"
    figures = figures_of(max(beyond, key=worse_by), names)
    share = f"all {len(cells)}" if len(beyond) == len(cells) else f"{len(beyond)} of {len(cells)}"
    return f" in {share} cells{', worst' if len(beyond) > 1 else ':'} {figures}"


def figures_of(record: Record, names: Names) -> str:
    """Return `HTTP at 100 connections: 61.4 instead of 50.3 ms (+22 %, allowed 10 %)`."""
    return f"{names.cell(record)}: {_own_figures(record)}"


def _only(record: Record) -> str:
    """Return the figures of the only cell, after what was measured if the protocol does not say it."""
    name = Names([record]).cell(record)
    return _own_figures(record) if name == PROTOCOLS[record.protocol].title else f"{name}: {_own_figures(record)}"


def _own_figures(record: Record) -> str:
    """Return the figures of a cell without its name; those of a component have its title."""
    part = deciding_part(record)
    if Limit.named(part.metric):
        return part.sentence.rstrip(".")
    title = "" if part.metric == record.metric else f"{METRICS[part.metric].metric.title} "
    return f"{title}{instead_text(part)} ({_change(part)})"


def _change(part: Record) -> str:
    """Return the change and what is allowed: `+22 %, allowed 10 %`."""
    return ", allowed ".join(filter(None, (short_change(part), allowed_text(part))))


def _left(left: Mapping[str, Sequence[Record]], cells: Sequence[Record], names: Names, *, is_red: bool) -> str:
    """Return how many cells have no decision, or the figures of a single one beside cells that are well."""
    if [len(found) for found in left.values()] == [1] and len(cells) <= _FEW and not is_red:
        ((word, (record,)),) = left.items()
        return f"{word} is {figures_of(record, names) if word == _INCONCLUSIVE else names.cell(record)}"
    return ", ".join(f"{len(found)} {word}" for word, found in left.items())


def _alone(found: Sequence[Record], word: str, cells: Sequence[Record], names: Names) -> str:
    """Return the sentence about cells without a decision where no cell has one."""
    if word == _INCONCLUSIVE:
        return _open(found)
    if len(found) == 1 and len(cells) <= _FEW:
        return f"{names.cell(found[0])} is {word}"
    return f"{len(found)} of {len(cells)} cells {'is' if len(found) == 1 else 'are'} {word}"


def _open(found: Sequence[Record]) -> str:
    names, worst = Names(found), max(found, key=worse_by)
    if len(found) == 1:
        return f"It is inconclusive whether {_claim(found)}: {_only(worst)}"
    count = f"in all {len(found)} cells; the largest change is "
    return f"It is inconclusive whether {_claim(found)} {count}{figures_of(worst, names)}"


def _without_verdict(cells: Sequence[Record]) -> str:
    """Return the largest change of cells that were measured without a verdict."""
    subjects, against, over = _subjects(cells)
    compared = [record for record in cells if record.compared]
    if not compared:
        return f"Measured without a verdict: {_protocols(cells)}"
    worst = max(compared, key=worse_by)
    change = f" ({short_change(worst)})" if worst.estimate is not None else ""
    largest = "the largest change is " if len(compared) > 1 else ""
    return (
        f"{subjects} against {against}{over}, measured without a verdict: {largest}{Names(cells).cell(worst)}: "
        f"{instead_text(worst)}{change}"
    )


def _limits(cells: Sequence[Record]) -> str:
    """Return the sentence about cells of which only limits were asked."""
    arms = sorted({record.test.arm for record in cells}, key=arm_rank)
    named, one = _titles(arms), len(arms) == 1
    beyond = [record for record in cells if record.verdict == "exceeds"]
    within = [record for record in cells if record.verdict == "within"]
    if beyond:
        verb = "does" if one else "do"
        return f"{named} {verb} not keep the limits of {_protocols(beyond)}: {_named(beyond, Names(cells))}"
    if len(within) == len(cells):
        return f"{named} {'keeps' if one else 'keep'} the limits of {_protocols(cells)}"
    return f"{len(cells) - len(within)} of {len(cells)} cells are inconclusive about the limits of {_protocols(cells)}"
