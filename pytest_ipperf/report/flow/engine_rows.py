"""Build the rows of a flow's further figures, as its engine reports them; means over an arm's runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from pytest_ipperf.core.portable.units import rate_text
from pytest_ipperf.core.records.record import ArmSummary
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.report.flow.quantity import number, time_pair, time_text, unit_of
from pytest_ipperf.report.tables import layout
from pytest_ipperf.report.tables.arm_rows import failure_rows
from pytest_ipperf.report.tables.layout import Row
from pytest_ipperf.report.tables.network_notes import missed_rows, rate_of

Figures = Mapping[str, float]
Text = Callable[[Figures], str]
_KIBI = 1024
# As every rate of these tables has.
_four_digits = partial(number, digits=4)


def engine_rows(protocol: str, metric: str, sides: Mapping[int, ArmSummary], columns: Sequence[int]) -> list[Row]:
    """The rows of an arm by column. The table's own metric, and what no engine reported, has no row."""
    rows: list[Row] = []
    for known in _ROWS.get(protocol, ()):
        name, needs, text = _OF_ITSELF.get((known[0], metric), known)
        # A fact of which all that is to be said is that there was none is left out like one that is not known.
        found = {at: side.figures for at, side in sides.items() if needs <= side.figures.keys()}
        texts = {at: text(figures) for at, figures in found.items()}
        if any(texts.values()) and needs != {metric}:
            rows.append(layout.row(f"  {name}", texts, columns, str))
    rates = {at: side.pace for at, side in sides.items() if side.pace is not None}
    return rows + failure_rows(sides, columns) + missed_rows(rates, columns)


def _of_metric(name: str, called: str) -> tuple[str, frozenset[str], Text]:
    """The value of another metric of the same runs."""
    metric = METRICS[name].metric

    def text(figures: Figures) -> str:
        if metric.unit == "s":
            return time_text(figures[name])
        unit = unit_of(metric, [figures[name]])
        return f"{unit.text(figures[name])} {unit.name}".rstrip()

    return called, frozenset({name}), text


def _row_of(name: str, needs: str, text: Text) -> tuple[str, frozenset[str], Text]:
    return name, frozenset(needs.split()), text


def _counted(fact: str) -> Text:
    return lambda figures: number(figures[fact])


def _trouble(fact: str) -> Text:
    """Show a count only where it is not zero."""
    return lambda figures: number(figures[fact]) if figures[fact] else ""


def _kibibytes(*facts: str) -> Text:
    return lambda figures: f"{' / '.join(number(figures[fact] / _KIBI) for fact in facts)} KiB"


def _processor(sent: Callable[[Figures], float], received: Callable[[Figures], float]) -> Text:
    """Seconds on a processor for each gigabyte (1e9) of payload that the end had to do with."""

    def text(figures: Figures) -> str:
        parts = ((figures["sender_cpu_s"], sent(figures)), (figures["receiver_cpu_s"], received(figures)))
        return " / ".join(number(cpu_s / moved * 1e9) if moved else "-" for cpu_s, moved in parts)

    return text


def _tcp_bytes(figures: Figures) -> float:
    return figures["payload_bytes"]


def _udp_bytes(figures: Figures) -> float:
    return figures["sent_bit_s"] * figures["seconds"] / 8


def _udp_arrived_bytes(figures: Figures) -> float:
    return _udp_bytes(figures) * figures["unique"] / figures["sent"] if figures["sent"] else 0.0


def _goodput(figures: Figures) -> str:
    return rate_of(figures["throughput"], figures["ideal_bit_s"], _four_digits)


def _ideal(figures: Figures) -> str:
    unit = unit_of(METRICS["throughput"].metric, [figures["ideal_bit_s"]])
    return f"{unit.text(figures['ideal_bit_s'])} {unit.name}"


def _sent(figures: Figures) -> str:
    asked, sent = figures["offered_bit_s"], figures["sent_bit_s"]
    return rate_of(sent, asked, _four_digits) if asked else f"{rate_text(sent)} (flood)"


def _clock(figures: Figures) -> str:
    error_s = figures["clock_error_s"]
    return time_text(error_s) if error_s and math.isfinite(error_s) else ""


_CPU = "CPU s/GB, sender / receiver"
_ROWS = {
    "tcp": (
        _row_of("goodput, of at most", "throughput ideal_bit_s", _goodput),
        _of_metric("transfer_time_ratio", "transfer time ratio"),
        _of_metric("tcp_efficiency", "TCP efficiency"),
        _of_metric("buffer_delay", "buffer delay"),
        _row_of("retransmits", "retransmits", _counted("retransmits")),
        _row_of("RTT, mean / base", "rtt_s base_rtt_s", lambda f: time_pair(f["rtt_s"], f["base_rtt_s"])),
        _row_of("congestion window", "cwnd_bytes", _kibibytes("cwnd_bytes")),
        _row_of(
            "buffers, send / receive",
            "send_buffer_bytes receive_buffer_bytes",
            _kibibytes("send_buffer_bytes", "receive_buffer_bytes"),
        ),
        _row_of(_CPU, "sender_cpu_s receiver_cpu_s payload_bytes", _processor(_tcp_bytes, _tcp_bytes)),
    ),
    "udp": (
        _row_of("sent, of offered", "offered_bit_s sent_bit_s", _sent),
        _row_of("received, of at most", "throughput ideal_bit_s", _goodput),
        _row_of("received", "throughput", lambda f: "" if "ideal_bit_s" in f else rate_text(f["throughput"])),
        _of_metric("loss", "loss"),
        _of_metric("jitter", "jitter (RFC 3550)"),
        _of_metric("ipdv", "IPDV"),
        _of_metric("pdv", "PDV"),
        _of_metric("delay", "one-way delay"),
        _of_metric("worst_delay", "99.9th percentile"),
        _row_of("clock error", "delay clock_error_s", _clock),
        _of_metric("reordering", "reordering"),
        _of_metric("duplication", "duplication"),
        _row_of(
            "pacing error, median / p99",
            "pacing_error_s pacing_error_p99_s",
            lambda f: time_pair(f["pacing_error_s"], f["pacing_error_p99_s"]),
        ),
        _row_of("refused by the sender's host", "refused", _trouble("refused")),
        _row_of("dropped by the receiver's socket", "receiver_drops", _trouble("receiver_drops")),
        _row_of(
            _CPU,
            "sender_cpu_s receiver_cpu_s sent_bit_s seconds unique sent",
            _processor(_udp_bytes, _udp_arrived_bytes),
        ),
    ),
    "rtt": (_of_metric("rtt", "RTT"), _of_metric("worst_rtt", "99.9th percentile"), _of_metric("loss", "loss")),
}
"""By protocol what a row is called, the figures that it needs, and what it says of them."""
_OF_ITSELF = {("received, of at most", "throughput"): _row_of("of at most", "ideal_bit_s", _ideal)}
"""By row and the table's metric what stands there instead, where the row would repeat the table's own figure."""
