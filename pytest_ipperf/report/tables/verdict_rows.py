"""Build the rows of an arm's answer, which all tables share, and the notes on how verdicts are reached."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from pytest_ipperf.core.inference.effect import percent_text
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.report.tables import layout
from pytest_ipperf.report.tables.layout import Row

_NONE = "-"


def answer_rows(found: Mapping[int, Record], columns: Sequence[int], unit: str, *, uneven: bool) -> list[Row]:
    """Return the rows of change (in `unit`), interval, margin and verdict; with `uneven`, also of the epochs.

    A design that never judges has neither interval nor margin, as its few epochs do not support them.
    """

    def row(name: str, text: Callable[[Record], str]) -> Row:
        return layout.row(name, found, columns, text)

    def change(record: Record) -> str:
        return "" if record.estimate is None else f"{percent_text(record.estimate)} {unit}"

    def margin(record: Record) -> str:
        if not record.judges:
            return _NONE
        if record.margin_fraction is None:
            return ""
        margin = 100 * record.margin_fraction
        return f"{margin:{'.0f' if margin >= 1000 else '.3g'}} {unit}"

    judged = any(record.judges for record in found.values())
    return [
        row("  change", change),
        *([row("  95 % interval", _interval), row("  margin", margin)] if judged else []),
        row("  verdict", lambda record: record.verdict),
        *([row("  epochs", lambda record: str(record.epochs))] if uneven else []),
    ]


def is_uneven(records: Iterable[Record]) -> bool:
    """Return whether cells were decided after different numbers of epochs, which the table then shows."""
    return len({record.epochs for record in records}) > 1


def counted_text(record: Record, *, uneven: bool) -> str:
    """Return the number of runs behind a figure, as text."""
    if uneven:
        return f"an arm's runs, {record.blocks} in each epoch, warm-ups left out"
    return f"{len(record.test.values)} runs for each arm, warm-ups left out"


def verdict_notes(record: Record) -> list[str]:
    """Return how verdicts are reached under the record's design, in lines."""
    if not record.judges:
        return [f"Design {record.design} never judges."]
    rule = f"Verdict: one-sided {100 * (1 - record.alpha):.4g} % bounds against the margin (design {record.design})"
    if record.looks == 1:
        return [f"{rule}."]
    each = record.epochs // record.look
    return [
        f"{rule},",
        f"taken after every {each} epochs, {record.looks} times at most; what is decided is measured no further.",
    ]


def _interval(record: Record) -> str:
    if not record.judges:
        return _NONE
    if record.low is None or record.high is None:
        return ""
    return f"[{percent_text(record.low)}, {percent_text(record.high)}]"
