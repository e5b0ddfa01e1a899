"""TCP (RFC 9293): bulk transfer at full speed, measured at its receiver (paper 001, Figs 4 and 5).

A connection is one stream and the payload the size of a write. A run keeps the bytes that each stream had received at
instants of the run, and the statistics of the sender's kernel (tcp(7): TCP_INFO).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.factor import Factor, Value
from pytest_ipperf.core.portable.figure_row import FigureRow, count, figure_row, kibibytes, processor_time
from pytest_ipperf.core.portable.offload import OFFLOAD
from pytest_ipperf.core.portable.scaling import four_digits, rate_of, time_pair
from pytest_ipperf.core.portable.units import seconds_text
from pytest_ipperf.protocols.base import Flow

_MOST_STREAMS = 256
_MOST_WRITE_BYTES = 2**26
_MOST_WINDOW_BYTES = 2**30
_RFC6349_S = 30.0
"""Seconds over which RFC 6349, section 4.1.1, wants its figures measured."""
_ROWS: tuple[str | FigureRow, ...] = (
    figure_row(
        "goodput, of at most",
        "throughput ideal_bit_s",
        lambda figures: rate_of(figures["throughput"], figures["ideal_bit_s"], four_digits),
    ),
    "transfer_time_ratio",
    "tcp_efficiency",
    "buffer_delay",
    count("retransmits", "retransmits"),
    figure_row(
        "RTT, mean / base", "rtt_s base_rtt_s", lambda figures: time_pair(figures["rtt_s"], figures["base_rtt_s"])
    ),
    kibibytes("congestion window", "cwnd_bytes"),
    kibibytes("buffers, send / receive", "send_buffer_bytes", "receive_buffer_bytes"),
    processor_time("payload_bytes", lambda figures: figures["payload_bytes"], lambda figures: figures["payload_bytes"]),
)


@dataclass(frozen=True, kw_only=True)
class Tcp(Flow):
    """TCP; the window is requested as the size of both socket buffers, and `auto` leaves it to the kernel.

    Streams go `up`, from client to server, or `down`.
    """

    name: str = "tcp"
    # Version 2: with a window of a fixed size the receiver tries several times before it sleeps.
    version: int = 2
    title: str = "TCP"
    summary: str = "transfer bulk data over one or several streams"
    source: str = "RFC 9293, RFC 6349; paper 001, Figs 4 and 5"
    engine: str = "tcp"
    metrics: tuple[str, ...] = ("throughput", "transfer_time_ratio", "tcp_efficiency", "buffer_delay")
    columns: tuple[str, ...] = ("stream", "at_s", "received_bytes")
    connections: tuple[int, ...] = (1,)
    payload: tuple[str, ...] = ("128k",)
    payload_title: str = "size of a write"
    greedy: bool = True
    rows: tuple[str | FigureRow, ...] = _ROWS
    about_rows: str = (
        "Retransmits, RTT, congestion window: the sender's TCP_INFO; base RTT: the smallest known, the handshake "
        "included. Buffers: as the kernel gave them. CPU: both ends' time on processors for 1e9 bytes received."
    )
    factors: tuple[Factor, ...] = (
        Factor(
            name="window",
            title="window",
            unit="bytes",
            levels=("auto",),
            help="TCP's socket buffers, such as 64k, or auto (the kernel's own choice)",
            mark="window",
            implicit="auto",
        ),
        Factor(
            name="direction",
            title="direction",
            unit="word",
            levels=("up",),
            help="up (from client to server) or down",
            words=("up", "down"),
            implicit="up",
        ),
        Factor(
            name="congestion",
            title="congestion control",
            unit="word",
            levels=("auto",),
            help="TCP's congestion control: auto (cubic if permitted, else the host's), cubic, reno or bbr",
            words=("auto", "cubic", "reno", "bbr"),
            implicit="auto",
        ),
        Factor(
            name="sending",
            title="sending",
            unit="word",
            levels=("write",),
            help="how TCP's sender hands over data: write (copied), sendfile (of a file in memory) or zerocopy",
            words=("write", "sendfile", "zerocopy"),
            implicit="write",
            silent=True,
        ),
        Factor(
            name="receiving",
            title="receiving",
            unit="word",
            levels=("read",),
            help="what TCP's receiver does with data: read (copied) or discard (thrown away by the kernel)",
            words=("read", "discard"),
            implicit="read",
            silent=True,
        ),
        OFFLOAD,
    )

    def check(self, connections: int, payload_bytes: int, factors: Mapping[str, Value]) -> None:
        if connections > _MOST_STREAMS:
            raise UsageError(f"{connections} parallel streams are more than tcp supports; take {_MOST_STREAMS} at most")
        if payload_bytes > _MOST_WRITE_BYTES:
            raise UsageError(
                f"payload {payload_bytes} is too large for a write of tcp; take {_MOST_WRITE_BYTES} at most"
            )
        window = factors.get("window", 0)
        if isinstance(window, int) and window > _MOST_WINDOW_BYTES:
            raise UsageError(
                f"window {window} is larger than TCP supports; take {_MOST_WINDOW_BYTES} at most (RFC 7323)"
            )

    def derived_facts(self, factors: Mapping[str, Value], facts: Mapping[str, float]) -> Mapping[str, float]:
        window = factors.get("window")
        if not isinstance(window, int):
            return {}
        # The kernel doubles the buffer sizes that it is asked for (socket(7)).
        given = [facts[name] / 2 for name in ("send_buffer_bytes", "receive_buffer_bytes") if name in facts]
        return {"window_bytes": min(given, default=float(window))}

    def caution(self, run_s: float) -> str:
        if run_s >= _RFC6349_S:
            return ""
        lasted, wanted = seconds_text(run_s), seconds_text(_RFC6349_S)
        return f"Transfer time ratio, TCP efficiency and buffer delay: of {lasted}, shorter than RFC 6349's {wanted}."


protocol = Tcp()
