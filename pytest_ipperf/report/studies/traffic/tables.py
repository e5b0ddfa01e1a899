"""Tables of the traffic study: Table 1, and what the study's text says of its figures, beside ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.portable.scaling import time_text
from pytest_ipperf.core.portable.units import bytes_text
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.report.flow.dimensions import dimensions
from pytest_ipperf.report.studies.traffic.experiments import DIMENSIONS, FRAGMENTED
from pytest_ipperf.report.studies.traffic.overhead import furthest, measured, table_1
from pytest_ipperf.report.studies.traffic.printed import MOST_APART, MOST_BELOW, RANGES, SYSTEMS, Printed
from pytest_ipperf.report.studies.traffic.study import Study
from pytest_ipperf.report.tables.arm_rows import arm_rank
from pytest_ipperf.report.tables.layout import Row, Table

_SMALL = 0.01
"""Percentage below which a digit more is shown."""


class _Change(NamedTuple):
    """Change of an arm's mean from IPv4's in a cell, as a share."""

    share: float
    record: Record

    @property
    def text(self) -> str:
        percent, protocol = 100 * self.share, self.record.protocol
        axis = next(each for each in dimensions(PROTOCOLS[protocol]) if each.name == DIMENSIONS[protocol])
        at = axis.text(axis.of(self.record))
        return f"{percent:.2f} % at {at}" if abs(percent) >= _SMALL else f"{percent:.1g} % at {at}"


def tables(study: Study) -> list[Table]:
    """Return Table 1 and the table of statements."""
    return [*([table_1(study)] if study.has_sizes else []), *_table_of_statements(study)]


def notes(study: Study) -> list[str]:
    """Return sentences on the tables and figures."""
    lines = [
        "Paper 004: figures of its text and of Table 1, where 55.55 and 65.21 % are cut off, not rounded.",
    ]
    if found := furthest(measured(study)):
        each, apart = found
        lines.append(
            "On the wire: IP packets and bytes by the sender's interface; furthest from computed: "
            f"{100 * apart:+.2f} pp ({each.carrier.upper()} of {bytes_text(each.payload_bytes)}, {each.arm.title})."
        )
    return lines


class _Statement(NamedTuple):
    """What the study's text says of a figure: `printed` by experiment, and the function that gives ours for an arm.

    With `reference` IPv4 has a row too.
    """

    title: str
    experiment: str
    printed: Mapping[str, Printed]
    ours: Callable[[Sequence[Record], Arm], str]
    reference: bool = False


def _most_below(records: Sequence[Record], arm: Arm) -> str:
    """Return by how much an arm's mean is below the reference's at most; of payloads only those beyond the MTU."""
    found = [
        each._replace(share=-each.share)
        for each in _changes(records, arm)
        if DIMENSIONS[each.record.protocol] != "payload" or each.record.payload_bytes > FRAGMENTED
    ]
    return max(found, key=lambda each: each.share).text if found else ""


def _most_apart(records: Sequence[Record], arm: Arm) -> str:
    """Return the largest difference of an arm's mean from the reference's."""
    found = _changes(records, arm)
    return max(found, key=lambda each: abs(each.share)).text if found else ""


def _changes(records: Sequence[Record], arm: Arm) -> list[_Change]:
    return [
        _Change(each.test.mean / each.reference.mean - 1, each)
        for each in records
        if each.test.arm == arm and each.reference.mean
    ]


def _range(records: Sequence[Record], arm: Arm) -> str:
    """Return an arm's smallest and largest mean; empty without any."""
    means = [side.mean for record in records for side in record.sides if side.arm == arm]
    return f"{time_text(min(means))} to {time_text(max(means))}" if means else ""


_STATEMENTS = (
    _Statement(
        "Fig. 4: TCP throughput, most below IPv4's beyond 1500 bytes", "tcp_throughput", MOST_BELOW, _most_below
    ),
    _Statement(
        "Fig. 5: UDP throughput, most below IPv4's beyond 1500 bytes", "udp_throughput", MOST_BELOW, _most_below
    ),
    _Statement("Fig. 7: TCP jitter, smallest to largest mean", "tcp_jitter", RANGES, _range, reference=True),
    _Statement("Fig. 7: TCP jitter, largest difference from IPv4's", "tcp_jitter", MOST_APART, _most_apart),
    _Statement("Fig. 8: UDP jitter, smallest to largest mean", "udp_jitter", RANGES, _range, reference=True),
    _Statement("Fig. 8: UDP jitter, largest difference from IPv4's", "udp_jitter", MOST_APART, _most_apart),
    _Statement("Fig. 9: DNS over TCP, most below IPv4's", "dns_tcp", MOST_BELOW, _most_below),
    _Statement("Fig. 10: DNS over UDP, most below IPv4's", "dns_udp", MOST_BELOW, _most_below),
    _Statement("Fig. 11: throughput of games, largest difference", "games", MOST_APART, _most_apart),
    _Statement("Fig. 12: voice with VAD, largest difference", "voice_vad", MOST_APART, _most_apart),
    _Statement("Fig. 13: voice with cRTP, largest difference", "voice_crtp", MOST_APART, _most_apart),
    _Statement("Fig. 14: voice with both, largest difference", "voice_both", MOST_APART, _most_apart),
)


def _table_of_statements(study: Study) -> list[Table]:
    rows = [row for statement in _STATEMENTS for row in _rows(study, statement)]
    if not rows:
        return []
    head: Row = ("", [*(f"paper, {system}" for system in SYSTEMS), *study.testbeds])
    windows = any(each.experiment in study.cells for each in _STATEMENTS if each.printed is RANGES)
    doubt = ("the paper's jitter on Windows is impossible: no run lasts that long",) if windows else ()
    about = (f"design {study.design}", *doubt)
    return [Table(title="What paper 004 says of its figures, and ours", about=about, rows=(head, *rows))]


def _rows(study: Study, statement: _Statement) -> list[Row]:
    """Return a heading and a row for each arm, with ours on each testbed; none without figures."""
    records, printed = study.cells.get(statement.experiment, []), statement.printed[statement.experiment]
    arms = {side.arm for record in records for side in (record.sides if statement.reference else (record.test,))}
    rows: list[Row] = []
    for arm in sorted(arms, key=arm_rank):
        ours = [statement.ours([each for each in records if each.testbed == bed], arm) for bed in study.testbeds]
        said = printed if arm.transport == "native" else ("", "")
        rows += [(f"  {arm.title}", [*said, *ours])] if any(ours) else []
    return [(statement.title, []), *rows] if rows else []
