"""UDP (RFC 768): a stream of datagrams at an even, offered rate, measured at its receiver (paper 001, Figs 7 to 9).

Each datagram that arrives is a sample: its sequence number, when it was sent, and when the receiver's kernel received
it, both in seconds since the run began, on the sender's clock within the fact `clock_error_s`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.factor import Factor, Value
from pytest_ipperf.protocols.base import Flow

_LEAST_BYTES = 32
_MOST_BYTES = 65507
"""Largest payload of an IPv4 packet (RFC 791, RFC 768); IPv6's 65527 would not be the same on both arms."""


@dataclass(frozen=True, kw_only=True)
class Udp(Flow):
    """UDP; the rate counts payload alone, without headers."""

    name: str = "udp"
    title: str = "UDP"
    source: str = "RFC 768; paper 001, Figs 7 to 9"
    engine: str = "udp"
    metrics: tuple[str, ...] = (
        "throughput", "jitter", "loss", "ipdv", "pdv", "delay", "worst_delay", "reordering", "duplication",
    )  # fmt: skip
    columns: tuple[str, ...] = ("sequence", "sent_s", "received_s")
    connections: tuple[int, ...] = (1,)
    payload: tuple[str, ...] = ("1400",)
    datagram: bool = True
    least_packets: tuple[int, int] = (1, 0)
    factors: tuple[Factor, ...] = (
        Factor(
            name="rate",
            title="offered rate",
            unit="bit/s",
            levels=(1e7,),
            help="what UDP offers, in payload bits a second, such as 10mbit, or flood (as much as the sender can)",
            mark="",
            implicit="flood",
        ),
    )

    def check(self, connections: int, payload_bytes: int, factors: Mapping[str, Value]) -> None:
        del factors
        if connections != 1:
            raise UsageError(f"{connections} connections make no sense for udp, which sends one stream; take 1")
        if not _LEAST_BYTES <= payload_bytes <= _MOST_BYTES:
            raise UsageError(
                f"payload {payload_bytes} is no size of a datagram here; {_LEAST_BYTES} to {_MOST_BYTES} are, which "
                "both IPv4 and IPv6 can have"
            )


protocol = Udp()
