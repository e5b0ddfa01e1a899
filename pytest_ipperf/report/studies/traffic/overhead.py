"""Overhead of headers (paper 004, Table 1 and Fig. 6): computed from the formats, and measured on the wire.

An overhead is the share of the bytes of IP packets that is not payload, for messages that are sent alone. Computed are
packets on Ethernet with an MTU of 1500, fragments of UDP and segments of TCP included. Measured are those that the
sender's interface counted in runs of messages at even intervals.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.measurement.goodput_ceiling import HeaderOverhead
from pytest_ipperf.core.portable.traffic.carrier import TCP, UDP
from pytest_ipperf.core.records.arm_summary import ArmSummary
from pytest_ipperf.report.studies.traffic.printed import TABLE_1
from pytest_ipperf.report.studies.traffic.study import Study
from pytest_ipperf.report.tables.arm_rows import arm_rank
from pytest_ipperf.report.tables.layout import Row, Table
from pytest_ipperf.transports import TRANSPORTS

CARRIERS = (TCP, UDP)
_TABLE_1_BYTES = 32
_JITTER = {TCP: "tcp_jitter", UDP: "udp_jitter"}
_WIRE = {"wire_bytes", "wire_packets", "wire_fragments", "wire_messages"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WireOverhead:
    """Messages of one size as they were on the wire: IP `packets`, bytes and fragments of each, means over the runs."""

    testbed: str
    carrier: str
    arm: Arm
    payload_bytes: int
    packets: float
    ip_bytes: float
    fragments: float

    @property
    def share(self) -> float:
        """Share of the bytes that is not payload."""
        return 1 - self.payload_bytes / self.ip_bytes


def headers(carrier: str, arm: Arm, *, stamps: bool = True) -> HeaderOverhead:
    """Return the headers around a message of a carrier on an arm; `stamps` are TCP's timestamps."""
    return HeaderOverhead(
        ipver=arm.ipver,
        overhead_bytes=TRANSPORTS[arm.transport].overhead_bytes,
        datagram=carrier == UDP,
        stamps=stamps,
    )


def measured(study: Study) -> list[WireOverhead]:
    """Return what was measured on the wire, each testbed, carrier, arm and size once."""
    found = {}
    for carrier in CARRIERS:
        for record in study.cells.get(_JITTER[carrier], []):
            for side in record.sides:
                if each := _of_side(record.testbed, carrier, record.payload_bytes, side):
                    found[each.testbed, carrier, arm_rank(each.arm), each.payload_bytes] = each
    return [found[place] for place in sorted(found)]


def _of_side(testbed: str, carrier: str, payload_bytes: int, side: ArmSummary) -> WireOverhead | None:
    figures = side.figures
    if not figures.keys() >= _WIRE or not figures["wire_messages"]:
        return None
    messages = figures["wire_messages"]
    return WireOverhead(
        testbed=testbed,
        carrier=carrier,
        arm=side.arm,
        payload_bytes=payload_bytes,
        packets=figures["wire_packets"] / messages,
        ip_bytes=figures["wire_bytes"] / messages,
        fragments=figures["wire_fragments"] / messages,
    )


def table_1(study: Study) -> Table:
    """Return Table 1: the overhead of 32 bytes of data, for the study's columns and for those of further arms."""
    columns = [(carrier, arm) for carrier in CARRIERS for arm in study.arms]
    wire = {
        (each.testbed, each.carrier, each.arm): each.share
        for each in measured(study)
        if each.payload_bytes == _TABLE_1_BYTES
    }
    rows: list[Row] = [
        ("", [f"{carrier.upper()}/{arm.title}" for carrier, arm in columns]),
        ("paper 004", [TABLE_1.get(column, "") for column in columns]),
        ("computed", [_computed(*column, stamps=False) for column in columns]),
        ("computed, TCP with timestamps", [_computed(*column) if column[0] == TCP else "" for column in columns]),
    ]
    for testbed in study.testbeds:
        texts = [_percent(wire[at]) if (at := (testbed, *column)) in wire else "" for column in columns]
        if any(texts):
            rows.append((f"on the wire, {testbed}", texts))
    return Table(
        title="Table 1 of paper 004 again: overhead of 32 bytes of data",
        about=("share of the bytes of IP packets that is not payload",),
        rows=tuple(rows),
    )


def overhead_figures(study: Study) -> list[dict[str, Any]]:
    """Return a row for each message that was measured on the wire, with what is computed for it; all digits."""
    rows = []
    for each in measured(study):
        expected = headers(each.carrier, each.arm)
        rows.append(
            {
                "testbed": each.testbed, "carrier": each.carrier, "arm": str(each.arm),
                "payload_bytes": each.payload_bytes,
                "computed_packets": expected.packets(each.payload_bytes),
                "computed_ip_bytes": expected.ip_bytes(each.payload_bytes),
                "computed_overhead": expected.overhead_share(each.payload_bytes),
                "packets": each.packets, "ip_bytes": each.ip_bytes, "fragments": each.fragments,
                "overhead": each.share,
            }
        )  # fmt: skip
    return rows


def furthest(found: Iterable[WireOverhead]) -> tuple[WireOverhead, float] | None:
    """Return the message whose overhead on the wire is furthest from the computed one, with the difference; or None."""
    apart = [(each, each.share - headers(each.carrier, each.arm).overhead_share(each.payload_bytes)) for each in found]
    return max(apart, key=lambda pair: abs(pair[1]), default=None)


def _computed(carrier: str, arm: Arm, *, stamps: bool = True) -> str:
    return _percent(headers(carrier, arm, stamps=stamps).overhead_share(_TABLE_1_BYTES))


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"
