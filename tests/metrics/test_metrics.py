"""Metrics: each computed by hand-checked examples of the engines' results, and their sentences about failed runs."""

from __future__ import annotations

import math
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.measurement.run_data import RunData
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.protocols import PROTOCOLS

UDP = ("throughput", "jitter", "loss", "ipdv", "pdv", "delay", "reordering", "duplication")
TCP = ("throughput", "transfer_time_ratio", "tcp_efficiency", "buffer_delay")
RTT = ("rtt", "loss")
GAP_S = 0.01
PAYLOAD_BYTES = 1000


def value(name, outcome):
    return METRICS[name].value(outcome)


def outcome(protocol, rows, attempted, lost, facts):
    return RunData(
        attempted=attempted,
        failed={"lost": lost} if lost else {},
        columns=PROTOCOLS[protocol].columns,
        samples=array("d", [each for row in rows for each in row]),
        deadline_s=1.0,
        facts=facts,
    )


def udp(delays_s, sent=None, **facts):
    """Return a run of datagrams of 1000 bytes each 10 ms; those with a delay arrived, in the order of their numbers."""
    sent = len(delays_s) if sent is None else sent
    rows = [
        (number, number * GAP_S, number * GAP_S + delay) for number, delay in enumerate(delays_s) if delay is not None
    ]
    received = [row[2] for row in rows]
    counted = {
        "sent": sent,
        "missed": 0,
        "unique": len(rows),
        "duplicates": 0,
        "reordered": 0,
        "seconds": sent * GAP_S,
        "sent_bit_s": 8 * PAYLOAD_BYTES / GAP_S,
        "received_seconds": max(received) - min(received) if received else 0.0,
        "clock_error_s": 0.0,
    }
    return outcome("udp", rows, sent, sent - len(rows), counted | facts)


def tcp(streams=1, **facts):
    """Return a run of 12 Mbyte in a second on a link of 100 Mbit/s."""
    counted = {
        "seconds": 1.0,
        "payload_bytes": 12e6,
        "sent_bytes": 15e6,
        "retransmitted_bytes": 3e5,
        "rtt_s": 0.032,
        "base_rtt_s": 0.025,
        "ideal_bit_s": 100e6,
    }
    told = {name: each for name, each in (counted | facts).items() if each is not None}
    return outcome("tcp", [], streams, 0, told)


def rtt(times_s, lost=0):
    rows = [(number * GAP_S, time_s) for number, time_s in enumerate(times_s)]
    return outcome("rtt", rows, len(times_s) + lost, lost, {"sent": len(times_s) + lost})


# --- what holds for all -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", METRICS)
def test_each_says_what_it_is(name):
    metric = METRICS[name].metric
    assert metric.name == name
    assert metric.formula
    assert "RFC" in metric.source or "paper" in metric.source
    assert METRICS[name].lacking
    assert not METRICS[name].lacking.endswith(".")
    assert metric.resolution >= 0
    assert metric.location == {"bit/s": "mean", "s": "median"}.get(metric.unit, metric.location)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_a_protocol_yields_is_in_the_registry(protocol):
    assert set(PROTOCOLS[protocol].metrics) <= set(METRICS)


@pytest.mark.parametrize("name", UDP)
def test_of_a_run_that_lost_all_nothing_is_told_but_the_loss(name):
    """A throughput, a jitter or a delay of zero would look like a result."""
    found = value(name, udp([None] * 50))
    assert found == (1.0 if name == "loss" else None)


@pytest.mark.parametrize("name", RTT)
def test_of_probes_that_were_all_lost_nothing_is_told_but_the_loss(name):
    assert value(name, rtt([], lost=20)) == (1.0 if name == "loss" else None)


@pytest.mark.parametrize("name", ["throughput", "transfer_time_ratio"])
def test_of_a_transfer_of_which_nothing_arrived_nothing_is_told(name):
    assert value(name, tcp(payload_bytes=0.0)) is None


@pytest.mark.parametrize(("name", "flow"), [("loss", udp([])), ("loss", rtt([])), ("rtt", rtt([]))])
def test_where_nothing_was_sent_nothing_is_told(name, flow):
    assert value(name, flow) is None


# --- UDP --------------------------------------------------------------------------------------------------------------


