"""E-model: transmission rating factor R of a telephone connection, and the mean opinion score that follows from it.

R = Ro - Is - Id - Ie,eff + A. All formulas and defaults are those of ITU-T G.107 (06/2015), whose equation numbers the
comments give; the symbols of the code are those of the Recommendation. Levels are in dB, as there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

MOST_R = 100.0
"""Upper end of the scale of R for narrow-band telephony."""
_BEST_MOS = 4.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """Telephone connection; every default is that of G.107, Table 3.

    Its own parameters are `delay_s` (Ta: from mouth to ear), `echo_delay_s` (T: one way of the talker's echo) and
    `round_trip_s` (Tr), `loss` (Ppl as a share, of packets lost or discarded) and `burst_ratio` (BurstR: the mean
    number of losses in a row, against that of random losses), and those of its codec by ITU-T G.113: `ie` (equipment
    impairment) and `bpl` (robustness against packet loss). `sensitivity` (sT) and `least_perceived_s` (mT) describe
    how much delay disturbs the conversation. The others are loudness ratings, losses of echo paths and noise.
    """

    delay_s: float = 0.0
    echo_delay_s: float = 0.0
    round_trip_s: float = 0.0
    loss: float = 0.0
    burst_ratio: float = 1.0
    ie: float = 0.0
    bpl: float = 4.3
    sensitivity: float = 1.0
    least_perceived_s: float = 0.1
    advantage: float = 0.0
    slr_db: float = 8.0
    rlr_db: float = 2.0
    stmr_db: float = 15.0
    ds: float = 3.0
    dr: float = 3.0
    telr_db: float = 65.0
    wepl_db: float = 110.0
    qdu: float = 1.0
    nc_dbm: float = -70.0
    nfor_dbm: float = -64.0
    ps_db: float = 35.0
    pr_db: float = 35.0


def r_factor(of: Connection) -> float:
    """Return R (7-1); below 0 for connections worse than the scale."""
    noise_dbm = _noise_dbm(of)
    ro = 15 - 1.5 * (of.slr_db + noise_dbm)  # (7-2)
    return ro - _simultaneous(of, noise_dbm, ro) - delay_impairment(of) - loss_impairment(of) + of.advantage


def mean_opinion_score(r: float) -> float:
    """Return the MOS (conversational quality, estimated) of R, from 1 to 4.5.

    Source: G.107, Annex B, (B-4), whose cubic is a little below 1 for R from 0 to 6.5; the score is 1 there.
    """
    if r <= 0:
        return 1.0
    if r >= MOST_R:
        return _BEST_MOS
    return max(1.0, 1 + 0.035 * r + r * (r - 60) * (100 - r) * 7e-6)


def loss_impairment(of: Connection) -> float:
    """Return Ie,eff, the impairment by the codec and by lost packets (7-29)."""
    percent = 100 * of.loss
    return of.ie + (95 - of.ie) * percent / (percent / of.burst_ratio + of.bpl)


def delay_impairment(of: Connection) -> float:
    """Return Id, the impairment by delay: talker's echo, listener's echo, and too long a delay as such (7-18)."""
    noise_dbm = _noise_dbm(of)
    return _talker_echo(of, noise_dbm) + _listener_echo(of, noise_dbm) + _long_delay(of)


def _noise_dbm(of: Connection) -> float:
    """Return No, the sum of all noise, in dBm0p (7-3)."""
    send_side = of.ps_db - of.slr_db - of.ds - 100 + 0.004 * (of.ps_db - of.slr_db - of.rlr_db - of.ds - 14) ** 2
    pre = of.pr_db + 10 * math.log10(1 + 10 ** ((10 - (of.stmr_db + of.dr)) / 10))  # (7-6), LSTR = STMR + Dr
    receive_side = of.rlr_db - 121 + pre + 0.008 * (pre - 35) ** 2  # (7-5)
    powers = (of.nc_dbm, send_side, receive_side, of.nfor_dbm + of.rlr_db)  # (7-7)
    return 10 * math.log10(sum(10 ** (each / 10) for each in powers))


def _simultaneous(of: Connection, noise_dbm: float, ro: float) -> float:
    """Return Is, the impairments that come with the speech: too loud, sidetone, quantizing (7-8)."""
    xolr = of.slr_db + of.rlr_db + 0.2 * (64 + noise_dbm - of.rlr_db)  # (7-10)
    too_loud = 20 * (_bend(xolr / 8, 8) - xolr / 8)  # (7-9)
    q = 37 - 15 * math.log10(of.qdu)  # (7-17)
    g = 1.07 + 0.258 * q + 0.0602 * q**2  # (7-16)
    y, z = (ro - 100) / 15 + 46 / 8.4 - g / 9, 46 / 30 - g / 40  # (7-14), (7-15)
    return too_loud + _sidetone(of) + 15 * math.log10(1 + 10**y + 10**z)  # (7-13)


def _sidetone(of: Connection) -> float:
    """Return Ist (7-11), with the equivalent sidetone masking rating STMRo (7-12)."""
    echo_ms = 1e3 * of.echo_delay_s
    stmr_o = -10 * math.log10(10 ** (-of.stmr_db / 10) + math.exp(-echo_ms / 4) * 10 ** (-of.telr_db / 10))
    return (
        12 * _bend((stmr_o - 13) / 6, 8) - 28 * _bend((stmr_o + 1) / 19.4, 35) - 13 * _bend((stmr_o - 3) / 33, 13) + 29
    )


def _talker_echo(of: Connection, noise_dbm: float) -> float:
    """Return Idte (7-19 to 7-24)."""
    echo_ms = 1e3 * of.echo_delay_s
    if echo_ms < 1:  # no echo, but part of the sidetone
        return 0.0
    terv = of.telr_db - 40 * math.log10((1 + echo_ms / 10) / (1 + echo_ms / 150)) + 6 * math.exp(-0.3 * echo_ms**2)
    if of.stmr_db < 9:
        terv += _sidetone(of) / 2  # (7-23)
    re = 80 + 2.5 * (terv - 14)  # (7-21)
    half = (-1.5 * (noise_dbm - of.rlr_db) - re) / 2  # (Roe - Re) / 2 by (7-20)
    found = (half + math.sqrt(half**2 + 100) - 1) * (1 - math.exp(-echo_ms))
    return math.hypot(found, _sidetone(of)) if of.stmr_db > 20 else found  # (7-24)


def _listener_echo(of: Connection, noise_dbm: float) -> float:
    """Return Idle (7-25), with Rle (7-26)."""
    rle = 10.5 * (of.wepl_db + 7) * math.pow(1e3 * of.round_trip_s + 1, -0.25)
    half = (15 - 1.5 * (of.slr_db + noise_dbm) - rle) / 2
    return half + math.sqrt(half**2 + 169)


def _long_delay(of: Connection) -> float:
    """Return Idd (7-27), with X (7-28)."""
    if of.delay_s <= of.least_perceived_s:
        return 0.0
    x, power = math.log2(of.delay_s / of.least_perceived_s), 6 * of.sensitivity
    return 25 * (_bend(x, power) - 3 * _bend(x / 3, power) + 2)


def _bend(value: float, power: float) -> float:
    """Return (1 + value^power)^(1/power), the smooth change from 1 to the value of which the model is made."""
    return math.pow(1 + math.pow(value, power), 1 / power)
