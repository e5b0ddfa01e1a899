"""The token bucket of a link with a rate, and the serialisation time that it leaves out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.measurement.goodput_ceiling import FRAME_BYTES
from pytest_ipperf.core.measurement.token_bucket import FULL_PACKET_BYTES, bucket_bytes, lacking_s


@pytest.mark.parametrize(("rate_bit_s", "size"), [(2e6, 1563), (1e8, 2788), (1e9, 14038)])
def test_a_bucket_holds_a_packet_and_what_the_rate_carries_in_a_tenth_of_a_millisecond(rate_bit_s, size):
    assert bucket_bytes(rate_bit_s) == size


@given(st.floats(1e3, 4e10))
def test_every_packet_of_ethernet_fits_in(rate_bit_s):
    """A token bucket drops a packet that is larger than itself."""
    assert FULL_PACKET_BYTES == 1500 + FRAME_BYTES
    assert bucket_bytes(rate_bit_s) > FULL_PACKET_BYTES


def test_a_small_message_lacks_all_of_its_serialisation_and_a_large_one_the_bucket():
    assert lacking_s(1e8, 130) == pytest.approx(10.4e-6)
    assert lacking_s(1e8, 1e6) == pytest.approx(223.04e-6)
