"""Build the rows of an arm's answer, which all tables share, and the notes on how verdicts are reached."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from pytest_ipperf.core.inference.effect import percent_text
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.report.tables import layout
from pytest_ipperf.report.tables.component_rows import component_rows, verdict_text
from pytest_ipperf.report.tables.intervals import deciding_interval
from pytest_ipperf.report.tables.layout import Row

_NONE = "-"
TYPICAL = "typical"
"""Beginning of the title of the row of typical values."""
_APART = 5.0


def answer_rows(
    found: Mapping[int, Record],
    columns: Sequence[int],
    unit: str,
    value_text: Callable[[float], str],
    *,
    uneven: bool,
    typical: bool,
    detail: bool = True,
) -> list[Row]:
    """Return the rows of change (in `unit`), interval, margin, verdict and components; with `uneven`, also of epochs.

    A design that never judges has neither interval nor margin, as its few epochs do not support them. The interval is
    the one that decides; one of another level than the row's title names its own. With `typical`, a row has
    the typical values to which the changes belong, by `value_text`. `detail` is that of `component_rows`.
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

    intervals = [each for record in found.values() if (each := deciding_interval(record))]
    level = intervals[0].level if intervals else ""

    def interval(record: Record) -> str:
        own = deciding_interval(record)
        if own is None:
            return "" if record.judges else _NONE
        return own.text if own.level == level else f"{own.text} ({own.level})"

    title = intervals[0].title if intervals else "interval"
    judged = any(record.judges for record in found.values())
    reference = next(iter(found.values())).reference.arm.title if found else ""
    values = row(f"  {TYPICAL}, from {reference}", lambda record: typical_text(record, value_text))
    return [
        *([values] if typical else []),
        row("  change", change),
        *([row(f"  {title}", interval), row("  margin", margin)] if judged else []),
        row("  verdict", verdict_text),
        *component_rows(found, columns, detail=detail),
        *([row("  epochs", lambda record: str(record.epochs))] if uneven else []),
    ]


def means_disagree(record: Record) -> bool:
    """Return whether the ratio of the arms' means has another sign than the change, or lies beyond its interval.

    Without an interval they may differ by 5 % of the reference.
    """
    if record.reference_typical is None or record.estimate is None or not record.reference.mean:
        return False
    of_means, found = 100 * (record.test.mean / record.reference.mean - 1), deciding_interval(record)
    low, high = (found.low, found.high) if found else (record.estimate - _APART, record.estimate + _APART)
    return not low <= of_means <= high or of_means * record.estimate < 0


def typical_text(record: Record, value_text: Callable[[float], str]) -> str:
    """Return the typical value of the reference, and that of the arm by the change: `8.14 -> 34.7`."""
    if record.reference_typical is None or record.estimate is None:
        return ""
    value = record.reference_typical * (1 + record.estimate / 100)
    return f"{value_text(record.reference_typical)} -> {value_text(value)}"


def typical_notes(records: Iterable[Record]) -> list[str]:
    """Return the note on the row of typical values, if it is shown."""
    if not any(map(means_disagree, records)):
        return []
    return [
        "Typical: geometric mean over the epochs of the median (throughput: mean) of the reference's blocks, then that",
        "times the change; shown where the means of the first rows, which a few runs can dominate, say something else.",
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
    if record.confirms is not None:
        rule += f"; in fresh epochs an excess is confirmed at {100 * (1 - record.confirms.level):.4g} %"
    if record.looks == 1:
        return [f"{rule}."]
    each = record.epochs // record.look
    return [
        f"{rule},",
        f"taken after every {each} epochs, {record.looks} times at most; what is decided is measured no further.",
    ]
