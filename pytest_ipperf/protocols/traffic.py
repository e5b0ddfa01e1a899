"""Modelled traffic: packets whose sizes and instants follow a traffic model, on several connections (paper 004).

Each packet that arrives is a sample: its direction (0: client to server, 1: back), its stream and number in that
stream, and when it was sent and received, in seconds since the run began, on the client's clock within the fact
`clock_error_s`. Streams are numbered through all connections.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.factor import Factor, Value
from pytest_ipperf.core.portable.figure_row import CLOCK_ERROR_ROW, FigureRow, Figures, figure_row, trouble
from pytest_ipperf.core.portable.offload import OFFLOAD
from pytest_ipperf.core.portable.scaling import four_digits, number, rate_of, time_pair
from pytest_ipperf.core.portable.traffic.carrier import CARRIER, UDP
from pytest_ipperf.core.portable.traffic.load import GENERATORS, LOAD, LOAD_ROW, check_load
from pytest_ipperf.core.portable.traffic.model import MODEL_NAME_PATTERN, MOST_BYTES, TrafficModel
from pytest_ipperf.core.portable.workload_kind import FLOWS, WorkloadKind
from pytest_ipperf.protocols.base import Flow

OWN_BYTES = 1
"""Payload of a workload whose model has its own sizes."""
_MOST_CONNECTIONS = 1000


def _of_planned(title: str, reached: str, planned: str) -> FigureRow:
    return figure_row(
        title, f"{reached} {planned}", lambda figures: rate_of(figures[reached], figures[planned], four_digits)
    )


def _percent(figures: Figures) -> str:
    parts = (figures[of] / figures["seconds"] for of in ("near_cpu_s", "far_cpu_s"))
    return " / ".join(f"{100 * part:.3g} %" for part in parts)


def _overhead(figures: Figures) -> str:
    """Return the share of the bytes of IP packets that was not payload, and the packets of a message."""
    share = 1 - figures["wire_payload_bytes"] / figures["wire_bytes"]
    return f"{100 * share:.2f} % in {number(figures['wire_packets'] / figures['wire_messages'])} packets"


_ROWS: tuple[str | FigureRow, ...] = (
    _of_planned("payload, of planned", "throughput", "planned_bit_s"),
    _of_planned("IP packets, of planned", "ip_bit_s", "planned_ip_bit_s"),
    _of_planned("Ethernet, of planned", "ethernet_bit_s", "planned_ethernet_bit_s"),
    figure_row("overhead on the wire", "wire_bytes wire_payload_bytes wire_packets wire_messages", _overhead),
    figure_row("packets a second", "packets_s", lambda figures: number(figures["packets_s"])),
    figure_row("mean payload", "size_bytes", lambda figures: f"{number(figures['size_bytes'])} B"),
    "loss",
    "jitter",
    "ipdv",
    "delay",
    "worst_delay",
    CLOCK_ERROR_ROW,
    "reordering",
    "duplication",
    figure_row(
        "sent late, median / p99",
        "late_s late_p99_s",
        lambda figures: time_pair(figures["late_s"], figures["late_p99_s"]),
    ),
    trouble("never sent, as a sender could not keep up", "missed"),
    trouble("refused by a sender's host", "refused"),
    trouble("dropped by a receiver's socket", "receiver_drops"),
    figure_row("CPU, client / server", "near_cpu_s far_cpu_s seconds", _percent),
    LOAD_ROW,
)

MODEL = Factor(
    name="model",
    title="model",
    unit="word",
    levels=("constant",),
    help="traffic model, by the name of its file: one of the package's, or one of a user's own folder",
    words=(
        "constant", "counterstrike", "cs.active", "cs.inactive", "dns", "g711.1", "g711.2", "g723.1", "g729.2",
        "g729.3", "quake3", "telnet",
    ),
    further=MODEL_NAME_PATTERN,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Traffic(Flow):
    """Traffic of a model that the factor `model_factor` names; a connection is one call, player or session."""

    kind: ClassVar[WorkloadKind] = replace(FLOWS, unit="session")

    name: str = "traffic"
    title: str = "Modelled traffic"
    summary: str = "send packets whose sizes and instants follow a traffic model"
    source: str = "RFC 768, RFC 9293; paper 004, Figs 4 to 14"
    engine: str = "traffic"
    metrics: tuple[str, ...] = (
        "throughput", "jitter", "loss", "ipdv", "delay", "worst_delay", "reordering", "duplication",
    )  # fmt: skip
    columns: tuple[str, ...] = ("direction", "stream", "sequence", "sent_s", "received_s")
    connections: tuple[int, ...] = (1, 10)
    payload: tuple[str, ...] = ("512",)
    payload_title: str = "payload, if the model has no sizes"
    rows: tuple[str | FigureRow, ...] = _ROWS
    about_rows: str = (
        "Planned: what the model's schedule has, in both directions together. IP packets: with headers of IP and UDP, "
        "and of the tunnel. Ethernet: also with 38 bytes of frame, preamble and gap. "
        "Overhead on the wire: of the client's packets, by its device's counters. Sent late: how long after its "
        "instant a packet was sent, in the direction that was later. CPU: of one core."
    )
    least_packets: tuple[int, int] = (1, 0)
    factors: tuple[Factor, ...] = (MODEL, CARRIER, OFFLOAD, LOAD, GENERATORS)
    model_factor: str = "model"

    def check(self, connections: int, payload_bytes: int, factors: Mapping[str, Value]) -> None:
        check_load(factors)
        if connections > _MOST_CONNECTIONS:
            raise UsageError(
                f"{connections} connections at once are more than {self.name} supports; take {_MOST_CONNECTIONS} at "
                "most"
            )
        if payload_bytes > MOST_BYTES:
            raise UsageError(f"payload {payload_bytes} is not a size of a packet; take 1 to {MOST_BYTES}")

    def sends_datagrams(self, factors: Mapping[str, Value]) -> bool:
        """Return whether its packets are datagrams at these levels; else they are messages over TCP."""
        return factors.get(CARRIER.name, UDP) == UDP

    def model_name(self, factors: Mapping[str, Value]) -> str:
        """Return the name of the model at these levels."""
        return str(factors[self.model_factor])

    def shaped(self, model: TrafficModel, payload_bytes: int, factors: Mapping[str, Value]) -> TrafficModel:
        """Return the model as these levels change it; raise UsageError if they do not suit it."""
        del factors
        if model.takes_payload:
            return model.with_payload(payload_bytes)
        if payload_bytes not in (OWN_BYTES, *self._default_payload):
            raise UsageError(
                f"payload {payload_bytes} has no meaning for model {model.name}, which has its own sizes; leave it out"
            )
        return model

    @property
    def _default_payload(self) -> tuple[int, ...]:
        return tuple(int(each) for each in self.payload)


protocol = Traffic()
