"""Counts of a stream of numbered datagrams: unique, duplicated and reordered ones."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

MOST = 1 << 31
"""Numbers of a stream are below this."""


class SequenceCounter:
    """Counter of the datagrams numbered from `base` on; others are ignored.

    `unique` have arrived, `duplicates` are copies of those, and `reordered` of the unique ones arrived after one with a
    higher number (RFC 4737, section 3.3; of copies only the first counts, RFC 5560).
    """

    def __init__(self, base: int = 0) -> None:
        self._base, self._next = base, base
        self._begins: list[int] = []  # of the gaps below `next`, in their order
        self._ends: list[int] = []
        self.unique = self.duplicates = self.reordered = 0

    def note(self, numbers: Sequence[int]) -> None:
        """Count these numbers, in their order of arrival."""
        if not numbers:
            return
        first, beyond = numbers[0], numbers[0] + len(numbers)
        if numbers[-1] == beyond - 1 and numbers == list(range(first, beyond)):
            self.note_all(first, beyond)
        else:
            self._note_each(numbers)

    def note_all(self, first: int, beyond: int) -> None:
        """Count all numbers from `first` to before `beyond`, which have arrived in their order."""
        if first >= self._next and beyond <= self._base + MOST:
            self._follow(first, beyond)
        else:
            self._note_each(range(first, beyond))

    def _note_each(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            if self._next <= number < self._base + MOST:
                self._follow(number, number + 1)
            elif self._base <= number < self._next:
                self._fill(number)

    def _follow(self, first: int, beyond: int) -> None:
        if first > self._next:
            self._begins.append(self._next)
            self._ends.append(first)
        self._next = beyond
        self.unique += beyond - first

    def _fill(self, number: int) -> None:
        at = bisect_right(self._begins, number) - 1
        if at < 0 or number >= self._ends[at]:
            self.duplicates += 1
            return
        self.unique += 1
        self.reordered += 1
        begin, end = self._begins[at], self._ends[at]
        rest = [each for each in ((begin, number), (number + 1, end)) if each[0] < each[1]]
        self._begins[at : at + 1] = [each[0] for each in rest]
        self._ends[at : at + 1] = [each[1] for each in rest]
