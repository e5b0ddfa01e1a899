"""Show what is judged beside a cell's metric: the shares of failed and of slow connections.

A cell is green only if all of them are, so a reader sees each with its interval, margin and verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pytest_ipperf.core.design.limit import Limit, measured_text
from pytest_ipperf.core.design.question import FAILED_SHARE, SLOW_SHARE
from pytest_ipperf.core.inference.verdict import Verdict
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.report.tables.cell_results import UNJUDGED, change_text
from pytest_ipperf.report.tables.intervals import deciding_interval
from pytest_ipperf.report.tables.layout import Row, row

TITLES: Mapping[str, str] = {FAILED_SHARE: "failures", SLOW_SHARE: "slow connections"}
"""Titles of the rows, by metric."""
_INCONCLUSIVE = Verdict.INCONCLUSIVE.name.lower()


def components_of(record: Record) -> dict[str, Record]:
    """Return a record of each question beside the metric's own, by its metric; of equal metrics the first."""
    found: dict[str, Record] = {}
    for part in record.parts()[1 if record.compared else 0 :]:
        found.setdefault(part.metric, part)
    return found


def deciding_part(record: Record) -> Record:
    """Return the record of the question that gave the verdict: that of the metric, or of a component."""
    own, *beside = record.parts()
    if not record.compared:
        return next((part for part in (own, *beside) if part.verdict == record.verdict), own)
    if not record.metric_verdict or record.metric_verdict == record.verdict:
        return own
    return next((part for part in beside if part.verdict == record.verdict), own)


def verdict_text(record: Record) -> str:
    """Return the verdict, with the component that decided it: `exceeds: failed connections`."""
    part = deciding_part(record)
    return record.verdict if part.metric == record.metric else f"{record.verdict}: {METRICS[part.metric].metric.title}"


def component_rows(found: Mapping[int, Record], columns: Sequence[int], *, detail: bool = True) -> list[Row]:
    """Return a row for each metric that some cell was judged by beside its own.

    Without `detail`, failures have no row if there were none and all are within their margins.
    """
    parts = {count: components_of(record) for count, record in found.items()}
    if not detail and all(_without_failures(own.get(FAILED_SHARE)) for own in parts.values()):
        parts = {count: {name: part for name, part in own.items() if name != FAILED_SHARE}
                 for count, own in parts.items()}  # fmt: skip
    limits = dict.fromkeys(name for own in parts.values() for name in own if name not in TITLES)
    return [
        row(f"  {title_of(name)}", {count: own[name] for count, own in parts.items() if name in own}, columns,
            component_text)
        for name in (*TITLES, *limits)
        if any(name in own for own in parts.values())
    ]  # fmt: skip


def _without_failures(part: Record | None) -> bool:
    """Return whether the share of failures is unremarkable: it was not judged, or is zero and within its margin."""
    return part is None or (part.verdict in ("within", UNJUDGED) and not (part.test.mean or part.reference.mean))


def title_of(metric: str) -> str:
    """Return the title of a component's row; that of a limit is the limit itself."""
    return TITLES.get(metric, metric)


def component_text(part: Record) -> str:
    """Return the answer of a component: `+0.13 pp [-0.2, +0.4], within 1 pp`, or of a limit: `1.2 % beyond, within`."""
    if limit := Limit.named(part.metric):
        return f"{measured_text(limit, part.test.mean)}, {part.verdict}"
    change = change_text(part)
    if not part.judges or part.margin_fraction is None:
        return change
    margin = f"{100 * part.margin_fraction:.3g} {part.change_unit}"
    if part.verdict == UNJUDGED:
        return f"{change.partition(' [')[0]}, too little data for {margin}"
    return f"{change}, {part.verdict}{' at' * (part.verdict == _INCONCLUSIVE)} {margin}"


def component_lines(record: Record) -> list[str]:
    """Return the answer of each component with its title."""
    return [f"{title_of(name)} {component_text(part)}" for name, part in components_of(record).items()]


def component_notes(records: Iterable[Record]) -> list[str]:
    """Return the notes that explain the rows of components, if there are any."""
    parts: dict[str, Record] = {}
    for record in records:
        parts = components_of(record) | parts
    lines: list[str] = []
    if FAILED_SHARE in parts:
        lines.append(
            f"Failures: change of the share of failed connections{_level(parts[FAILED_SHARE])}. A cell exceeds"
        )
        lines.append(
            "its margin if they exceed theirs, and is within it only if they are too, or are too few to judge."
        )
    if SLOW_SHARE in parts:
        lines.append(f"Slow connections: the same, of those beyond the reference's tail{_level(parts[SLOW_SHARE])}.")
    return lines


def _level(part: Record) -> str:
    found = deciding_interval(part)
    return f" [{found.title}]" if found else ""
