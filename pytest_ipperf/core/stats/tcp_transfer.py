"""RFC 6349's three figures of a TCP transfer (section 4), and the ideal that the first of them is held against.

Its last two are percentages there, and shares here.
"""

from __future__ import annotations


def ideal_rate(
    ceiling_bit_s: float | None = None, window_bytes: float | None = None, rtt_s: float | None = None
) -> float | None:
    """The highest goodput that can be reached, in payload bits a second; None where nothing bounds it.

    It is the link's ceiling (section 4.1.1), or window x 8 / RTT (section 3.3.1) where that is smaller. The RTT is that
    of an empty path, and the window that of all streams.
    """
    bounds = [] if ceiling_bit_s is None else [ceiling_bit_s]
    if window_bytes is not None and rtt_s:
        bounds.append(8 * window_bytes / rtt_s)
    return min(bounds, default=None)


def transfer_time_ratio(payload_bytes: float, seconds: float, ideal_bit_s: float | None) -> float | None:
    """How many times as long as at the ideal rate the payload took; 1 is ideal (section 4.1).

    None without an ideal, or where nothing was transferred.
    """
    return ideal_bit_s * seconds / (8 * payload_bytes) if ideal_bit_s and payload_bytes else None


def tcp_efficiency(sent_bytes: float, retransmitted_bytes: float) -> float | None:
    """The share (0..1) of the bytes sent, the repeated ones among them, that did not repeat any (section 4.2).

    None where nothing was sent.
    """
    return (sent_bytes - retransmitted_bytes) / sent_bytes if sent_bytes else None


def buffer_delay(rtt_s: float, base_rtt_s: float) -> float | None:
    """By which share of the RTT of an empty path the mean RTT of the transfer exceeds it (section 4.3).

    None where one of the two is not known.
    """
    return (rtt_s - base_rtt_s) / base_rtt_s if rtt_s and base_rtt_s else None
