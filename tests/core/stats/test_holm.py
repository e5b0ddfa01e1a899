import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.stats.holm import adjusted

p_values = st.dictionaries(st.text("abcdefgh", min_size=1, max_size=3), st.floats(0, 1), max_size=12)
alphas = st.floats(0.001, 0.2)


def shown(found, alpha):
    return {key for key, p in found.items() if p <= alpha}


def test_an_example_by_hand():
    """4 x 0.01, 3 x 0.02, 2 x 0.03 and 1 x 0.04, none less than the one before."""
    found = adjusted({"b": 0.02, "a": 0.01, "d": 0.04, "c": 0.03})
    assert found == pytest.approx({"a": 0.04, "b": 0.06, "c": 0.06, "d": 0.06})
    assert list(found) == ["b", "a", "d", "c"]


def test_a_single_one_stays_as_it_is_and_none_is_none():
    assert adjusted({"a": 0.03}) == {"a": 0.03}
    assert adjusted({}) == {}


@pytest.mark.parametrize("wrong", [math.nan, -0.01, 1.01, math.inf])
def test_what_is_no_p_value_is_refused(wrong):
    """A nan sorted among the others would invalidate all of them."""
    with pytest.raises(ValueError, match=rf"^these are no p-values: {{'b': {wrong}}}$"):
        adjusted({"a": 0.001, "b": wrong, "c": 0.5})


@given(p_values, alphas)
def test_all_that_bonferroni_shows_is_shown_and_nothing_that_is_not_shown_alone(raw, alpha):
    bonferroni = {key for key, p in raw.items() if len(raw) * p <= alpha}
    assert bonferroni <= shown(adjusted(raw), alpha) <= shown(raw, alpha)


@given(p_values)
def test_order_is_kept_and_ties_stay_ties(raw):
    found = adjusted(raw)
    for one in raw:
        assert raw[one] <= found[one] <= 1
        for other in raw:
            assert raw[one] >= raw[other] or found[one] <= found[other]
            assert raw[one] != raw[other] or found[one] == found[other]


@given(p_values, st.randoms(use_true_random=False))
def test_the_order_in_which_cells_come_is_nothing(raw, rng):
    shuffled = list(raw.items())
    rng.shuffle(shuffled)
    assert adjusted(dict(shuffled)) == adjusted(raw)


@given(p_values, st.floats(0, 1))
def test_a_smaller_p_value_makes_none_larger(raw, factor):
    for key in raw:
        found, less = adjusted(raw), adjusted({**raw, key: factor * raw[key]})
        assert all(less[each] <= found[each] for each in raw)


def test_one_error_among_true_hypotheses_is_as_rare_as_the_level():
    """200 cells without anything to find, 4000 times: 4 % +- 4 standard errors of 0.31 points."""
    rng = random.Random("holm")
    wrong = sum(min(adjusted({cell: rng.random() for cell in range(200)}).values()) <= 0.04 for _ in range(4000))
    assert 0.0276 <= wrong / 4000 <= 0.0524
