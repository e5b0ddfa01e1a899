import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.errors import InvalidError
from pytest_ipperf.core.loss import Tally, duplicated_share, loss_periods, loss_share, reordered_share, tally

streams = st.lists(st.integers(0, 60), max_size=80)


@pytest.mark.parametrize(
    ("arrived", "reordered"),
    [
        ([1, 2, 3, 5, 6, 7, 8, 4, 9, 10], [4]),
        ([1, 2, 3, 4, 7, 5, 6, 8, 9, 10], [5, 6]),
        ([1, 2, 3, 7, 8, 9, 10, 4, 5, 6, 11], [4, 5, 6]),
    ],
)
def test_the_examples_of_rfc_4737(arrived, reordered):
    """Its section 7: one packet, two and three of them late."""
    found = tally(arrived)
    assert found == Tally(len(arrived), len(arrived), len(reordered))
    assert reordered_share(found.reordered, found.unique) == len(reordered) / len(arrived)


@pytest.mark.parametrize(
    ("arrived", "counted"),
    [
        ([], Tally(0, 0, 0)),
        ([0, 1, 2], Tally(3, 3, 0)),
        ([0, 5, 9], Tally(3, 3, 0)),
        ([2, 1, 0], Tally(3, 3, 2)),
        ([0, 0, 0, 1], Tally(4, 2, 0)),
        ([0, 2, 1, 1, 2], Tally(5, 3, 1)),
        ([1.0, 0.0], Tally(2, 2, 1)),
    ],
)
def test_what_is_counted(arrived, counted):
    """A gap is no reordering, and a late copy of what has arrived is a duplicate alone."""
    assert tally(arrived) == counted


@given(streams)
def test_every_arrival_is_a_first_copy_or_another(arrived):
    found = tally(arrived)
    assert found.arrived == len(arrived) == found.unique + found.duplicates
    assert found.unique == len(set(arrived))
    assert found.reordered <= max(0, found.unique - 1)


@given(streams, st.integers(0, 10**6))
def test_where_the_numbers_begin_is_irrelevant(arrived, first):
    assert tally([first + each for each in arrived]) == tally(arrived)


@given(st.sets(st.integers(0, 60)), st.randoms(use_true_random=False))
def test_in_order_nothing_is_reordered_and_in_any_other_something_is(numbers, random):
    ordered = sorted(numbers)
    shuffled = random.sample(ordered, len(ordered))
    assert tally(ordered).reordered == 0
    assert bool(tally(shuffled).reordered) == (shuffled != ordered)


@given(st.sets(st.integers(0, 60)), st.data())
def test_copies_that_come_later_leave_all_else_as_it_is(numbers, data):
    once = data.draw(st.permutations(sorted(numbers)))
    copies = data.draw(st.lists(st.sampled_from(once), max_size=10)) if once else []
    plain, doubled = tally(once), tally([*once, *copies])
    assert (doubled.unique, doubled.reordered) == (plain.unique, plain.reordered)
    assert doubled.duplicates == len(copies)


@given(st.integers(1, 1000).flatmap(lambda sent: st.tuples(st.integers(0, sent), st.just(sent))))
def test_what_was_sent_was_lost_or_arrived(counts):
    unique, sent = counts
    found = loss_share(unique, sent)
    assert found is not None
    assert 0 <= found <= 1
    assert round(found * sent) + unique == sent
    assert (found == 0, found == 1) == (unique == sent, unique == 0)


def test_the_last_ones_are_lost_too():
    """985 of 5492 arrived, of which the receiver had seen none after the 1556th."""
    assert loss_share(985, 5492) == pytest.approx(0.8206, abs=5e-5)


def test_where_nothing_was_sent_or_came_there_are_no_shares():
    assert loss_share(0, 0) is None
    assert reordered_share(0, 0) is None
    assert duplicated_share(0, 0) is None
    assert duplicated_share(1, 4) == 0.25


@pytest.mark.parametrize(("unique", "sent"), [(1, 0), (11, 10), (-1, 5)])
def test_more_than_was_sent_cannot_arrive(unique, sent):
    with pytest.raises(InvalidError) as caught:
        loss_share(unique, sent)
    assert str(caught.value) == f"{unique} of {sent} datagrams cannot have arrived; there are between none and all"


def test_the_loss_periods_of_rfc_3357():
    """Its section 4: r r r x r r x x x r x r r x x x has four, which begin at 3, 6, 10 and 13."""
    fates = "rrrxrrxxxrxrrxxx"
    arrived = [number for number, fate in enumerate(fates) if fate == "r"]
    assert list(loss_periods(arrived, len(fates))) == [1, 3, 1, 3]


@pytest.mark.parametrize(
    ("arrived", "sent", "periods"),
    [([], 0, []), ([], 4, [4]), ([0, 1, 2], 3, []), ([2.0], 3, [2]), ([2, 0, 0], 5, [1, 2])],
)
def test_loss_periods_at_the_ends_count(arrived, sent, periods):
    assert list(loss_periods(arrived, sent)) == periods


@given(streams, st.integers(61, 100))
def test_the_loss_periods_hold_all_that_was_lost(arrived, sent):
    assert sum(loss_periods(arrived, sent)) + tally(arrived).unique == sent
