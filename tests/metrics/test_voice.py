"""R factor and MOS of a run of calls."""

from __future__ import annotations

import math
from array import array

import pytest

from pytest_ipperf.core.measurement.run_data import RunData
from pytest_ipperf.core.stats.e_model import Connection, mean_opinion_score, r_factor
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.protocols import PROTOCOLS

GAP_S = 0.02


def calls(delays_s, lost=frozenset(), *, sent=100, **facts):
    """Return a run of streams, each a direction with a delay; the packets of these numbers are lost in all."""
    rows = [
        (direction, stream, number, number * GAP_S, number * GAP_S + delay_s)
        for stream, (direction, delay_s) in enumerate(delays_s)
        for number in range(sent)
        if number not in lost
    ]
    count = {way: sum(direction == way for direction, _ in delays_s) for way in (0, 1)}
    codec = {"ie": 0.0, "bpl": 4.3, "codec_delay_s": 0.02, "clock_error_s": 0.0}
    return RunData(
        attempted=sent * len(delays_s),
        failed={"lost": len(lost) * len(delays_s)} if lost else {},
        columns=PROTOCOLS["voip"].columns,
        samples=array("d", [each for row in rows for each in row]),
        deadline_s=10.0,
        facts={"up_sent": sent * count[0], "down_sent": sent * count[1], **codec, **facts},
    )


def value(name, outcome):
    return METRICS[name].value(outcome)


def test_both_directions_of_a_call_are_rated_with_their_delays():
    found = value("r_factor", calls([(0, 0.01), (1, 0.11)]))
    there_s, back_s = 0.01 + 0.05 + 0.02, 0.11 + 0.05 + 0.02
    echo = {"echo_delay_s": (there_s + back_s) / 2, "round_trip_s": there_s + back_s}
    each = [r_factor(Connection(delay_s=delay_s, **echo)) for delay_s in (there_s, back_s)]
    assert found == pytest.approx(sum(each) / 2)


def test_losses_lower_it_by_the_codecs_robustness():
    lost = frozenset(range(10, 100, 25))
    weak, robust = (value("r_factor", calls([(0, 0.0), (1, 0.0)], lost, bpl=bpl)) for bpl in (4.3, 25.1))
    clear = value("r_factor", calls([(0, 0.0), (1, 0.0)]))
    assert clear - weak == pytest.approx(95 * 4 / (4 + 4.3), abs=0.01)
    assert clear - robust == pytest.approx(95 * 4 / (4 + 25.1), abs=0.01)


def test_the_score_is_the_mean_of_those_of_the_calls():
    outcome = calls([(0, 0.0), (0, 0.4)])
    good, bad = (r_factor(Connection(delay_s=at, echo_delay_s=at, round_trip_s=2 * at)) for at in (0.07, 0.47))
    back = r_factor(Connection(delay_s=0.07, echo_delay_s=0.07, round_trip_s=0.14))
    assert back == good
    assert value("mos", outcome) == pytest.approx((mean_opinion_score(good) + mean_opinion_score(bad)) / 2)


def test_a_direction_of_which_nothing_arrives_is_not_understood():
    one_way = calls([(0, 0.0)], sent=50, down_sent=50)
    assert value("r_factor", one_way) == pytest.approx((value("r_factor", calls([(0, 0.0)])) + 1) / 2)
    assert value("mos", calls([], up_sent=50, down_sent=50)) == 1


@pytest.mark.parametrize("name", ["r_factor", "mos"])
def test_runs_without_a_codec_or_with_different_clocks_have_none(name):
    assert value(name, calls([(0, 0.0)], clock_error_s=0.006)) is None
    assert value(name, calls([(0, 0.0)], clock_error_s=math.inf)) is None
    assert value(name, calls([])) is None
    bare = calls([(0, 0.0)])
    facts = {key: each for key, each in bare.facts.items() if key not in ("ie", "bpl", "codec_delay_s")}
    assert value(name, RunData(**{**{field: getattr(bare, field) for field in bare.__slots__}, "facts": facts})) is None
    assert value(name, calls([(0, 0.0)], clock_error_s=0.004))


def test_voice_has_both():
    assert {"r_factor", "mos"} <= set(PROTOCOLS["voip"].metrics)
    assert METRICS["r_factor"].metric.direction == "higher_is_better"
