"""The ceiling, held against figures known from elsewhere and against a link that sends one packet after another."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.measurement.goodput_ceiling import (
    FRAME_BYTES,
    HeaderOverhead,
    ceiling_bit_s,
    goodput_excess,
    header_cost,
)
from pytest_ipperf.transports import TRANSPORTS

OVERHEADS = st.builds(
    HeaderOverhead,
    ipver=st.sampled_from([4, 6]),
    overhead_bytes=st.sampled_from([0, 20]),
    datagram=st.booleans(),
    stamps=st.booleans(),
    mtu=st.integers(576, 9000),
)
RATES = st.floats(1e3, 1e11)


def of(ipver, transport="native", **kept):
    return HeaderOverhead(ipver=ipver, overhead_bytes=TRANSPORTS[transport].overhead_bytes, **kept)


@pytest.mark.parametrize(
    ("ipver", "transport", "tcp", "udp"),
    [
        (4, "native", 94.15, 95.50),
        (6, "native", 92.85, 94.21),
        (6, "tunnel", 91.55, 92.96),
        (6, "isatap", 91.55, 92.96),
    ],
)
def test_the_four_paths_at_100_mbit(ipver, transport, tcp, udp):
    """TCP with stamps in full segments, and UDP with 1400 bytes in each datagram."""
    assert round(ceiling_bit_s(100e6, of(ipver, transport)) / 1e6, 2) == tcp
    assert round(ceiling_bit_s(100e6, of(ipver, transport, datagram=True), 1400) / 1e6, 2) == udp


@pytest.mark.parametrize(
    ("frame", "per_s"), [(64, 14880), (128, 8445), (256, 4528), (512, 2349), (1024, 1197), (1280, 961), (1518, 812)]
)
def test_frames_are_as_many_as_rfc_2544_has_in_its_appendix_b(frame, per_s):
    """The RFC counts frames with header and check sequence, without preamble and gap, at 10 Mbit/s."""
    overhead = HeaderOverhead(ipver=4, datagram=True)
    payload = frame - 18 - overhead.header_bytes
    assert math.floor(ceiling_bit_s(10e6, overhead, payload) / 8 / payload) == per_s


@pytest.mark.parametrize(
    ("overhead", "room"),
    [
        (of(4), 1448),
        (of(4, stamps=False), 1460),
        (of(6), 1428),
        (of(6, "tunnel"), 1408),
        (of(6, "isatap", stamps=False), 1420),
        (of(4, datagram=True), 1472),
        (of(6, datagram=True, mtu=1280), 1232),
    ],
)
def test_the_largest_payload_of_a_packet(overhead, room):
    assert overhead.max_payload_bytes == room


@pytest.mark.parametrize("payload", [-1, 1429])
def test_what_is_in_no_packet_has_no_share(payload):
    with pytest.raises(ValueError, match=f"has room for 1 to 1428 bytes, not {payload}"):
        of(6).payload_share(payload)


@pytest.mark.parametrize(
    ("overhead", "payload", "wire"),
    [
        # RFC 791: 1480 bytes of an IPv4 fragment are payload, the UDP header in the first one.
        (of(4, datagram=True), 1473, 1473 + 8 + 2 * (20 + 38)),
        (of(4, datagram=True), 8192, 8192 + 8 + 6 * (20 + 38)),
        (of(4, datagram=True), 65507, 65507 + 8 + 45 * (20 + 38)),
        # RFC 8200, section 4.5: 1448 of 1452 bytes, as each but the last holds a multiple of 8.
        (of(6, datagram=True), 1453, 1453 + 8 + 2 * (48 + 38)),
        (of(6, datagram=True), 65507, 65507 + 8 + 46 * (48 + 38)),
        (of(6, "isatap", datagram=True), 65507, 65507 + 8 + 46 * (68 + 38)),
    ],
)
def test_a_datagram_that_no_packet_holds_travels_in_fragments(overhead, payload, wire):
    assert overhead.payload_share(payload) == payload / wire


@pytest.mark.parametrize(
    ("overhead", "percent"),
    [
        # Table 1 of paper 004, corrected: it cuts off 55.555... and 65.217... after two digits.
        (of(4, stamps=False), "55.56"),
        (of(6, stamps=False), "65.22"),
        (of(4, datagram=True), "46.67"),
        (of(6, datagram=True), "60.00"),
        # 20 bytes of a second IP header more: 80 of 112, and 68 of 100.
        (of(6, "tunnel", stamps=False), "71.43"),
        (of(6, "isatap", datagram=True), "68.00"),
        # With TCP's timestamps: 52 of 84, and 72 of 104.
        (of(4), "61.90"),
        (of(6), "69.23"),
    ],
)
def test_the_overhead_of_32_bytes_is_that_of_table_1_of_paper_004(overhead, percent):
    assert f"{100 * overhead.overhead_share(32):.2f}" == percent


@pytest.mark.parametrize(
    ("overhead", "payload", "packets", "ip_bytes"),
    [
        (of(4, datagram=True), 1472, 1, 1500),
        (of(4, datagram=True), 1473, 2, 1473 + 8 + 2 * 20),
        (of(6, datagram=True), 1452, 1, 1500),
        (of(6, datagram=True), 1453, 2, 1453 + 8 + 2 * 48),
        (of(4, datagram=True), 65496, 45, 65504 + 45 * 20),
        (of(6, datagram=True), 65496, 46, 65504 + 46 * 48),
        (of(6, "tunnel", datagram=True), 1432, 1, 1500),
        (of(6, "tunnel", datagram=True), 65496, 46, 65504 + 46 * 68),  # 1432 bytes in each, a multiple of 8
        # TCP sends no fragments: 45 segments of 1460 bytes, 46 of 1448, 46 of 1440.
        (of(4, stamps=False), 65496, 45, 65496 + 45 * 40),
        (of(4), 65496, 46, 65496 + 46 * 52),
        (of(6, stamps=False), 65496, 46, 65496 + 46 * 60),
        (of(6, "isatap"), 1409, 2, 1409 + 2 * 92),
    ],
)
def test_a_message_takes_so_many_packets_and_bytes(overhead, payload, packets, ip_bytes):
    assert (overhead.packets(payload), overhead.ip_bytes(payload)) == (packets, ip_bytes)
    assert overhead.overhead_share(payload) == pytest.approx((ip_bytes - payload) / ip_bytes)


def test_headers_cost_what_the_ceilings_differ_by():
    four, isatap = of(4, datagram=True), of(6, "isatap", datagram=True)
    assert header_cost(isatap, four, 1400) == pytest.approx(1 - (1466 / 1506))
    assert header_cost(four, isatap, 1400) == 0


@given(OVERHEADS, st.data())
def test_the_share_grows_with_the_payload_and_never_reaches_all(overhead, data):
    less, more = sorted(
        data.draw(st.lists(st.integers(1, overhead.max_payload_bytes), min_size=2, max_size=2, unique=True))
    )
    assert 0 < overhead.payload_share(less) < overhead.payload_share(more) <= overhead.payload_share() < 1


@given(OVERHEADS, RATES, st.floats(0.01, 100))
def test_the_ceiling_grows_with_the_rate_in_proportion(overhead, rate, factor):
    assert ceiling_bit_s(rate * factor, overhead) == pytest.approx(factor * ceiling_bit_s(rate, overhead))


@given(RATES, st.booleans())
def test_each_header_more_costs_goodput(rate, datagram):
    native4, native6 = (ceiling_bit_s(rate, of(ipver, datagram=datagram)) for ipver in (4, 6))
    assert native4 > native6 > ceiling_bit_s(rate, of(6, "tunnel", datagram=datagram))


@given(OVERHEADS, RATES, st.integers(0, 10**6), st.integers(1, 5000))
def test_who_sends_one_packet_after_another_after_a_bucketful_exceeds_nothing_and_who_is_faster_does(
    overhead, rate, bucket, packets
):
    wire = packets * (overhead.mtu + FRAME_BYTES)
    moved, time_s = packets * overhead.max_payload_bytes, max(0.0, (wire - bucket) * 8 / rate)
    allowed = {"rate_bit_s": rate, "overhead": overhead, "bucket_bytes": bucket}
    assert goodput_excess(moved, time_s, **allowed) == pytest.approx(0, abs=1e-9)
    faster = goodput_excess(1.02 * moved * max(1, bucket / wire), time_s, **allowed)
    assert faster == pytest.approx(0.02, rel=1e-6)


@given(OVERHEADS, st.integers(1, 1000))
def test_in_no_time_and_without_a_bucket_nothing_may_move(overhead, moved):
    assert goodput_excess(moved, 0.0, rate_bit_s=1e8, overhead=overhead)
    assert not goodput_excess(0, 0.0, rate_bit_s=1e8, overhead=overhead)
