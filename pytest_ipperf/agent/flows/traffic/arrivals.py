"""Arrivals of modelled traffic: which packets of which streams came, and when."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from threading import Event

from pytest_ipperf.agent.flows.traffic.packet_format import ACCEPT, BEGIN, CONTROL, END, HELLO, Head

ROW = 4
"""Numbers in an entry of `Arrivals.rows`."""


class Arrivals:
    """Packets of a run that arrived, in order of arrival; those of another run, and stray ones, are ignored.

    `unique` are first copies, `duplicates` later ones, and `reordered` came after one of their stream with a higher
    number (RFC 4737, section 3.3). Packets of the warm-up do not count. Control packets set `hello`, `accepted` and
    `begun`; `announced` is how many packets the other end says it has sent, None before that. An entry of `rows` is
    stream, number, instant of sending and of arrival in ns, each by the clock of its host.
    """

    def __init__(self, ident: int) -> None:
        self._ident = ident
        self._seen: set[int] = set()
        self._highest: dict[int, int] = {}
        self.hello, self.accepted, self.begun = Event(), Event(), Event()
        self.announced: int | None = None
        self.unique = self.duplicates = self.reordered = self.received_bytes = self.largest_bytes = 0
        self.rows = array("q")

    def note(self, heads: Iterable[Head], sizes: Iterable[int], came_ns: Iterable[int]) -> None:
        """Note packets, each with its size and the instant at which the last of it arrived."""
        ident, seen, highest, add = self._ident, self._seen, self._highest, self.rows.extend
        largest_bytes = self.largest_bytes
        for (of_run, stream, number, counts, sent_ns), size, at_ns in zip(heads, sizes, came_ns, strict=True):
            if of_run != ident:
                continue
            if stream == CONTROL:
                self._note_control(number, sent_ns)
                continue
            if not counts:
                self.begun.set()
                continue
            key = stream << 32 | number
            if key in seen:
                self.duplicates += 1
                continue
            if not seen:
                self.begun.set()
            seen.add(key)
            if number < highest.get(stream, -1):
                self.reordered += 1
            else:
                highest[stream] = number
            self.unique += 1
            self.received_bytes += size
            largest_bytes = max(largest_bytes, size)
            add((stream, number, sent_ns, at_ns))
        self.largest_bytes = largest_bytes

    def span_s(self) -> float:
        """Return the seconds from the first arrival to the last; 0 for fewer than two."""
        came_ns = self.rows[3::ROW]
        return (max(came_ns) - min(came_ns)) / 1e9 if came_ns else 0.0

    def _note_control(self, kind: int, value: int) -> None:
        if kind == HELLO:
            self.hello.set()
        elif kind == ACCEPT:
            self.accepted.set()
        elif kind == BEGIN:
            self.begun.set()
        elif kind == END:
            self.announced = value
