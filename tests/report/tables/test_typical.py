"""Where the means say something else than the change, the values to which it belongs stand beside it."""

import dataclasses

import pytest

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.report.tables.verdict_rows import means_disagree, typical_notes, typical_text
from pytest_ipperf.report.workload_kinds import tables


def cell(factory, **change):
    """Return a cell with a change of +1 % or so, a typical 10 ms, and the given summary of its test arm."""
    found = factory.application("http", 10, "ipv6", 1.01)
    return dataclasses.replace(found, reference_typical=0.01, test=dataclasses.replace(found.test, **change))


def test_means_that_agree_with_the_change_have_no_further_row(factory):
    assert not means_disagree(cell(factory))
    assert not [line for line in tables([cell(factory)]) if "ypical" in line]


@pytest.mark.parametrize("skew", [0.5, 3.0])
def test_means_beyond_the_interval_have_the_typical_values_beside_them(factory, skew):
    means = cell(factory).test.values
    skewed = dataclasses.replace(cell(factory, values=tuple(skew * each for each in means)), estimate=1.0)
    assert means_disagree(skewed)
    shown = [" ".join(line.split()) for line in tables([skewed])]
    at = shown.index("typical, from IPv4 10.0 -> 10.1")
    assert shown[at + 1] == "change +1.0 %"
    assert len(typical_notes([skewed])) == 2


def test_another_sign_disagrees_and_without_an_interval_a_large_difference_does(factory):
    found = cell(factory)
    means = found.test.mean / found.reference.mean
    assert means > 1
    assert means_disagree(dataclasses.replace(found, estimate=-0.1, lower_bound=-20.0, upper_bound=20.0))
    smoke = dataclasses.replace(found, judges=False)
    assert not means_disagree(smoke)
    assert means_disagree(dataclasses.replace(smoke, estimate=328.0))


def test_older_records_and_differences_have_no_typical_value(factory):
    older = dataclasses.replace(cell(factory), reference_typical=None, estimate=328.0)
    assert not means_disagree(older)
    assert typical_text(older, str) == ""
    assert older.test.arm == Arm(6, "native")
