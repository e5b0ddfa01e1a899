import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.design.metric import Direction
from pytest_ipperf.core.portable.errors import InvalidError
from pytest_ipperf.report.studies.router.grades import GRADES, grade, graded

RATE: Direction = "higher_is_better"
TIME: Direction = "lower_is_better"
ORDER = [each.name for each in GRADES]
ratios = st.floats(0.001, 10)


def place(ratio, direction):
    """Return the rank of a grade; 0 is the best."""
    return ORDER.index(grade(ratio, direction).name)


def test_words_and_colours_are_the_papers():
    assert [(each.name, each.colour) for each in GRADES] == [
        ("excellent", "dark green"),
        ("very good", "green"),
        ("good", "yellow"),
        ("acceptable", "red"),
        ("weak", "dark red"),
    ]


@pytest.mark.parametrize(
    ("least", "most", "name"),
    [
        (0.85, 1.0, "excellent"),
        (0.75, math.nextafter(0.85, 0), "very good"),
        (0.65, math.nextafter(0.75, 0), "good"),
        (0.50, math.nextafter(0.65, 0), "acceptable"),
        (0.0, math.nextafter(0.50, 0), "weak"),
    ],
)
def test_the_ends_of_the_intervals_of_rates(least, most, name):
    assert grade(least, RATE).name == grade(most, RATE).name == name


@pytest.mark.parametrize(
    ("least", "most", "name"),
    [
        (1.0, 20 / 17, "excellent"),
        (math.nextafter(20 / 17, 2), 4 / 3, "very good"),
        (math.nextafter(4 / 3, 2), 20 / 13, "good"),
        (math.nextafter(20 / 13, 2), 2.0, "acceptable"),
        (math.nextafter(2, 3), math.inf, "weak"),
    ],
)
def test_the_ends_of_the_intervals_of_times(least, most, name):
    """Printed as 1.176, 1.333 and 1.538, which are slightly less."""
    assert grade(least, TIME).name == grade(most, TIME).name == name


@pytest.mark.parametrize(
    ("ratio", "direction", "name"),
    [
        (0.985, RATE, "excellent"),
        (0.925, RATE, "excellent"),
        (1.09, TIME, "excellent"),
        (1.13, TIME, "excellent"),
        (1.18, TIME, "very good"),
        (1.225, TIME, "very good"),
        (1.45, TIME, "good"),
    ],
)
def test_the_papers_own_figures_have_the_grades_that_it_tells(ratio, direction, name):
    """Table V, and the sentence before it on the packet loss of IPv6 and ISATAP."""
    assert grade(ratio, direction).name == name


@pytest.mark.parametrize(("ratio", "direction"), [(1.2, RATE), (math.inf, RATE), (0.3, TIME), (0.0, TIME), (-1, TIME)])
def test_better_than_ipv4_is_excellent(ratio, direction):
    assert grade(ratio, direction).name == "excellent"


def test_below_nothing_a_rate_is_weak():
    assert grade(-0.1, RATE).name == "weak"


@given(ratios)
def test_a_multiple_has_the_grade_of_its_reciprocal_as_a_share(ratio):
    if all(not math.isclose(ratio, float(each.least)) for each in GRADES):
        assert grade(ratio, RATE) == grade(1 / ratio, TIME)


@given(ratios, ratios)
def test_grades_fall_as_figures_get_worse(one, other):
    low, high = sorted((one, other))
    assert place(low, RATE) >= place(high, RATE)
    assert place(low, TIME) <= place(high, TIME)


@pytest.mark.parametrize(
    ("low", "high", "direction", "text"),
    [
        (0.96, 0.99, RATE, "excellent"),
        (0.84, 0.86, RATE, "excellent to very good"),
        (0.40, 1.10, RATE, "excellent to weak"),
        (1.15, 1.20, TIME, "excellent to very good"),
        (1.20, 1.60, TIME, "very good to acceptable"),
        (2.10, math.inf, TIME, "weak"),
    ],
)
def test_an_interval_is_graded_by_its_ends(low, high, direction, text):
    assert str(graded(low, high, direction)) == text


@given(ratios, ratios, st.sampled_from([RATE, TIME]), st.floats(0, 1))
def test_whatever_is_in_the_interval_has_no_better_and_no_worse_grade(one, other, direction, share):
    low, high = sorted((one, other))
    found = graded(low, high, direction)
    inside = min(high, max(low, low + share * (high - low)))
    assert ORDER.index(found.best.name) <= place(inside, direction) <= ORDER.index(found.worst.name)


def test_grades_are_in_order():
    assert all(better.least > worse.least for better, worse in pairwise(GRADES))


def test_what_is_no_ratio_has_no_grade():
    with pytest.raises(InvalidError, match=r"^a ratio that is not a number has no grade"):
        grade(math.nan, TIME)
    with pytest.raises(InvalidError, match=r"^the ends of an interval from 2 to 1 are in the wrong order$"):
        graded(2, 1, RATE)
