import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.portable.errors import InvalidError
from pytest_ipperf.core.stats.stream_loss import duplicated_share, loss_share, reordered_share


@given(st.integers(1, 1000).flatmap(lambda sent: st.tuples(st.integers(0, sent), st.just(sent))))
def test_what_was_sent_was_lost_or_arrived(counts):
    unique, sent = counts
    found = loss_share(unique, sent)
    assert found is not None
    assert 0 <= found <= 1
    assert round(found * sent) + unique == sent
    assert (found == 0, found == 1) == (unique == sent, unique == 0)


def test_the_last_ones_are_lost_too():
    """985 of 5492 datagrams arrived; none after the 1556th reached the receiver."""
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
