"""Table of the tails: p50, p95, p99 and p99.9 of each arm at each level, as numbers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence

from pytest_ipperf.core.portable.scaling import Unit
from pytest_ipperf.core.records.arm_summary import QUANTILES, ArmSummary
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.report.answer.names import Names
from pytest_ipperf.report.flow.quantity import shown_time_unit
from pytest_ipperf.report.page.html.markup import NOTHING, Markup, boxed, caption, element, folded

_FOLDED = 24
"""Number of rows above which a protocol's table is folded."""


def tails(records: Sequence[Record], names: Names) -> Markup:
    """Return a table for each protocol whose arms have quantiles; empty if none has."""
    by_protocol: dict[str, dict[str, list[ArmSummary]]] = {}
    for record in records:
        own = by_protocol.setdefault(record.protocol, {})
        for side in record.sides:
            sides = own.setdefault(names.workload(record) + ", fresh epochs" * (record.confirms is not None), [])
            if side.quantiles and side.arm not in {each.arm for each in sides}:
                sides.append(side)
    shown = [_of_protocol(name, own) for name, own in by_protocol.items() if any(own.values())]
    return element("div", *shown, class_="tables") if shown else NOTHING


def _of_protocol(protocol: str, workloads: dict[str, list[ArmSummary]]) -> Markup:
    title = f"{PROTOCOLS[protocol].title}: percentiles of all connections of an arm, failed ones being the slowest"
    heads = ("workload", "arm", *(f"{name}" for name in QUANTILES), "failed")
    head = element("thead", element("tr", *(element("th", text, scope="col") for text in heads)))
    unit = _unit(side for sides in workloads.values() for side in sides)
    bodies = [element("tbody", *_rows(name, sides, unit)) for name, sides in workloads.items() if sides]
    table = boxed(title, element("table", caption(title), head, *bodies, class_="tails"))
    if sum(map(len, workloads.values())) > _FOLDED:
        return folded(f"{PROTOCOLS[protocol].title}: p50, p95, p99 and p99.9 of {len(bodies)} workloads", table)
    return table if bodies else NOTHING


def _unit(sides: Iterable[ArmSummary]) -> Unit:
    """Return the unit of a table, that of the geometric mean of its times."""
    logs = [math.log(at) for side in sides for at in side.quantiles.values() if at]
    return shown_time_unit(math.exp(statistics.fmean(logs)) if logs else 1.0)


def _rows(name: str, sides: Sequence[ArmSummary], unit: Unit) -> Iterator[Markup]:
    for number, side in enumerate(sides):
        values = (math.inf if side.quantiles.get(q) is None else side.quantiles[q] for q in QUANTILES)
        texts = ["failed" if at is None or math.isinf(at) else f"{unit.text(at)} {unit.name}" for at in values]
        failed = sum(side.failed.values())
        share = f"{100 * failed / side.attempted:.2g} %" if failed and side.attempted else "0"
        first = element("th", name, scope="rowgroup", rowspan=str(len(sides))) if not number else NOTHING
        cells = (element("td", text) for text in (*texts, share))
        yield element("tr", first, element("th", side.arm.title, scope="row"), *cells)