def test_udp_throughput_is_what_arrived_over_the_time_of_sending():
    """100 datagrams of 8000 bits in a second, of which 20 were lost."""
    found = udp([None] * 20 + [0.001] * 80)
    assert value("throughput", found) == pytest.approx(640_000)


def test_udp_throughput_of_a_queue_that_is_emptied_after_the_end_is_over_the_time_of_arriving():
    """Sent in a second, received over 1.99 s and one gap."""
    found = udp([0.001 + 0.01 * number for number in range(100)])
    assert value("throughput", found) == pytest.approx(800_000 / 1.99)


def test_udp_throughput_of_a_sender_that_missed_half_of_its_schedule_is_what_it_sent():
    """Every second one of 100 datagrams, from the first to the last but one."""
    half = {"missed": 50, "seconds": 1.0, "sent_bit_s": 400_000, "received_seconds": 0.98}
    assert value("throughput", udp([0.001] * 50, **half)) == pytest.approx(400_000)
    assert value("loss", udp([0.001] * 50, **half)) == 0


def test_second_copies_are_no_throughput():
    plain, doubled = udp([0.001] * 100), udp([0.001] * 100, duplicates=100)
    assert value("throughput", doubled) == value("throughput", plain) == pytest.approx(800_000)


@pytest.mark.parametrize("name", ["jitter", "ipdv", "pdv", "delay"])
def test_of_a_flood_whose_times_nobody_kept_there_are_counts_alone(name):
    facts = {**udp([0.001] * 100).facts, "reordered": 1, "duplicates": 2}
    flood = outcome("udp", [], 100, 0, facts)
    assert value(name, flood) is None
    assert value("throughput", flood) == pytest.approx(800_000)
    assert (value("loss", flood), value("reordering", flood), value("duplication", flood)) == (0, 0.01, 0.02)


def test_variations_by_hand():
    """Delays of 1, 3, 2 and, after a loss, 6 ms: |D| is 2, 1 and 4."""
    found = udp([0.001, 0.003, 0.002, None, 0.006])
    first = 2 / 16
    second = first + (1 - first) / 16
    third = second + (4 - second) / 16
    assert value("jitter", found) == pytest.approx(0.001 * (first + second + third) / 3)
    assert value("ipdv", found) == pytest.approx(0.0015)
    assert value("pdv", found) == pytest.approx(0.005)
    assert value("loss", found) == pytest.approx(0.2)


@pytest.mark.parametrize("name", ["jitter", "ipdv", "pdv"])
def test_one_arrival_varies_not(name):
    assert value(name, udp([0.001, None])) is None


@given(st.lists(st.floats(0.001, 0.005), min_size=2, max_size=30), st.floats(-100, 100))
def test_a_clock_that_is_ahead_is_no_jitter(delays_s, ahead_s):
    ahead = udp([each + ahead_s for each in delays_s], clock_error_s=math.inf)
    for name in ("jitter", "ipdv", "pdv"):
        assert value(name, ahead) == pytest.approx(value(name, udp(delays_s)), abs=1e-9)
    assert value("delay", ahead) is None


@pytest.mark.parametrize(
    ("error_s", "told"), [(0.0, True), (0.0009, True), (0.0011, False), (math.inf, False), (math.nan, False)]
)
def test_a_delay_is_told_where_the_clocks_error_is_small_in_it(error_s, told):
    found = value("delay", udp([0.01] * 5, clock_error_s=error_s))
    assert found == (pytest.approx(0.01) if told else None)


def test_a_delay_below_nothing_is_not_told():
    assert value("delay", udp([-0.01] * 5)) is None


def test_clocks_of_which_nothing_is_known_tell_no_delay():
    facts = {name: each for name, each in udp([0.01]).facts.items() if name != "clock_error_s"}
    assert value("delay", outcome("udp", [(0, 0.0, 0.01)], 1, 0, facts)) is None


def test_the_lost_took_for_ever():
    """The median of 1, 2, 3 and one lost is between 2 and 3; with half of them lost there is none."""
    assert value("delay", udp([0.001, 0.002, 0.003, None])) == pytest.approx(0.0025)
    assert value("delay", udp([0.001, 0.002, None, None])) is None


