"""Delay variation of a stream of datagrams: RFC 3550's jitter, RFC 3393's IPDV and RFC 5481's PDV.

Columns are parallel, one item for each datagram in the order in which they arrived: its number in the stream, when it
was sent and when it was received, in seconds. The two clocks may differ by any constant offset, which cancels.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate, pairwise

from pytest_ipperf.core.stats.percentile import percentile

_GAIN = 1 / 16
"""RFC 3550's: reduces noise and keeps a reasonable rate of convergence."""


def deviations(sent_s: Sequence[float], received_s: Sequence[float]) -> array[float]:
    """RFC 3550's |D|: by how much each arrival's delay differs from that of the one before it, in seconds."""
    delays = [received - sent for sent, received in zip(sent_s, received_s, strict=True)]
    return array("d", [abs(now - before) for before, now in pairwise(delays)])


def jitter_series(sent_s: Sequence[float], received_s: Sequence[float]) -> array[float]:
    """RFC 3550's interarrival jitter after each arrival but the first: J += (|D| - J) / 16, from 0 on.

    Every arrival counts, that of a second copy too. Source: RFC 3550, section 6.4.1 and appendix A.8.
    """
    smoothed = accumulate(
        deviations(sent_s, received_s), lambda jitter, size: jitter + (size - jitter) * _GAIN, initial=0.0
    )
    next(smoothed)
    return array("d", smoothed)


def mean_jitter(sent_s: Sequence[float], received_s: Sequence[float]) -> float | None:
    """RFC 3550's jitter, as the mean of all its readings; None with less than two arrivals.

    A reading remembers about 16 packets, so that a single one is chance. As the first ones rise from 0, the mean of n
    readings of an even variation is about 15/n of it too low: less than 2 % from 1000 on.
    """
    return _mean(jitter_series(sent_s, received_s))


def delays(sequence: Sequence[float], sent_s: Sequence[float], received_s: Sequence[float]) -> dict[float, float]:
    """How long each number took, by number, in order of arrival; of several copies the first one counts.

    Source: RFC 7679, sections 3.4 and 3.5.
    """
    found: dict[float, float] = {}
    for number, sent, received in zip(sequence, sent_s, received_s, strict=True):
        found.setdefault(number, received - sent)
    return found


def ipdv(delays_s: Mapping[float, float]) -> array[float]:
    """RFC 3393's IPDV: each number's delay less that of the number before it, where both arrived; positive: slower.

    In order of the numbers, whole ones, whatever the order in which they arrived. Source: RFC 3393, section 2.4, with
    consecutive packets selected (RFC 5481, section 4.1).
    """
    pairs = pairwise(sorted(delays_s))
    return array("d", [delays_s[now] - delays_s[before] for before, now in pairs if now - before == 1])


def mean_size(differences_s: Collection[float]) -> float | None:
    """The mean of the differences' sizes, without their signs; None of none."""
    return _mean([abs(each) for each in differences_s])


def pdv(delays_s: Collection[float], share: float = 0.999) -> float | None:
    """That percentile of the delays less the smallest one, in seconds; None with less than two, as one does not vary.

    With the 99.9th it is RFC 8219's (section 7.3.1), of less than 1000 delays the whole range. Source: RFC 5481,
    section 4.2; what was lost has no delay and is left out there.
    """
    return percentile(delays_s, share) - min(delays_s) if len(delays_s) > 1 else None


def _mean(values: Collection[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None
