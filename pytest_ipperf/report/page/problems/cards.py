"""List the cells that are not green, the worst first: a few cards are open, the others one line each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pytest_ipperf.core.nightly.report import RANK, GateDecision, NightReport
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.report.answer.sentence import worse_by
from pytest_ipperf.report.flow.tables import latest
from pytest_ipperf.report.page.html.badges import decision_class, verdict_class
from pytest_ipperf.report.page.html.markup import NOTHING, Markup, element, joined
from pytest_ipperf.report.page.problems.card import Context, Problem, card
from pytest_ipperf.report.tables.component_rows import verdict_text

_CARDS = 20
"""Number of cards; the list of all cells has the others."""
_FEW = 8
"""Number of problems up to which the first two cards are open, of more only the first."""
_WORST = ("exceeds", "invalid", "inconclusive")


def problems(records: Iterable[Record], night: NightReport | None) -> list[Problem]:
    """Return the cells that are not green, the worst first; a design that never judges has none."""
    if night:
        cells = sorted(
            (cell for cell in night.cells if cell.decision in _SHOWN), key=lambda cell: RANK.index(cell.decision)
        )
        return [
            Problem(key=cell.key, record=cell.record, word=cell.decision.value, class_=decision_class(cell.decision),
                    sentence=cell.sentence, decision=cell.decision)
            for cell in cells
        ]  # fmt: skip
    found = [record for record in latest(records) if record.verdict in _WORST and not record.twin]
    found.sort(key=lambda record: (_WORST.index(record.verdict), -worse_by(record)))
    return [
        Problem(key=record.key, record=record, word=verdict_text(record), class_=verdict_class(record.verdict),
                sentence=record.sentence)
        for record in found
    ]  # fmt: skip


_SHOWN = frozenset(RANK) - {GateDecision.WITHIN, GateDecision.UNJUDGED}


def cards(found: Sequence[Problem], context: Context) -> Markup:
    """Return the cards; of very many problems the first, with the number of the others."""
    shown = found[:_CARDS]
    open_cards = 2 if len(found) <= _FEW else 1
    ids = {problem.key: number for number, problem in reversed(list(enumerate(shown)))}
    parts = [
        card(problem, context, is_open=number < open_cards, is_named=ids[problem.key] == number)
        for number, problem in enumerate(shown)
    ]
    if len(found) > len(shown):
        link = element("a", "all cells", href="#cells")
        parts.append(element("p", f"{len(found) - len(shown)} more are in the list of ", link, ".", class_="soft"))
    return joined(parts) if parts else NOTHING


def carded(found: Sequence[Problem]) -> Sequence[Problem]:
    """Return the problems that have a card."""
    return found[:_CARDS]