def test_of_two_copies_the_first_one_has_the_delay():
    rows = [(0, 0.0, 0.002), (1, 0.01, 0.012), (0, 0.0, 0.5)]
    found = outcome("udp", rows, 2, 0, {"clock_error_s": 0.0})
    assert value("delay", found) == pytest.approx(0.002)
    assert value("pdv", found) == pytest.approx(0.0)


def test_reordering_and_duplication_are_of_what_arrived():
    found = udp([0.001] * 80 + [None] * 20, reordered=4, duplicates=8)
    assert value("reordering", found) == 0.05
    assert value("duplication", found) == 0.1


# --- RTT --------------------------------------------------------------------------------------------------------------


def test_the_rtt_is_the_median_of_all_probes():
    assert value("rtt", rtt([0.004, 0.001, 0.002])) == 0.002
    assert value("rtt", rtt([0.004, 0.001, 0.002], lost=1)) == pytest.approx(0.003)
    assert value("rtt", rtt([0.004, 0.001, 0.002], lost=2)) == 0.004
    assert value("loss", rtt([0.004, 0.001, 0.002], lost=1)) == 0.25


@given(st.lists(st.floats(1e-6, 1), min_size=1, max_size=20), st.integers(0, 25))
def test_losing_replies_never_shortens_an_rtt(times_s, lost):
    plain, with_losses = value("rtt", rtt(times_s)), value("rtt", rtt(times_s, lost))
    assert (with_losses is None) == (lost >= len(times_s))
    assert with_losses is None or with_losses >= plain


# --- TCP --------------------------------------------------------------------------------------------------------------


def test_tcp_figures_by_hand():
    """RFC 6349's formulas: 96 Mbit/s of 100, 0.3 of 15 Mbyte repeated, 32 ms on a path of 25."""
    assert value("throughput", tcp()) == pytest.approx(96e6)
    assert value("transfer_time_ratio", tcp()) == pytest.approx(100 / 96)
    assert value("tcp_efficiency", tcp()) == pytest.approx(0.98)
    assert value("buffer_delay", tcp()) == pytest.approx(0.28)


def test_the_windows_of_all_streams_bound_the_ideal():
    """RFC 6349, section 3.3.1: 16 KB in each 5 ms are 25.6 Mbit/s; four of them are more than the link has."""
    window = {"window_bytes": 16e3, "base_rtt_s": 0.005, "payload_bytes": 1.6e6}
    assert value("transfer_time_ratio", tcp(**window)) == pytest.approx(2)
    assert value("transfer_time_ratio", tcp(streams=2, **window)) == pytest.approx(4)
    assert value("transfer_time_ratio", tcp(streams=4, **window)) == pytest.approx(100 / 12.8)
    assert value("transfer_time_ratio", tcp(**window, ideal_bit_s=None)) == pytest.approx(2)


def test_without_an_ideal_no_transfer_is_longer_than_it():
    assert value("transfer_time_ratio", tcp(ideal_bit_s=None)) is None


def test_what_was_not_known_of_the_path_makes_no_figure():
    assert value("buffer_delay", tcp(base_rtt_s=None)) is None
    assert value("buffer_delay", tcp(rtt_s=None)) is None
    assert value("tcp_efficiency", tcp(sent_bytes=0.0, retransmitted_bytes=0.0)) is None
    assert value("tcp_efficiency", tcp(sent_bytes=None, retransmitted_bytes=None)) is None


def test_the_worst_is_what_one_of_a_thousand_exceeds():
    """RFC 8219, section 7.2, as RFC 2330 has percentiles."""
    assert value("worst_delay", udp([0.001 * (1 + number) for number in range(1000)])) == pytest.approx(0.999)
    assert value("worst_rtt", rtt([0.001 * (1 + number) for number in range(2000)])) == pytest.approx(1.998)
    assert value("worst_delay", udp([0.2, 0.1])) == pytest.approx(0.2)


def test_where_more_than_one_of_a_thousand_was_lost_the_worst_is_not_known():
    once, twice = ([0.1] * (1000 - lost) + [None] * lost for lost in (1, 2))
    assert (value("worst_delay", udp(once)), value("worst_delay", udp(twice))) == (pytest.approx(0.1), None)
    assert value("worst_rtt", rtt([0.1] * 998, lost=2)) is None
    assert value("worst_delay", udp([0.1] * 10, clock_error_s=0.02)) is None
    assert value("worst_rtt", rtt([], lost=3)) is None
