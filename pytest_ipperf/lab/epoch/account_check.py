"""Plan the log-in check of a server's accounts: which, how many at once, and for how long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

AT_ONCE = 50
"""Log-ins at once, at most."""
_IN_FLIGHT_BYTES = 1 << 26
_MOVED_BYTES = 1 << 29
_FEWEST = 5
# Sessions of FTP stay until their run is done, and servers have room for not many more than these.
_SESSIONS = 500
_LEAST_S = 10.0
_SLOW_BYTES_PER_S = 1e6


@dataclass(frozen=True, slots=True)
class Batch:
    """One run's part: `bursts` of `connections` each, to the accounts from the `first` on."""

    first: int
    connections: int
    bursts: int


def batches(users: int, payload_bytes: int) -> Sequence[Batch]:
    """All accounts; where that would move more than half a gigabyte, as many as move that, from all over."""
    count = min(users, max(_FEWEST, _MOVED_BYTES // max(1, payload_bytes)))
    at_once = min(count, AT_ONCE, max(1, _IN_FLIGHT_BYTES // max(1, payload_bytes)))
    if count < users:
        parts = -(-count // at_once)
        return [Batch(users * part // parts, at_once, 1) for part in range(parts)]
    made = []
    for first in range(0, users, _SESSIONS):
        size = min(users - first, _SESSIONS)
        bursts = -(-size // at_once)
        made.append(Batch(first, -(-size // bursts), bursts))
    return made


def tried_accounts(made: Sequence[Batch], users: int) -> int:
    """How many accounts these log in to."""
    return len({(each.first + at) % users for each in made for at in range(each.connections * each.bursts)})


def summary(made: Sequence[Batch], users: int, took_s: float) -> str:
    """What is known when all of these log-ins went well, after the server's name."""
    count = tried_accounts(made, users)
    if count == users:
        return f"holds its {users} accounts, as a log-in to each showed in {took_s:.1f} s"
    return (
        f"holds {count} of its {users} accounts, as a log-in to each of the {count} showed in {took_s:.1f} s; the "
        "others were not tried, as that would move much"
    )


def within_s(made: Batch, payload_bytes: int, asked_s: float) -> float:
    """The measurement's own, but never shorter than a slow link needs for what is moved at once."""
    return max(asked_s, _LEAST_S + made.connections * payload_bytes / _SLOW_BYTES_PER_S)
