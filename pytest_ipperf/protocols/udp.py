"""UDP (RFC 768): a stream of datagrams at an even, offered rate, measured at its receiver (paper 001, Figs 7 to 9).

Each datagram that arrives is a sample: its sequence number, when it was sent, and when the receiver's kernel received
it, both in seconds since the run began, on the sender's clock within the fact `clock_error_s`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.factor import Factor, Value
from pytest_ipperf.core.portable.figure_row import (
    CLOCK_ERROR_ROW,
    FigureRow,
    Figures,
    figure_row,
    processor_time,
    trouble,
)
from pytest_ipperf.core.portable.offload import OFFLOAD
from pytest_ipperf.core.portable.scaling import four_digits, rate_of, rate_unit, time_pair
from pytest_ipperf.core.portable.traffic.load import GENERATORS, LOAD, LOAD_ROW, check_load
from pytest_ipperf.core.portable.units import rate_text
from pytest_ipperf.protocols.base import Flow

_LEAST_BYTES = 32
_MOST_BYTES = 65507
"""Largest payload of an IPv4 packet (RFC 791, RFC 768); IPv6's 65527 would not be the same on both arms."""


def _sent(figures: Figures) -> str:
    asked, sent = figures["offered_bit_s"], figures["sent_bit_s"]
    return rate_of(sent, asked, four_digits) if asked else f"{rate_text(sent)} (flood)"


def _ideal(figures: Figures) -> str:
    unit = rate_unit(figures["ideal_bit_s"])
    return f"{unit.text(figures['ideal_bit_s'])} {unit.name}"


def _sent_bytes(figures: Figures) -> float:
    return figures["sent_bit_s"] * figures["seconds"] / 8


def _arrived_bytes(figures: Figures) -> float:
    return _sent_bytes(figures) * figures["unique"] / figures["sent"] if figures["sent"] else 0.0


_ROWS: tuple[str | FigureRow, ...] = (
    figure_row("sent, of offered", "offered_bit_s sent_bit_s", _sent),
    figure_row(
        "received, of at most",
        "throughput ideal_bit_s",
        lambda figures: rate_of(figures["throughput"], figures["ideal_bit_s"], four_digits),
        of_itself=("throughput", figure_row("of at most", "ideal_bit_s", _ideal)),
    ),
    figure_row(
        "received",
        "throughput",
        lambda figures: "" if "ideal_bit_s" in figures else rate_text(figures["throughput"]),
    ),
    "loss",
    "jitter",
    "ipdv",
    "pdv",
    "delay",
    "worst_delay",
    CLOCK_ERROR_ROW,
    "reordering",
    "duplication",
    figure_row(
        "pacing error, median / p99",
        "pacing_error_s pacing_error_p99_s",
        lambda figures: time_pair(figures["pacing_error_s"], figures["pacing_error_p99_s"]),
    ),
    trouble("refused by the sender's host", "refused"),
    trouble("lost in the receiver's reassembly", "lost_in_reassembly"),
    trouble("dropped by the receiver's socket", "receiver_drops"),
    processor_time("sent_bit_s seconds unique sent", _sent_bytes, _arrived_bytes),
    LOAD_ROW,
)


@dataclass(frozen=True, kw_only=True)
class Udp(Flow):
    """UDP; the rate counts payload alone, without headers."""

    name: str = "udp"
    title: str = "UDP"
    summary: str = "send datagrams at an even, offered rate"
    source: str = "RFC 768; paper 001, Figs 7 to 9"
    engine: str = "udp"
    metrics: tuple[str, ...] = (
        "throughput", "jitter", "loss", "ipdv", "pdv", "delay", "worst_delay", "reordering", "duplication",
    )  # fmt: skip
    columns: tuple[str, ...] = ("sequence", "sent_s", "received_s")
    connections: tuple[int, ...] = (1,)
    payload: tuple[str, ...] = ("1400",)
    payload_title: str = "payload of a datagram"
    rows: tuple[str | FigureRow, ...] = _ROWS
    about_rows: str = (
        "Sent: what the sender reached, of what was asked. Pacing error: how far gaps between datagrams were from "
        "even ones, by the sender's own stamps. CPU: for 1e9 bytes of payload, by either end."
    )
    datagram: bool = True
    least_packets: tuple[int, int] = (1, 0)
    factors: tuple[Factor, ...] = (
        Factor(
            name="rate",
            title="offered rate",
            unit="bit/s",
            levels=(1e7,),
            help="the rate that UDP offers, in payload bit/s, such as 10mbit, or flood (as much as the sender can)",
            mark="",
            implicit="flood",
        ),
        OFFLOAD,
        LOAD,
        GENERATORS,
    )

    def check(self, connections: int, payload_bytes: int, factors: Mapping[str, Value]) -> None:
        check_load(factors)
        if connections != 1:
            raise UsageError(f"{connections} connections make no sense for udp, which sends one stream; take 1")
        if not _LEAST_BYTES <= payload_bytes <= _MOST_BYTES:
            raise UsageError(
                f"payload {payload_bytes} is not a size of a datagram here; take {_LEAST_BYTES} to {_MOST_BYTES}, "
                "which both IPv4 and IPv6 support"
            )


protocol = Udp()
