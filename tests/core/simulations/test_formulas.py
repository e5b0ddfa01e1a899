import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.portable.errors import InvalidError
from tests.core.simulations.formulas import newcombe, wilson

counts = st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


def test_wilson_known_answer():
    """Newcombe's own example: 81 of 263 gives .2553 to .3662."""
    interval = wilson(81, 263)
    assert interval.low == pytest.approx(0.2553, abs=5e-5)
    assert interval.high == pytest.approx(0.3662, abs=5e-5)
    assert interval.estimate == 81 / 263


@given(counts, st.floats(0.5, 0.999))
def test_wilson_stays_a_share_around_its_estimate(count, confidence):
    failed, attempted = count
    interval = wilson(failed, attempted, confidence)
    assert 0 <= interval.low <= interval.estimate <= interval.high <= 1


@given(counts)
def test_wilson_of_successes_mirrors_that_of_failures(count):
    failed, attempted = count
    of_failures, of_successes = wilson(failed, attempted), wilson(attempted - failed, attempted)
    assert of_successes.low == pytest.approx(1 - of_failures.high, abs=1e-12)


@pytest.mark.parametrize(("failed", "attempted"), [(0, 0), (2, 1), (-1, 5)])
def test_wilson_names_impossible_counts(failed, attempted):
    with pytest.raises(InvalidError) as caught:
        wilson(failed, attempted)
    assert str(caught.value) == (
        f"{failed} failures of {attempted} connections are impossible; there must be at least one"
    )


@pytest.mark.parametrize(
    ("counted", "low", "high"),
    [
        # Newcombe 1998, table II, method 10.
        ((56, 70, 48, 80), 0.0524, 0.3339),
        ((10, 10, 0, 20), 0.6791, 1.0),
        # MITRE's footnote 12: 3 failures of 100 against none of 100.
        ((3, 100, 0, 100), -0.012, 0.085),
    ],
)
def test_newcombe_known_answers(counted, low, high):
    interval = newcombe(*counted)
    assert interval.low == pytest.approx(low, abs=5e-4)
    assert interval.high == pytest.approx(high, abs=5e-4)


@given(counts, counts)
def test_newcombe_mirrors_when_the_arms_are_swapped(test, reference):
    there, back = newcombe(*test, *reference), newcombe(*reference, *test)
    assert there.estimate == -back.estimate
    assert there.low == pytest.approx(-back.high, abs=1e-12)
    assert there.high == pytest.approx(-back.low, abs=1e-12)


@given(counts, counts)
def test_newcombe_stays_a_difference_of_shares(test, reference):
    interval = newcombe(*test, *reference)
    assert -1 - 1e-12 <= interval.low <= interval.estimate <= interval.high <= 1 + 1e-12
