"""What verdicts cannot tell is said: wrong ones among many cells, and rare outages."""

import dataclasses

import pytest

from pytest_ipperf.report.tables.cautions import multiplicity, outage_notes
from pytest_ipperf.report.workload_kinds import tables


@pytest.fixture
def cells(factory):
    return [factory.application("http", count, "ipv6", 1.01) for count in range(1, 13)]


def test_many_cells_are_each_judged_alone(cells):
    assert multiplicity(cells) == (
        "12 cells, each judged alone at 5 %: if all were just at their margins, expect 0.6 to exceed wrongly, and at "
        "least one in 46 % of such sessions; --ipperf-confirm=yes measures cells that exceed again, in fresh epochs"
    )
    assert multiplicity([dataclasses.replace(each, looks=5, alpha=0.0158) for each in cells]) == multiplicity(cells)


def test_only_judged_cells_count_each_once(cells, factory):
    unasked = dataclasses.replace(cells[1], verdict="measured")
    unjudged = dataclasses.replace(cells[2], verdict="unjudged", judges=False)
    twin = factory.application("http", 1, "ipv4-twin", 1.0)
    assert multiplicity([cells[0], cells[0], unasked, unjudged, twin]) == ""
    assert multiplicity(cells[:2]).startswith("2 cells, each judged alone at 5 %")


@pytest.mark.parametrize(("runs", "share"), [(12, "22"), (30, "9.5"), (90, "3.3")])
def test_a_table_names_the_outages_that_its_runs_can_miss(factory, runs, share):
    cell = factory.application("http", 10, "ipv6", 1.01, epochs=runs // 2, blocks=2)
    line = f"{runs} runs: an outage that hits fewer than {share} % of runs can have been missed."
    assert outage_notes([cell]) == [line]
    assert line in tables([cell])


def test_neither_a_design_that_never_judges_nor_a_flow_names_outages(cells, made):
    smoke = dataclasses.replace(cells[0], judges=False)
    assert outage_notes([smoke]) == []
    assert not [line for line in tables([smoke, made.study()[0]]) if "outage" in line]
