"""Counts of a stream's arrivals, against the RFCs' examples and properties of their own."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.agent.flows.udp import counter as room
from pytest_ipperf.core.stats.stream_loss import reordered_share


@dataclass(frozen=True)
class Counts:
    arrived: int
    unique: int
    reordered: int

    @property
    def duplicates(self):
        return self.arrived - self.unique


def tally(arrived, base=0):
    """Return the counter after noting the numbers in two parts, as real ones come in several."""
    found = room.SequenceCounter(base)
    numbers = [int(each) for each in arrived]
    found.note(numbers[: len(numbers) // 2])
    found.note(numbers[len(numbers) // 2 :])
    return Counts(found.unique + found.duplicates, found.unique, found.reordered)


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
    """Section 7: one, two and three late packets."""
    found = tally(arrived)
    assert found == Counts(len(arrived), len(arrived), len(reordered))
    assert reordered_share(found.reordered, found.unique) == len(reordered) / len(arrived)


@pytest.mark.parametrize(
    ("arrived", "counted"),
    [
        ([], Counts(0, 0, 0)),
        ([0, 1, 2], Counts(3, 3, 0)),
        ([0, 5, 9], Counts(3, 3, 0)),
        ([2, 1, 0], Counts(3, 3, 2)),
        ([0, 0, 0, 1], Counts(4, 2, 0)),
        ([0, 2, 1, 1, 2], Counts(5, 3, 1)),
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
    assert tally([first + each for each in arrived], first) == tally(arrived)


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
