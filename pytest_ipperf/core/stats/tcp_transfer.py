"""RFC 6349's three metrics of a TCP transfer (section 4), and the ideal rate for the first of them.

The RFC states the last two as percentages; here they are shares.
"""

from __future__ import annotations


def ideal_rate(
    ceiling_bit_s: float | None = None, window_bytes: float | None = None, rtt_s: float | None = None
) -> float | None:
    """Return the highest goodput that can be reached, in payload bits a second; None if nothing bounds it.

    It is the link's ceiling (section 4.1.1), or window x 8 / RTT (section 3.3.1) if that is smaller. The RTT is that of
    an idle path, and the window is the sum over all streams.
    """
    bounds = [] if ceiling_bit_s is None else [ceiling_bit_s]
    if window_bytes is not None and rtt_s:
        bounds.append(8 * window_bytes / rtt_s)
    return min(bounds, default=None)


def transfer_time_ratio(payload_bytes: float, seconds: float, ideal_bit_s: float | None) -> float | None:
    """Return the time that the payload took as a multiple of the time at the ideal rate; 1 is ideal (section 4.1).

    None without an ideal rate, or if nothing was transferred.
    """
    return ideal_bit_s * seconds / (8 * payload_bytes) if ideal_bit_s and payload_bytes else None


def tcp_efficiency(sent_bytes: float, retransmitted_bytes: float) -> float | None:
    """Return the share (0..1) of the bytes sent, retransmissions included, that were not retransmissions (section 4.2).

    None if nothing was sent.
    """
    return (sent_bytes - retransmitted_bytes) / sent_bytes if sent_bytes else None


def buffer_delay(rtt_s: float, base_rtt_s: float) -> float | None:
    """Return by which share the mean RTT during the transfer exceeds the RTT of an idle path (section 4.3).

    None if one of the two is unknown.
    """
    return (rtt_s - base_rtt_s) / base_rtt_s if rtt_s and base_rtt_s else None
