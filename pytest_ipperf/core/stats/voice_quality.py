"""Quality of packetized calls: the E-model's rating of a talker's packets as the listener's device would play them.

The device has a fixed de-jitter buffer: it plays every packet `BUFFER_S` later than the fastest one could have been
played, and discards what comes later than that (RFC 5481, section 4.2.3: PDV as the size of the buffer). The size is
the delay variation that ITU-T Y.1541 permits in class 0, that of telephony.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby

from pytest_ipperf.core.portable.traffic.model import Speech
from pytest_ipperf.core.stats.e_model import MOST_R, Connection, r_factor

BUFFER_S = 0.05
LEAST_R = 1.0
"""Lower end of the ratings here, at which nothing is understood; so arms can be compared by their ratio."""
_MOST_BURST_RATIO = 8.0
"""Upper end of the range of BurstR in G.107, Table 3."""


@dataclass(frozen=True, slots=True)
class HeardStream:
    """Packets of a talker as played: their delay, the share lost or discarded, and BurstR of these losses."""

    delay_s: float
    loss: float
    burst_ratio: float


def heard_stream(delays_s: Mapping[int, float], sent: float) -> HeardStream:
    """Return how the packets with these delays, by number, of `sent` ones are played; at least one has arrived.

    Packets before the first number that arrived and after the last one are in `sent` alone, and belong to no burst.
    Numbers that were never sent are not in `sent`, though bursts contain them.
    """
    latest_s = min(delays_s.values()) + BUFFER_S
    played = [delays_s.get(number, latest_s + 1) <= latest_s for number in range(min(delays_s), max(delays_s) + 1)]
    count = sum(played)
    bursts = [len(list(run)) for was_played, run in groupby(played) if not was_played]
    ratio = statistics.fmean(bursts) * count / len(played) if bursts else 1.0
    return HeardStream(latest_s, max(0.0, 1 - count / sent), min(_MOST_BURST_RATIO, max(1.0, ratio)))


def rating(heard: HeardStream, speech: Speech, back_s: float) -> float:
    """Return R of what a listener hears; `back_s` is the delay of what is played at the talker's end.

    Both delays are from mouth to ear in the network and the buffer; that of the codec is added. Talkers hear their
    echo after both, attenuated as by default in G.107. The result is limited to the scale from 1 to 100.
    """
    there_s, back_s = heard.delay_s + speech.delay_s, back_s + speech.delay_s
    found = r_factor(
        Connection(
            delay_s=there_s,
            echo_delay_s=(there_s + back_s) / 2,
            round_trip_s=there_s + back_s,
            loss=heard.loss,
            burst_ratio=heard.burst_ratio,
            ie=speech.ie,
            bpl=speech.bpl,
        )
    )
    return min(MOST_R, max(LEAST_R, found))
