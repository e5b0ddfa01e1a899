"""Write the notes below the tables of flows: definitions, method and limits."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from pytest_ipperf.core.design.design import RFC8219
from pytest_ipperf.core.design.metric import UNITS_OF_CHANGE, Metric
from pytest_ipperf.core.portable.units import seconds_text
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.protocols import PROTOCOLS, flow
from pytest_ipperf.protocols.base import Flow
from pytest_ipperf.report.flow.engine_notes import engine_notes
from pytest_ipperf.report.flow.limited_by import limit_notes
from pytest_ipperf.report.tables.intervals import levels_text
from pytest_ipperf.report.tables.network_notes import bucket_notes, machine_notes, missed_notes
from pytest_ipperf.report.tables.paragraphs import capital
from pytest_ipperf.report.tables.verdict_rows import counted_text, is_uneven, typical_notes, verdict_notes

_WIDTH = 120


def notes(records: Sequence[Record]) -> list[str]:
    """Return the lines below the tables, without repetition; empty without records."""
    if not records:
        return []
    designs = {record.design: [each for each in records if each.design == record.design] for record in records}
    protocols = dict.fromkeys(record.protocol for record in records)
    figures = {name for record in records for side in (record.test, record.reference) for name in side.figures}
    metrics = [name for protocol in protocols for name in PROTOCOLS[protocol].metrics if name in figures]
    defined = dict.fromkeys([*metrics, *(record.metric for record in records)])
    return [
        *(line for name in defined for line in definition(METRICS[name].metric)),
        "",
        *(line for group in designs.values() for line in (*_method(group), *_cautions(group))),
        *_wrapped(each.about_rows for each in _flows(records) if each.about_rows),
        *_wrapped([*_bounds(records), *bucket_notes(records), *machine_notes(records), *missed_notes(records)]),
        *_wrapped(limit_notes(records)),
        *_wrapped(engine_notes(records)),
        "",
    ]


def cautions(records: Sequence[Record]) -> list[str]:
    """Return only the notes that limit what the figures say, and an empty line; nothing if there are none."""
    found = [
        *_wrapped(dict.fromkeys(_cautions(records))),
        *_wrapped([*machine_notes(records), *missed_notes(records)] if records else []),
        *_wrapped([*limit_notes(records), *engine_notes(records)]),
    ]
    return [*found, ""] if found else []


def definition(metric: Metric) -> list[str]:
    """Return the definition of a metric: title, unit, formula, comparison of arms, source."""
    unit = f", in {metric.unit}" if metric.unit != "1" else ""
    how = f"Compared by {metric.scale} (in {UNITS_OF_CHANGE[metric.scale]}), the {metric.location} of an epoch's blocks"
    return _wrapped([f"{capital(metric.title)}{unit}: {metric.formula}. {how}. {metric.source}."])


def _method(records: Sequence[Record]) -> list[str]:
    record, uneven = records[0], is_uneven(records)
    epochs = "as in the row" if uneven else f"{record.epochs}"
    lines = [f"First rows: mean of {counted_text(record, uneven=uneven)}{_run_text(record)}."]
    if record.epochs == 1:
        lines.append("Change of the means: without an interval, as one epoch shows no variation between epochs.")
    else:
        change = f"Change: of an epoch's blocks ({record.blocks}) as above, the mean over the epochs ({epochs})"
        interval = f", with a two-sided {levels_text(records)} t interval" if record.judges else ""
        lines.append(f"{change}{interval}; a ratio's can differ from the ratio of the means.")
        lines += [" ".join(typical_notes(records))]
    if record.design == RFC8219:
        lines.append("Median [1st, 99th percentile]: of the runs, as RFC 8219, section 7, reports repetitions.")
    return _wrapped([*lines, " ".join(verdict_notes(record))])


def _run_text(record: Record) -> str:
    if not record.run_s:
        return ""
    warmup = f", after {seconds_text(record.warmup_s)} that are discarded" if record.warmup_s else ""
    return f"; a run is {seconds_text(record.run_s)} of traffic{warmup}"


def _cautions(records: Sequence[Record]) -> list[str]:
    return [said for each in _flows(records) if (said := each.caution(records[0].run_s))]


def _flows(records: Iterable[Record]) -> list[Flow]:
    return [flow(name) for name in dict.fromkeys(record.protocol for record in records)]


def _bounds(records: Iterable[Record]) -> list[str]:
    known = any("ideal_bit_s" in side.figures for each in records for side in (each.test, each.reference))
    return ["Of at most: the links' rate in full packets, less headers and 38 bytes of Ethernet for each."] * known


def _wrapped(texts: Iterable[str]) -> list[str]:
    return [line for text in texts for line in textwrap.wrap(text, _WIDTH, subsequent_indent="  ")]
