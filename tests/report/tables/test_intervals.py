"""The interval that decides is printed first; older records keep theirs."""

import dataclasses

import pytest

from pytest_ipperf.core.records.change_interval import ChangeInterval
from pytest_ipperf.core.records.first_estimate import FirstEstimate
from pytest_ipperf.report.tables.cell_results import change_text
from pytest_ipperf.report.tables.intervals import deciding_interval, levels_text, wider_interval


@pytest.fixture
def cell(factory):
    return factory.application("http", 10, "ipv6", 1.01)


def decides(record) -> ChangeInterval:
    found = deciding_interval(record)
    assert found is not None
    return found


def ends(record) -> ChangeInterval:
    found = wider_interval(record)
    assert found is not None
    return found


def test_the_interval_has_the_one_sided_bounds_as_its_ends(cell):
    found = decides(cell)
    assert (found.low, found.high, found.title) == (cell.lower_bound, cell.upper_bound, "90 % interval")
    assert change_text(cell).endswith(found.text)
    assert ends(cell).title == "95 % interval"


def test_at_the_level_of_several_looks_it_is_the_wider_one(cell):
    half = cell.high - cell.low
    bounds = {"alpha": 0.0158, "lower_bound": cell.low - half, "upper_bound": cell.high + half}
    several = dataclasses.replace(cell, **bounds)
    assert decides(several).title == "96.84 % interval"
    assert wider_interval(several) is None


def test_the_bounds_of_failures_have_two_levels(factory, cell):
    _, part = factory.failing(cell, 0.002).parts()
    assert decides(part).title == "94 % interval"


def test_fresh_epochs_have_the_level_at_which_they_confirm(cell):
    first = FirstEstimate(
        estimate=12.0, lower_bound=10.5, upper_bound=13.5, alpha=0.05, epochs=6, level=0.01, sentence="..."
    )
    assert decides(dataclasses.replace(cell, confirms=first)).title == "94 % interval"


def test_a_record_without_bounds_keeps_its_interval(cell):
    older = dataclasses.replace(cell, lower_bound=None, upper_bound=None)
    assert (decides(older).title, wider_interval(older)) == ("95 % interval", None)
    assert levels_text([cell, older, cell]) == "90 % or 95 %"


def test_a_design_that_never_judges_has_none(cell):
    smoke = dataclasses.replace(cell, judges=False)
    assert (deciding_interval(smoke), wider_interval(smoke), levels_text([smoke])) == (None, None, "")
    assert "[" not in change_text(smoke)
