"""Counts of a query load: what was asked in the run, and what came back."""

from __future__ import annotations

import math
from array import array
from collections import Counter

from pytest_ipperf.agent.flows.dns.query import Query

LOST = "no answer"
"""Kind of failure of a query that has no answer within the time-out."""


class Tally:
    """Counts of the queries that had to be asked in the run, from `begin_s` until `end_s`.

    `rows` has the instant and the response time of each that was answered. `answered` are the right answers that came
    in the run, of whichever query, `answered_bytes` the size of their messages, and `answered_ever` all right ones.
    `before` counts failures by kind before the run. `unexpected` are answers to no query that waits, such as late ones.
    """

    def __init__(self) -> None:
        self.begin_s, self.end_s = math.inf, math.inf
        self.rows = array("d")
        self.late_s = array("d")
        self.attempted = self.answered = self.answered_bytes = self.answered_ever = 0
        self.truncated = self.unexpected = self.refused = self.given_up = 0
        self.failed: Counter[str] = Counter()
        self.before: Counter[str] = Counter()

    def right(self, query: Query, now_s: float, size_bytes: int) -> None:
        """Count a right answer that came at `now_s`."""
        self.answered_ever += 1
        begin_s, end_s, intended_s = self.begin_s, self.end_s, query.intended_s
        if begin_s <= now_s < end_s:
            self.answered += 1
            self.answered_bytes += size_bytes
        if begin_s <= intended_s < end_s:
            self.attempted += 1
            self.rows.extend((intended_s - begin_s, now_s - intended_s))
            self.late_s.append(query.sent_s - intended_s)

    def wrong(self, intended_s: float, kind: str) -> None:
        """Count a failure of the query that had to be asked at `intended_s`; all that are lost are `given_up`."""
        self.given_up += kind == LOST
        if self.begin_s <= intended_s < self.end_s:
            self.attempted += 1
            self.failed[kind] += 1
        elif self.begin_s == math.inf:
            self.before[kind] += 1
