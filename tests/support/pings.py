"""Ping so that a late answer is not taken for a lost one, and a lost one is seen.

Without a deadline, ping waits for its last answer only twice as long as the longest took until then. With one, it sends
on until it has `count` answers, so the sequence number of a lost one is missing among them.
"""

from __future__ import annotations

import re

_LIMIT_S = 20


def ping(address: str, *options: str, count: int = 1, interval_s: float = 0.1) -> list[str]:
    """Return the command that ends at `count` answers, at the first error, or after 20 s."""
    return ["ping", "-n", "-c", str(count), "-i", str(interval_s), "-w", str(_LIMIT_S), *options, address]


def whole(output: str, count: int = 1) -> bool:
    """Return whether each request was answered once, from the first on; those after `count` need no answer."""
    answered = sorted(map(int, re.findall(r"bytes from .*icmp_seq=(\d+)", output)))
    return len(answered) >= count and answered == [*range(1, len(answered) + 1)]
