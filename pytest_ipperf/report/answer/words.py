"""Word arms, levels and margins as parts of sentences."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Sequence

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.margin import Margin
from pytest_ipperf.core.design.metric import Metric
from pytest_ipperf.core.portable.errors import IpperfError
from pytest_ipperf.core.portable.units import bytes_text
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.report.flow.dimensions import dimensions, order, point

_NAMED = 6
"""Number of levels that are named; more are counted."""


def level_words(arm: Arm) -> str:
    """Return the level of the factor that an arm compares, in words: `offload on`; empty if it has none."""
    return arm.level.replace("_", " ")


def listed(words: Iterable[str]) -> str:
    """Return an enumeration: `1, 10 and 100`."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def subject(record: Record) -> str:
    """Return the subject of a record's question: `SMTP`, `TCP throughput at the receiver`."""
    title = PROTOCOLS[record.protocol].title
    if len(PROTOCOLS[record.protocol].metrics) == 1 or record.metric == record.protocol:
        return title
    metric = METRICS[record.metric].metric.title
    return metric if metric.startswith(title) else f"{title} {metric}"


def short_title(metric: Metric) -> str:
    """Return a metric's short title, for an axis: `response time`, `throughput`."""
    return metric.title.partition(" (")[0].partition(" per ")[0].partition(" at the ")[0]


def at_levels(chosen: Sequence[Record], among: Sequence[Record]) -> str:
    """Return the levels of the chosen records, as far as they vary `among` records: ` at 1, 10 and 100 connections`."""
    first = chosen[0]
    varying = varying_dimensions(among)
    if not varying:
        return ""
    levels = list(dict.fromkeys(level_in(record, varying) for record in sorted(chosen, key=order)))
    everywhere = len({level_in(record, varying) for record in among})
    if len(levels) > _NAMED:
        return f" at {f'all {everywhere}' if len(levels) == everywhere else f'{len(levels)} of {everywhere}'} levels"
    if len(varying) > 1:
        return f" at {'; '.join(levels)}"
    if varying[0] == "connections":
        return f" at {listed(levels)} {PROTOCOLS[first.protocol].kind.unit}{'' if levels == ['1'] else 's'}"
    return f" at {_called(first, varying[0])} {listed(levels)}"


def level_text(record: Record, among: Sequence[Record]) -> str:
    """Return the level of a single record, without ` at `."""
    return at_levels([record], among).removeprefix(" at ")


def margin_text(records: Sequence[Record]) -> str:
    """Return the margin, with its effective value if that is larger: `10 % (at least 0.5 ms), here 10 to 53.1 %`."""
    stated = listed(dict.fromkeys(_stated(record.margin) for record in records))
    found = {f"{100 * record.margin_fraction:.3g}": record for record in records if record.margin_fraction is not None}
    plain = {f"{100 * each:.3g}" for record in records if (each := _relative(record.margin)) is not None}
    if not found or set(found) <= plain:
        return f"{' or '.join(sorted(plain, key=float))} {records[0].change_unit}" if plain and found else stated
    low, *high = sorted(found, key=float)
    return f"{stated}, here {low}{f' to {high[-1]}' if high else ''} {records[0].change_unit}"


def unbroken(text: str) -> str:
    """Return the text with no-break spaces within quantities and intervals."""
    spaces = re.compile(r"(?<=\d) (?=(?:%|pp|ms|us|s)(?!\w))|(?<=[\d%]) (?=\[)|(?<=\d,) (?=[-+\d.]+\])")
    return spaces.sub("\N{NO-BREAK SPACE}", text)


def day_text(at: float) -> str:
    """Return a time as text: `22 November 2026, 02:11 UTC`."""
    when = dt.datetime.fromtimestamp(at, dt.UTC)
    return f"{when.day} {when:%B %Y, %H:%M} UTC"


def _stated(margin: str) -> str:
    try:
        return Margin.parse(margin).description
    except IpperfError:
        return margin


def _relative(margin: str) -> float | None:
    """Return a margin's share, relative or in points; None for a margin with `headers`, or an invalid one."""
    try:
        found = Margin.parse(margin)
    except IpperfError:
        return None
    if found.headers:
        return None
    return found.at_least if found.unit == "1" and not found.relative else found.relative


def varying_dimensions(records: Sequence[Record]) -> list[str]:
    """Return the names of the dimensions in which the records differ."""
    where = [point(record) for record in records]
    names = dict.fromkeys(name for each in where for name in each)
    return [name for name in names if len({each.get(name) for each in where}) > 1]


def _called(record: Record, name: str) -> str:
    """Return the word that precedes a dimension's value: `window`, `payload`."""
    found = next((each for each in dimensions(PROTOCOLS[record.protocol]) if each.name == name), None)
    value = point(record).get(name, "")
    return found.held(value).removesuffix(found.text(value)).rstrip() if found else name


def level_in(record: Record, varying: Sequence[str]) -> str:
    """Return the level of a record in these dimensions: its value alone if only one dimension varies."""
    where, known = point(record), {each.name: each for each in dimensions(PROTOCOLS[record.protocol])}
    texts = []
    for name in varying:
        value, dimension = where.get(name, ""), known.get(name)
        if name == "connections":
            kind = PROTOCOLS[record.protocol].kind
            texts.append(str(value) if len(varying) == 1 else kind.counted(record.connections))
        elif dimension is None:
            texts.append(bytes_text(int(value)) if name == "payload" else str(value))
        else:
            texts.append(dimension.text(value) if len(varying) == 1 else dimension.held(value))
    return ", ".join(texts)
