"""Schedules of traffic models, and the talk spurts of conversations."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.traffic.distribution import Distribution, Variable
from pytest_ipperf.core.portable.traffic.model import DOWN, UP, Stream, TrafficModel
from pytest_ipperf.core.portable.traffic.schedule import packets

FRAME_S = 0.02


def variable(name, **parameters):
    return Variable((Distribution(name=name, parameters=parameters),))


def model(*streams, **more):
    return TrafficModel(name="m", title="m", source="here", streams=streams, **more)


def voice(direction=UP, **more):
    return Stream(direction=direction, interval_s=Variable.of(FRAME_S), size_bytes=Variable.of(172), **more)


def planned(of, direction=UP, connections=1, seed="7", *, least_bytes=16, until_s=10.0):
    return list(packets(of, direction, connections, seed, least_bytes=least_bytes, until_s=until_s))


RANDOM = Stream(
    direction=UP,
    interval_s=variable("exponential", mean=0.01),
    size_bytes=variable("normal", mean=60, sd=40),
)

models = st.builds(
    lambda up, down: model(*[RANDOM] * up, *[replace(RANDOM, direction=DOWN)] * down),
    st.integers(1, 3),
    st.integers(0, 2),
)
seeds = st.text("0123456789abcdef", min_size=1, max_size=8)


@given(models, st.integers(1, 5), seeds, st.floats(0.1, 2))
def test_packets_come_in_the_order_of_their_instants_and_each_stream_counts_from_0(of, connections, seed, until_s):
    found = planned(of, UP, connections, seed, until_s=until_s)
    assert [packet.due_s for packet in found] == sorted(packet.due_s for packet in found)
    assert all(0 <= packet.due_s < until_s for packet in found)
    by_stream: dict[int, list[int]] = {}
    for packet in found:
        by_stream.setdefault(packet.stream, []).append(packet.number)
    assert all(numbers == list(range(len(numbers))) for numbers in by_stream.values())


@given(models, st.integers(1, 4), seeds)
def test_a_stream_does_not_depend_on_how_many_others_there_are(of, connections, seed):
    few, more = (planned(of, UP, count, seed, until_s=0.5) for count in (connections, connections + 3))
    highest = connections * len(of.streams)
    assert few == [packet for packet in more if packet.stream < highest]


@given(models, seeds, st.floats(0.1, 0.5), st.floats(0.5, 1))
def test_a_longer_schedule_begins_like_a_shorter_one(of, seed, short_s, long_s):
    short, long = (planned(of, UP, 2, seed, until_s=until_s) for until_s in (short_s, long_s))
    assert long[: len(short)] == short


@given(models, seeds, st.integers(16, 200))
def test_sizes_are_at_least_those_of_a_header(of, seed, least_bytes):
    found = planned(of, UP, 2, seed, least_bytes=least_bytes, until_s=0.5)
    assert all(least_bytes <= packet.size_bytes <= 65507 for packet in found)


def test_streams_of_both_directions_have_different_numbers():
    of = model(voice(UP), voice(DOWN))
    up, down = ({packet.stream for packet in planned(of, way, 3)} for way in (UP, DOWN))
    assert (up, down) == ({0, 2, 4}, {1, 3, 5})


def test_another_seed_gives_another_schedule_unless_the_model_has_its_own():
    of = model(RANDOM)
    assert planned(of, seed="1") != planned(of, seed="2")
    own = replace(of, seed="fixed")
    assert planned(own, seed="1") == planned(own, seed="2")


def test_a_constant_stream_keeps_its_interval_and_begins_anywhere_in_the_first_one():
    found = planned(model(voice()), connections=200, until_s=0.02)
    assert len(found) == 200
    assert np.histogram([packet.due_s for packet in found], bins=4, range=(0, 0.02))[0].min() > 20
    one = planned(model(voice()))
    assert len(one) == 500
    assert [later.due_s - packet.due_s for packet, later in pairwise(one)] == pytest.approx([FRAME_S] * 499)


def test_a_model_with_a_duration_ends_after_it():
    assert planned(model(voice(), duration_s=1.0))[-1].due_s == pytest.approx(0.99, abs=0.01)


def test_without_its_payload_a_model_has_no_schedule():
    of = model(replace(voice(), size_bytes=None))
    assert of.takes_payload
    with pytest.raises(ValueError, match="traffic model m has no payload yet"):
        planned(of)
    assert {packet.size_bytes for packet in planned(of.with_payload(99))} == {99}


def test_a_stream_with_spurts_marks_the_first_packet_of_each_and_is_silent_between():
    of = model(voice(talk_s=Variable.of(1.0), pause_s=Variable.of(1.5)))
    found = planned(of, until_s=100)
    gaps = [later.due_s - packet.due_s for packet, later in pairwise(found)]
    assert [later.first for later in found[1:]] == [gap > 1.5 * FRAME_S for gap in gaps]
    assert found[0].first
    assert sum(packet.first for packet in found) == pytest.approx(40, abs=1)
    assert len(found) == pytest.approx(100 / 2.5 * 50, rel=0.05)


def test_a_conversation_talks_as_much_as_p59_says():
    """A cycle is 0.854 s of single talk, then 0.226 s of double talk (40 %) or 0.456 s of silence (60 %)."""
    cycle_s = 0.854 + 0.4 * 0.226 + 0.6 * 0.456
    share, double = (0.854 / 2 + 0.4 * 0.226) / cycle_s, 0.4 * 0.226 / cycle_s
    of = model(voice(UP), voice(DOWN), conversation=True)
    calls, until_s = 40, 200.0
    both = {}
    for way in (UP, DOWN):
        found = planned(of, way, calls, until_s=until_s)
        both[way] = {(packet.stream // 2, round(packet.due_s / FRAME_S)) for packet in found}
        assert len(found) * FRAME_S / (calls * until_s) == pytest.approx(share, rel=0.03)
    talked_together = len(both[UP] & both[DOWN]) * FRAME_S / (calls * until_s)
    assert talked_together == pytest.approx(double, rel=0.12)
    assert talked_together < 0.6 * share * share


def test_the_calls_of_a_load_do_not_talk_all_at_once():
    found = planned(model(voice(UP), voice(DOWN), conversation=True), connections=300, until_s=FRAME_S)
    assert 300 * 0.30 < len(found) < 300 * 0.56


def test_a_conversation_has_no_spurts_of_its_own():
    with pytest.raises(UsageError, match="a conversation has its own talk spurts"):
        model(voice(talk_s=Variable.of(1), pause_s=Variable.of(1)), conversation=True)


def test_a_stream_with_one_of_talk_and_pause_is_refused():
    with pytest.raises(UsageError, match="talk and pause of a stream go together"):
        voice(talk_s=Variable.of(1))
    with pytest.raises(UsageError, match="direction 'side' of a stream does not exist; there are up and down"):
        voice("side")
    assert math.isinf(model(voice()).duration_s)
