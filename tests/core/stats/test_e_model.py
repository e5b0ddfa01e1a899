"""E-model against published values: ITU-T G.107's own, ITU-T's calculator by way of others, and a table of delays."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.stats.e_model import (
    MOST_R,
    Connection,
    delay_impairment,
    loss_impairment,
    mean_opinion_score,
    r_factor,
)

DELAYS_S = st.floats(0, 2)
SHARES = st.floats(0, 1)
R_OF_TRADITION = 70.0
R_OF_2000 = 94.2
"""R of the default connection in the edition of G.107 that the table of delays was computed by (05/2000, 7.7)."""


def voice(delay_s, **others):
    """Return the connection of a digital network, whose echo takes as long as the speech."""
    return Connection(delay_s=delay_s, echo_delay_s=delay_s, round_trip_s=2 * delay_s, **others)


def test_the_default_connection_has_the_r_of_the_recommendation():
    """G.107 (06/2015), 7.7: with all parameters at their defaults, the calculation results in R = 93.2."""
    assert r_factor(Connection()) == pytest.approx(93.2, abs=0.05)
    assert mean_opinion_score(r_factor(Connection())) == pytest.approx(4.41, abs=0.005)


@pytest.mark.parametrize(("r", "score"), [(90, 4.34), (80, 4.03), (70, 3.60), (60, 3.10), (50, 2.58)])
def test_scores_are_those_of_the_recommendations_table(r, score):
    """G.107 (06/2015), Annex B, Table B.1, which rounds."""
    assert mean_opinion_score(r) == pytest.approx(score, abs=0.01)


def test_the_noise_is_that_of_the_reference_implementation():
    """No and Is at the defaults, as flent (flent/util.py) has them, verified against ITU-T's calculator."""
    noise_dbm, simultaneous = -61.17921438624169, 1.4135680813438616
    without_delay = 15 - 1.5 * (8 + noise_dbm) - simultaneous
    assert r_factor(Connection()) + delay_impairment(Connection()) == pytest.approx(without_delay, abs=1e-4)


@pytest.mark.parametrize(
    ("codec", "ie", "most_ms", "most_with_echo_ms"),
    [
        ("G.711", 0, 400, 291),
        ("G.729", 10, 294, 223),
        ("G.723.1, 6.3 kbit/s", 15, 251, 187),
        ("G.723.1, 5.3 kbit/s", 19, 219, 131),
        ("GSM-EFR", 5, 342, 256),
        ("G.728, 12.8 kbit/s", 20, 210, 106),
        ("GSM-HR", 23, 177, 29),
    ],
)
def test_delays_that_traditional_quality_allows(codec, ie, most_ms, most_with_echo_ms):
    """Telektronikk 97 (2/3), 2001, Internet Traffic Engineering: Table 3 of the article on packetized phone calls.

    These are the delays at which R falls to 70, without any echo, and with an echo loss of 50 dB at both sides: a TELR
    of 60 dB with the loudness ratings of 8 and 2 dB.
    """
    del codec
    no_echo = Connection(delay_s=most_ms / 1e3, ie=ie)
    assert R_OF_2000 - delay_impairment(no_echo) - loss_impairment(no_echo) == pytest.approx(R_OF_TRADITION, abs=0.3)
    echo = voice(most_with_echo_ms / 1e3, ie=ie, telr_db=60)
    assert R_OF_2000 - delay_impairment(echo) - loss_impairment(echo) == pytest.approx(R_OF_TRADITION, abs=0.3)


def test_lost_packets_impair_by_the_codecs_robustness():
    """G.107, (7-29): half of what is left of 95 at a loss of Bpl percent; bursts of twice the length are worse."""
    assert loss_impairment(Connection(loss=0.043)) == pytest.approx(95 / 2)
    assert loss_impairment(Connection(loss=0.19, ie=11, bpl=19)) == pytest.approx(11 + 84 / 2)
    assert loss_impairment(Connection(loss=0.043, burst_ratio=2)) == pytest.approx(95 / 1.5)
    assert loss_impairment(Connection(ie=15, bpl=16.1)) == 15


def test_the_scale_of_scores_ends_at_1_and_4_5():
    assert (mean_opinion_score(-20), mean_opinion_score(0), mean_opinion_score(3)) == (1, 1, 1)
    assert (mean_opinion_score(MOST_R), mean_opinion_score(120)) == (4.5, 4.5)


def test_an_advantage_is_added():
    assert r_factor(Connection(advantage=10)) - r_factor(Connection()) == pytest.approx(10)


@given(DELAYS_S, DELAYS_S, SHARES, SHARES, st.floats(1, 8))
def test_r_never_rises_with_delay_loss_or_bursts(one_s, other_s, loss, more, burst_ratio):
    short_s, long_s = sorted((one_s, other_s))
    few, many = sorted((loss, more))
    best = r_factor(voice(short_s, loss=few))
    assert r_factor(voice(long_s, loss=few)) <= best + 1e-9
    assert r_factor(voice(short_s, loss=many)) <= best + 1e-9
    assert r_factor(voice(short_s, loss=few, burst_ratio=burst_ratio)) <= best + 1e-9


@given(DELAYS_S, SHARES, st.floats(5, 25))
def test_every_connection_has_a_finite_r(delay_s, loss, stmr_db):
    assert math.isfinite(r_factor(voice(delay_s, loss=loss, stmr_db=stmr_db)))
