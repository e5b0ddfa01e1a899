"""Reports of a run of modelled traffic, from what both ends sent and received."""

from __future__ import annotations

from array import array
from statistics import fmean
from typing import NamedTuple

from pytest_ipperf.agent.flows.spec import Delivered, FlowReport, FlowSpec
from pytest_ipperf.agent.flows.traffic.arrivals import ROW, Arrivals
from pytest_ipperf.agent.flows.traffic.packet_format import packet_format
from pytest_ipperf.agent.flows.traffic.sender import SentPackets
from pytest_ipperf.agent.paths.clock_sync import ClockMap
from pytest_ipperf.core.portable.traffic.carrier import TCP
from pytest_ipperf.core.portable.traffic.model import DOWN, UP, TrafficModel
from pytest_ipperf.core.portable.traffic.schedule import packets

_OFF = 0.01
"""Share of the packets that a sender may miss before a note says so."""
_COLUMNS = 5
_SENT, _RECEIVED = 3, 4


class FarCounts(NamedTuple):
    """Packets that the far end sent, those that it received, its drops, and its processor time of receiving."""

    sent: SentPackets
    arrivals: Arrivals
    drops: int
    cpu_s: float


def rows_of(arrivals: Arrivals, clock: ClockMap | None, began_ns: int, direction: str) -> array[float]:
    """Return the samples of one direction, as the protocol's columns have them.

    Instants are in seconds since the run began, on the near end's clock, to which `clock` maps those of the far end.
    """
    rows, notes, up = array("d"), arrivals.rows, direction == UP
    to_near = clock.to_local_ns if clock else int
    for at in range(0, len(notes), ROW):
        stream, number, sent_ns, came_ns = notes[at : at + ROW]
        if up:
            came_ns = to_near(came_ns)
        else:
            sent_ns = to_near(sent_ns)
        rows.extend((0.0 if up else 1.0, stream, number, (sent_ns - began_ns) / 1e9, (came_ns - began_ns) / 1e9))
    return rows


def mean_delay_s(rows: array[float], of: str) -> dict[str, float]:
    """Return the mean one-way delay of a direction's samples as a fact; none without samples."""
    if not rows:
        return {}
    return {f"{of}_delay_s": fmean(rows[_RECEIVED::_COLUMNS]) - fmean(rows[_SENT::_COLUMNS])}


def near_facts(spec: FlowSpec, sent: SentPackets, arrivals: Arrivals, cpu_s: float, drops: int) -> dict[str, float]:
    """Return the facts of the near end."""
    return {
        "seconds": spec.run_s,
        "near_cpu_s": cpu_s,
        "near_drops": drops,
        "largest_bytes": arrivals.largest_bytes,
        "received_seconds": arrivals.span_s(),
        **_sent_facts(UP, sent),
        **_received_facts(DOWN, arrivals),
    }


def far_report(
    spec: FlowSpec, model: TrafficModel, near: FlowReport, far: FarCounts, *, clock: ClockMap, began_ns: int
) -> FlowReport:
    """Return the far end's report, which has the facts of both directions."""
    rows = rows_of(far.arrivals, clock, began_ns, UP)
    facts = {**near.facts, **_sent_facts(DOWN, far.sent), **_received_facts(UP, far.arrivals)}
    facts |= mean_delay_s(rows, UP)
    facts |= {name: facts[f"up_{name}"] + facts[f"down_{name}"] for name in _SUMS}
    facts |= {
        "one_way_bytes": max(facts["up_payload_bytes"], facts["down_payload_bytes"]),
        "largest_bytes": max(near.facts["largest_bytes"], far.arrivals.largest_bytes),
        "received_seconds": max(near.facts["received_seconds"], far.arrivals.span_s()),
        "sent_bit_s": 8 * facts["sent_bytes"] / spec.run_s,
        "planned_bit_s": 8 * (facts["sent_bytes"] + facts["missed_bytes"]) / spec.run_s,
        "packets_s": facts["unique"] / spec.run_s,
        "late_s": max(facts["up_late_s"], facts["down_late_s"]),
        "late_p99_s": max(facts["up_late_p99_s"], facts["down_late_p99_s"]),
        "receiver_drops": near.facts["near_drops"] + far.drops,
        "clock_error_s": clock.error_s,
        "far_cpu_s": far.sent.cpu_s + far.cpu_s,
    }
    if facts["unique"]:
        facts["size_bytes"] = facts["payload_bytes"] / facts["unique"]
    if spec.factors.get("carrier") == TCP:
        facts["segments"] = max(1, facts["up_unique"])  # TCP may put any number of them in one segment
    if model.speech:
        facts |= {"ie": model.speech.ie, "bpl": model.speech.bpl, "codec_delay_s": model.speech.delay_s}
    return FlowReport(
        samples=rows.tobytes(),
        attempted=int(facts["sent"]),
        failed={"lost": int(facts["sent"] - facts["unique"])},
        facts=facts,
        notes=_notes(facts),
        cpu_s=facts["far_cpu_s"],
        wall_s=spec.run_s,
    )


