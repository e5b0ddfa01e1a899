"""The result of each cell, in the words that all reports share."""

import dataclasses
from pathlib import Path

import pytest

from pytest_ipperf.core.nightly.report import CellReport, GateDecision
from pytest_ipperf.core.nightly.session_summary import SessionSummary, Trouble
from pytest_ipperf.report.tables.cell_results import ResultKind, cell_results, headline, verdict_of, worst_answers


def summary_of(records, **change):
    session_summary = SessionSummary(
        name="20261122T010000Z-5eed00", folder=Path("/r"), began_at=1795309200.0, seconds=90.0, question={},
        records=tuple(records),
    )  # fmt: skip
    return dataclasses.replace(session_summary, **change)


@pytest.mark.parametrize(
    ("change", "name", "words"),
    [
        ({}, "within", "within"),
        ({"verdict": "exceeds"}, "exceeds", "exceeds"),
        ({"verdict": "measured"}, "measured", "measured, and nothing asked"),
        ({"verdict": "unjudged", "judges": False, "reasons": ("never_judges",)}, "unjudged", "unjudged"),
    ],
)  # fmt: skip
def test_a_verdict_has_one_wording(factory, change, name, words):
    record = dataclasses.replace(factory.application("smtp", 10, "ipv6", 1.0), **change)
    assert verdict_of(record) == words
    assert [(each.code, each.word) for each in cell_results(summary_of([record]))] == [(name, words)]


def test_a_design_that_never_judges_is_neither_green_nor_undecided(factory, golden):
    record = dataclasses.replace(factory.application("smtp", 10, "ipv6", 1.0), verdict="unjudged", judges=False)
    summary = summary_of([record])
    (found,) = cell_results(summary)
    assert (found.kind, found.code) == (ResultKind.UNJUDGED, "unjudged")
    golden(headline(summary, [found]))


@pytest.mark.parametrize("order", [1, -1])
def test_of_several_decisions_of_a_cell_the_worst_counts(factory, order):
    record = factory.application("smtp", 10, "ipv6", 1.0)
    decisions = [GateDecision.WITHIN, GateDecision.ACCEPTED, GateDecision.EXCEEDS, GateDecision.INCONCLUSIVE]
    cells = [
        CellReport(key=record.key, decision=each, sentence="...", screen=dataclasses.replace(record, nodeid=each.name))
        for each in decisions
    ]
    report = dataclasses.replace(factory.night_summary().night, cells=tuple(cells[::order]))
    ((found, code),) = worst_answers(cell_results(summary_of([record], night=report)))
    assert (found.nodeid, code) == ("EXCEEDS", "exceeds")
    mild = dataclasses.replace(report, cells=tuple(cells[:2][::order]))
    assert [code for _, code in worst_answers(cell_results(summary_of([record], night=mild)))] == ["accepted"]


@pytest.mark.parametrize("name", ["t.py::t[{}]", "t.py::t[{}-100k]", "t.py::t[quic-{}]"])
@pytest.mark.parametrize("kind", ["inconclusive", "infrastructure"])
def test_a_cell_in_trouble_is_told_once_whatever_other_parameters_its_test_has(factory, name, kind):
    """The night reports it already; the cell's text may be any part of the text in brackets."""
    summary = factory.night_summary()
    key = summary.night.cells[0].key
    cell = dataclasses.replace(
        summary.night.cells[0], decision=GateDecision.TROUBLE, sentence="bind is gone", screen=None
    )
    trouble = Trouble(nodeid=name.format(key.cell), kind=kind, sentence="bind is gone")
    night = dataclasses.replace(summary.night, cells=(cell,), troubles={trouble.nodeid: trouble.sentence})
    assert [each.key for each in cell_results(dataclasses.replace(summary, troubles=(trouble,), night=night))] == [key]
    # A cell with a longer text is another one.
    longer = dataclasses.replace(trouble, nodeid=f"t.py::t[{key.cell}-twin]")
    other = dataclasses.replace(cell, key=key._replace(cell=f"{key.cell}-twin"), decision=GateDecision.WITHIN)
    night = dataclasses.replace(night, cells=(cell, other), troubles={longer.nodeid: "gone"})
    found = cell_results(dataclasses.replace(summary, troubles=(), night=night))
    assert [each.name for each in found] == [str(key), str(other.key), longer.nodeid]


@pytest.mark.parametrize(
    ("cells", "trouble", "kind"),
    [
        (0, "failed", ResultKind.RED),
        (0, "infrastructure", ResultKind.BROKEN),
        (0, "inconclusive", ResultKind.UNDECIDED),
        (1, "failed", ResultKind.RED),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_tests_without_an_answer_are_no_cells(factory, cells, trouble, kind, golden):
    records = [factory.application("smtp", 10, "ipv6", 1.0)] * cells
    summary = summary_of(records, troubles=(Trouble(nodeid="t.py::t", kind=trouble, sentence="boom"),))
    results = cell_results(summary)
    assert [each.kind for each in results] == [ResultKind.GREEN] * cells + [kind]
    golden(headline(summary, results))
