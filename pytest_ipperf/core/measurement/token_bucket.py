"""Token bucket of a link with a rate: how much it passes at once, and the serialisation time that a message so lacks.

A link of Ethernet sends a packet at its rate, bit by bit. A token bucket (tc-tbf(8)) passes what it holds at once, and
then one packet whenever it holds enough for it. It has to hold one packet. Beyond that it has to hold what the rate
carries while the kernel's timer is late, as tokens that overflow are lost and the rate with them
(docs/decisions/0053-buckets-of-a-packet.md).
"""

from __future__ import annotations

import math

FULL_PACKET_BYTES = 1538
"""A packet of 1500 bytes, Ethernet's header, check sequence, preamble and gap included."""
VERSION = 2
"""Version of the links with a rate of a lab, a part of the workload's version; those of version 1 held 16 KiB."""
_LATE_S = 100e-6


def bucket_bytes(rate_bit_s: float) -> int:
    """Return the size of the bucket of a link: one full packet, and what the rate carries in 100 us."""
    return FULL_PACKET_BYTES + math.ceil(rate_bit_s * _LATE_S / 8)


def lacking_s(rate_bit_s: float, wire_bytes: float) -> float:
    """Return the time by which a message on an idle link of this rate is sent sooner than bit by bit.

    `wire_bytes` is the size of all its packets with the overhead of Ethernet.
    """
    return 8 * min(wire_bytes, bucket_bytes(rate_bit_s)) / rate_bit_s