def delivered(
    spec: FlowSpec, model: TrafficModel, report: FlowReport, direction: str, during_s: tuple[float, float]
) -> Delivered:
    """Return what arrived in a direction by an end's samples, and what its schedule has, in a part of the run.

    The samples have no sizes; the schedule, made again, has those of all packets in datagrams.
    """
    rows, (from_s, until_s) = array("d", report.samples), during_s
    came = {
        (int(stream), int(number))
        for stream, number, at_s in zip(rows[1::_COLUMNS], rows[2::_COLUMNS], rows[_RECEIVED::_COLUMNS], strict=True)
        if from_s <= at_s < until_s
    }
    payload_bytes = planned_bytes = 0
    for packet in packets(
        model, direction, spec.connections, spec.pattern,
        least_bytes=packet_format(model.rtp).least_bytes, until_s=spec.warmup_s + spec.run_s,
    ):  # fmt: skip
        payload_bytes += packet.size_bytes * ((packet.stream, packet.number) in came)
        planned_bytes += packet.size_bytes * (from_s <= packet.due_s - spec.warmup_s < until_s)
    return Delivered(payload_bytes=payload_bytes, packets=len(came), planned_bytes=planned_bytes)


_SUMS = (
    "sent", "sent_bytes", "missed", "missed_bytes", "refused", "unique", "duplicates", "reordered", "payload_bytes",
)  # fmt: skip
"""Facts that are those of both directions together."""


def _sent_facts(of: str, sent: SentPackets) -> dict[str, float]:
    late_s, late_p99_s = sent.lateness_s()
    return {
        f"{of}_sent": sent.sent,
        f"{of}_sent_bytes": sent.sent_bytes,
        f"{of}_refused": sent.refused,
        f"{of}_missed": sent.missed,
        f"{of}_missed_bytes": sent.missed_bytes,
        f"{of}_late_s": late_s,
        f"{of}_late_p99_s": late_p99_s,
    }


def _received_facts(of: str, arrivals: Arrivals) -> dict[str, float]:
    return {
        f"{of}_unique": arrivals.unique,
        f"{of}_payload_bytes": arrivals.received_bytes,
        f"{of}_duplicates": arrivals.duplicates,
        f"{of}_reordered": arrivals.reordered,
    }


def _notes(facts: dict[str, float]) -> list[str]:
    notes, sent, missed = [], facts["sent"], facts["missed"]
    if missed > _OFF * (sent + missed):
        notes.append(
            f"senders could not keep up and left out {missed:.0f} of {sent + missed:.0f} packets, so their hosts bound "
            "this figure; take fewer connections"
        )
    if facts["refused"]:
        notes.append(
            f"a sending host had no room for {facts['refused']:.0f} of {sent:.0f} packets, which count as lost"
        )
    if facts["receiver_drops"]:
        notes.append(
            f"a receiving host had no room for packets {facts['receiver_drops']:.0f} times, so it bounds this figure"
        )
    if not sent:
        notes.append("the model had no packet in this run; take a longer --duration")
    elif not facts["unique"]:
        notes.append(f"none of {sent:.0f} packets arrived")
    return notes
