"""RTT: the round-trip time of probes, one after the other (RFC 2681; paper 001, Fig. 6).

Each reply is a sample: when its probe was sent, in seconds since the run began, and how long it took. A probe is a UDP
datagram or a TCP message that the other end sends back, the opening of a TCP connection, or an echo request of ICMP
(RFC 792, RFC 4443).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.factor import Factor, Value
from pytest_ipperf.core.portable.figure_row import FigureRow
from pytest_ipperf.core.portable.offload import OFFLOAD
from pytest_ipperf.core.portable.traffic.load import GENERATORS, LOAD, LOAD_ROW, check_load
from pytest_ipperf.protocols.base import Flow

_LEAST_BYTES = 32
_MOST_BYTES = 65507 - 8
"""Largest payload of an ICMP echo over IPv4; every other probe has room for it too."""


@dataclass(frozen=True, kw_only=True)
class Rtt(Flow):
    """RTT; the factor `waiting` says what a time contains, so that different kinds are never compared.

    `path`: both ends poll without sleeping, so that little but the path is measured. `application`: they sleep until a
    packet comes, as programs do. `wire`: between the kernels' own time stamps of both ends.
    """

    name: str = "rtt"
    title: str = "RTT"
    summary: str = "measure the round-trip time of probes"
    source: str = "RFC 2681; paper 001, Fig. 6"
    engine: str = "rtt"
    metrics: tuple[str, ...] = ("rtt", "worst_rtt", "loss")
    columns: tuple[str, ...] = ("at_s", "rtt_s")
    connections: tuple[int, ...] = (1,)
    payload: tuple[str, ...] = ("64",)
    payload_title: str = "payload of a probe"
    rows: tuple[str | FigureRow, ...] = ("rtt", "worst_rtt", "loss", LOAD_ROW)
    samples_title: str = "round-trip times"
    datagram: bool = True
    least_packets: tuple[int, int] = (1, 1)
    deadline_s: float = 1.0
    factors: tuple[Factor, ...] = (
        Factor(
            name="probe",
            title="probe",
            unit="word",
            levels=("udp",),
            help="the probe of RTT: udp, tcp (a message each way), connect (TCP's handshake) or icmp",
            words=("udp", "tcp", "connect", "icmp"),
        ),
        Factor(
            name="waiting",
            title="waiting",
            unit="word",
            levels=("path",),
            help="what RTT includes: path (both ends poll), application (they sleep), wire (between kernels)",
            words=("path", "application", "wire"),
            implicit="path",
        ),
        OFFLOAD,
        LOAD,
        GENERATORS,
    )

    def check(self, connections: int, payload_bytes: int, factors: Mapping[str, Value]) -> None:
        check_load(factors)
        if connections != 1:
            raise UsageError(f"{connections} connections make no sense for rtt, which has one probe at a time; take 1")
        if not _LEAST_BYTES <= payload_bytes <= _MOST_BYTES:
            raise UsageError(f"payload {payload_bytes} is not a size of a probe; take {_LEAST_BYTES} to {_MOST_BYTES}")
        probe, waiting = factors.get("probe"), factors.get("waiting")
        if waiting == "wire" and probe not in ("udp", "icmp"):
            raise UsageError(f"rtt has no timestamps of the {waiting} with probe {probe!r}; take udp or icmp")


protocol = Rtt()
