"""Row of figures below an arm's value in the tables of flows, as a protocol declares it.

Figures are means over an arm's runs: of all metrics, and of what the engines counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pytest_ipperf.core.portable.scaling import number, time_text

Figures = Mapping[str, float]
Text = Callable[[Figures], str]
_KIBI = 1024


@dataclass(frozen=True)
class FigureRow:
    """Row of figures: `text` writes them from the figures named by `needs`; empty: the row is left out.

    `of_itself` is a metric and the row that replaces this one in the table of that metric, where this one would repeat
    the table's own figure.
    """

    title: str
    needs: frozenset[str]
    text: Text
    of_itself: tuple[str, FigureRow] | None = None

    def beside(self, metric: str) -> FigureRow:
        """Return the row as the table of that metric has it."""
        return self.of_itself[1] if self.of_itself and self.of_itself[0] == metric else self


def figure_row(title: str, needs: str, text: Text, of_itself: tuple[str, FigureRow] | None = None) -> FigureRow:
    """Return a row; `needs` are words with spaces between."""
    return FigureRow(title, frozenset(needs.split()), text, of_itself)


def count(title: str, fact: str) -> FigureRow:
    """Return a row with a count."""
    return figure_row(title, fact, lambda figures: number(figures[fact]))


def trouble(title: str, fact: str) -> FigureRow:
    """Return a row with a count that is shown if it is not zero."""
    return figure_row(title, fact, lambda figures: number(figures[fact]) if figures[fact] else "")


def kibibytes(title: str, *facts: str) -> FigureRow:
    """Return a row with sizes in bytes."""

    def text(figures: Figures) -> str:
        return f"{' / '.join(number(figures[fact] / _KIBI) for fact in facts)} KiB"

    return FigureRow(title, frozenset(facts), text)


def processor_time(
    needs: str, sent_bytes: Callable[[Figures], float], received_bytes: Callable[[Figures], float]
) -> FigureRow:
    """Return a row with the processor seconds per gigabyte (1e9) of payload, of the sender and of the receiver.

    `needs` are the figures that the two functions read; the processor times are always needed.
    """

    def text(figures: Figures) -> str:
        parts = (
            (figures["sender_cpu_s"], sent_bytes(figures)),
            (figures["receiver_cpu_s"], received_bytes(figures)),
        )
        return " / ".join(number(cpu_s / moved * 1e9) if moved else "-" for cpu_s, moved in parts)

    return figure_row("CPU s/GB, sender / receiver", f"sender_cpu_s receiver_cpu_s {needs}", text)


def _clock_error(figures: Figures) -> str:
    error_s = figures["clock_error_s"]
    return time_text(error_s) if error_s and math.isfinite(error_s) else ""


CLOCK_ERROR_ROW = figure_row("clock error", "delay clock_error_s", _clock_error)
"""Row with the largest error of one-way delays, which compare the clocks of two hosts; none on one host."""
