"""Failed and slow connections are shown beside the metric, and named where they decide."""

import dataclasses

import pytest

from pytest_ipperf.core.design.question import SLOW_SHARE
from pytest_ipperf.report.tables.cell_results import change_text
from pytest_ipperf.report.tables.columns import beside
from pytest_ipperf.report.tables.component_rows import (
    component_lines,
    component_notes,
    component_rows,
    deciding_part,
    verdict_text,
)
from pytest_ipperf.report.workload_kinds import tables


@pytest.fixture
def cell(factory):
    return factory.application("http", 10, "ipv6", 1.01)


def test_failures_have_a_row_with_interval_verdict_and_margin(factory, cell):
    found = {10: factory.failing(cell, 0.002), 100: cell}
    ((title, cells),) = component_rows(found, [10, 100])
    assert (title, cells[1]) == ("  failures", "")
    assert cells[0].startswith("+0.20 pp [")
    assert cells[0].endswith("], within 1 pp")
    assert component_rows({10: cell}, [10]) == []


def test_slow_connections_have_a_row_of_their_own(factory, cell):
    found = factory.failing(factory.failing(cell, 0.002), 0.002, metric=SLOW_SHARE)
    assert [name for name, _ in component_rows({10: found}, [10])] == ["  failures", "  slow connections"]
    assert [line.partition(" +")[0] for line in component_lines(found)] == ["failures", "slow connections"]
    assert len(component_notes([found])) == 3


def test_the_verdict_names_the_component_that_decides(factory, cell):
    green, red = factory.failing(cell, 0.002), factory.failing(cell, 0.03)
    assert (verdict_text(green), verdict_text(red)) == ("within", "exceeds: failed connections")
    assert (deciding_part(green).metric, deciding_part(red).metric) == ("response_time", "failed_share")
    assert change_text(deciding_part(red)).startswith("+3.0 pp [")
    shown = [" ".join(line.split()) for line in tables([red])]
    assert "verdict exceeds: failed connections" in shown
    assert [line for line in shown if line.startswith("failures +3.0 pp [") and line.endswith("], exceeds 1 pp")]


def test_a_metric_that_decides_itself_is_not_named_though_failures_exceed_too(factory):
    found = factory.failing(factory.application("http", 10, "ipv6", 1.3), 0.03)
    assert verdict_text(found) == "exceeds"
    assert deciding_part(found).metric == "response_time"


def test_too_few_connections_give_no_interval(factory, cell):
    (part,) = factory.failing(cell, 0.0).components
    few = dataclasses.replace(part, verdict="unjudged", reasons=("too_few_connections",))
    (line,) = component_lines(dataclasses.replace(cell, components=(few,)))
    assert line == "failures 0 pp, too little data for 1 pp"


def test_columns_of_components_are_empty_without_them(factory, cell):
    found = beside(factory.failing(cell, 0.03))
    assert (found["metric_verdict"], found["failed_verdict"]) == ("within", "exceeds")
    assert found["failed_lower_bound"] > found["failed_margin"]
    assert set(beside(cell).values()) == {"within", None}
    assert list(found) == list(beside(cell))
