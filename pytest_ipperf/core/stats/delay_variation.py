"""Delay variation of a stream of datagrams: RFC 3550's jitter, RFC 3393's IPDV and RFC 5481's PDV.

Columns are parallel, with one item for each datagram in order of arrival: its number in the stream, and when it was
sent and received, in seconds. The two clocks may differ by a constant offset, which cancels.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate, pairwise

from pytest_ipperf.core.stats.percentile import percentile

_GAIN = 1 / 16
"""Gain of RFC 3550, which reduces noise and keeps a reasonable rate of convergence."""


def deviations(sent_s: Sequence[float], received_s: Sequence[float]) -> array[float]:
    """Return RFC 3550's |D|: the absolute difference between successive arrivals' delays, in seconds."""
    delays = [received - sent for sent, received in zip(sent_s, received_s, strict=True)]
    return array("d", [abs(now - before) for before, now in pairwise(delays)])


def jitter_series(sent_s: Sequence[float], received_s: Sequence[float]) -> array[float]:
    """Return RFC 3550's interarrival jitter after each arrival but the first: J += (|D| - J) / 16, starting from 0.

    Every arrival counts, including duplicates. Source: RFC 3550, section 6.4.1 and appendix A.8.
    """
    smoothed = accumulate(
        deviations(sent_s, received_s), lambda jitter, size: jitter + (size - jitter) * _GAIN, initial=0.0
    )
    next(smoothed)
    return array("d", smoothed)


def mean_jitter(sent_s: Sequence[float], received_s: Sequence[float]) -> float | None:
    """Return the mean of all readings of RFC 3550's jitter, in seconds; None for fewer than two arrivals.

    A reading remembers about 16 packets, so a single one depends on chance. As readings start from 0, the mean of n
    readings of a constant variation is too low by about 15/n of it: less than 2 % from 1000 readings on.
    """
    return _mean(jitter_series(sent_s, received_s))


def delays(sequence: Sequence[float], sent_s: Sequence[float], received_s: Sequence[float]) -> dict[float, float]:
    """Return the delay of each datagram by its number, in order of arrival; the first of several copies counts.

    Source: RFC 7679, sections 3.4 and 3.5.
    """
    result: dict[float, float] = {}
    for number, sent, received in zip(sequence, sent_s, received_s, strict=True):
        result.setdefault(number, received - sent)
    return result


def ipdv(delays_s: Mapping[float, float]) -> array[float]:
    """Return RFC 3393's IPDV: each delay minus that of the preceding number, if both arrived; positive is slower.

    Differences are in order of the (whole) numbers, not of arrival. Source: RFC 3393, section 2.4, with consecutive
    packets selected (RFC 5481, section 4.1).
    """
    pairs = pairwise(sorted(delays_s))
    return array("d", [delays_s[now] - delays_s[before] for before, now in pairs if now - before == 1])


def mean_size(differences_s: Collection[float]) -> float | None:
    """Return the mean absolute value of the differences; None if there are none."""
    return _mean([abs(each) for each in differences_s])


def pdv(delays_s: Collection[float], share: float = 0.999) -> float | None:
    """Return the given percentile of the delays minus the smallest delay, in seconds; None for fewer than two delays.

    The 99.9th percentile is that of RFC 8219 (section 7.3.1); for fewer than 1000 delays it is the whole range. Lost
    datagrams have no delay and are left out. Source: RFC 5481, section 4.2.
    """
    return percentile(delays_s, share) - min(delays_s) if len(delays_s) > 1 else None


def _mean(values: Collection[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None
