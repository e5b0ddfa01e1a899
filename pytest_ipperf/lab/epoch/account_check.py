"""Plan the log-in check of a server's accounts: which accounts, how many at once, and with what deadline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

AT_ONCE = 50
"""Maximum number of simultaneous log-ins."""
_IN_FLIGHT_BYTES = 1 << 26
_MOVED_BYTES = 1 << 29
_FEWEST = 5
# FTP sessions stay open until their run ends, and servers allow hardly more than this many.
_SESSIONS = 500
_LEAST_S = 10.0
_SLOW_BYTES_PER_S = 1e6


@dataclass(frozen=True, slots=True)
class Batch:
    """One run of the check: `bursts` of `connections` each, to the accounts from `first` on."""

    first: int
    connections: int
    bursts: int


def batches(users: int, payload_bytes: int) -> Sequence[Batch]:
    """Return batches of all accounts; if that would move over half a gigabyte, of a sample spread over all of them."""
    count = min(users, max(_FEWEST, _MOVED_BYTES // max(1, payload_bytes)))
    at_once = min(count, AT_ONCE, max(1, _IN_FLIGHT_BYTES // max(1, payload_bytes)))
    if count < users:
        parts = -(-count // at_once)
        return [Batch(users * part // parts, at_once, 1) for part in range(parts)]
    result = []
    for first in range(0, users, _SESSIONS):
        size = min(users - first, _SESSIONS)
        bursts = -(-size // at_once)
        result.append(Batch(first, -(-size // bursts), bursts))
    return result


def tried_accounts(made: Sequence[Batch], users: int) -> int:
    """Return the number of accounts that these batches log in to."""
    return len({(each.first + at) % users for each in made for at in range(each.connections * each.bursts)})


def summary(made: Sequence[Batch], users: int, took_s: float) -> str:
    """Return the result of successful log-ins, as the end of a sentence that begins with the server's name."""
    count = tried_accounts(made, users)
    if count == users:
        return f"holds its {users} account{'s' * (users != 1)}, as a log-in to each showed in {took_s:.1f} s"
    return (
        f"holds {count} of its {users} accounts, as a log-in to each of the {count} showed in {took_s:.1f} s; the "
        "others were not tried, as that would move much"
    )


def within_s(made: Batch, payload_bytes: int, asked_s: float) -> float:
    """Return the deadline: the measurement's own, but at least the time that a slow link needs for one burst."""
    return max(asked_s, _LEAST_S + made.connections * payload_bytes / _SLOW_BYTES_PER_S)
