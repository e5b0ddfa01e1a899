"""File transfer by FTP (RFC 959): a large file, fetched again and again for the time of a run (paper 003).

A connection is one session, and the payload the size of the file. The server is one of FTP's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.factor import StudySize, Value
from pytest_ipperf.core.portable.figure_row import FigureRow, count, figure_row, processor_time
from pytest_ipperf.core.portable.scaling import four_digits, rate_of, rate_unit, time_text
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.core.portable.units import seconds_text
from pytest_ipperf.core.portable.workload_kind import TRANSFERS, WorkloadKind
from pytest_ipperf.protocols.base import Flow

_MOST_STREAMS = 64
_LEAST_BYTES, _MOST_BYTES = 2**10, 2**34
_EIGHT_HOURS_S, _FIVE_MINUTES_S = 8 * 3600.0, 300.0
_SHORT_S = 10.0
# Eight hours for each size and IP version, IPv4 first; MRTG read the counters every five minutes.
_STUDY = StudySize(epochs=1, blocks=1, run_s=_EIGHT_HOURS_S, in_order=True)
_ROWS: tuple[str | FigureRow, ...] = (
    figure_row(
        "goodput, of at most",
        "throughput ideal_bit_s",
        lambda figures: rate_of(figures["throughput"], figures["ideal_bit_s"], four_digits),
    ),
    figure_row(
        "interface, of at most",
        "interface_bytes seconds ideal_interface_bit_s",
        lambda figures: rate_of(
            8 * figures["interface_bytes"] / figures["seconds"], figures["ideal_interface_bit_s"], four_digits
        ),
    ),
    figure_row(
        "interface, most in 1 s",
        "interface_max_bit_s",
        lambda figures: _rate(figures["interface_max_bit_s"]),
    ),
    figure_row("interface by SNMP", "snmp_bit_s", lambda figures: _rate(figures["snmp_bit_s"])),
    count("transfers ended in a run", "transfers"),
    figure_row("time of a transfer", "transfer_s", lambda figures: time_text(figures["transfer_s"])),
    figure_row("longest gap", "longest_gap_s", lambda figures: time_text(figures["longest_gap_s"])),
    processor_time("payload_bytes", lambda figures: figures["payload_bytes"], lambda figures: figures["payload_bytes"]),
)


def _rate(bit_s: float) -> str:
    unit = rate_unit(bit_s)
    return f"{unit.text(bit_s)} {unit.name}"


@dataclass(frozen=True, kw_only=True)
class FileTransfer(Flow):
    """File transfer; a run lasts for its duration, however many files that makes."""

    kind: ClassVar[WorkloadKind] = TRANSFERS
    name: str = "file_transfer"
    title: str = "File transfer"
    summary: str = "fetch a large file by FTP again and again, with the counters of the client's interface"
    source: str = "RFC 959, RFC 2428; paper 003, Tables 2 and 3, Fig. 4"
    engine: str = "file_transfer"
    metrics: tuple[str, ...] = ("throughput",)
    columns: tuple[str, ...] = ("at_s", "received_bytes", "interface_bytes")
    connections: tuple[int, ...] = (1,)
    payload: tuple[str, ...] = ("100m",)
    payload_title: str = "file size"
    host: str = "ftp.ipperf.test"
    server_protocol: str = "ftp"
    accounts: bool = True
    greedy: bool = True
    rows: tuple[str | FigureRow, ...] = _ROWS
    about_rows: str = (
        "Interface: frames received by the client's device, without preamble, check sequence and gap. Longest gap: "
        "time in which no byte arrived. CPU: server and client's agent, for 1e9 bytes received."
    )
    study: StudySize | None = _STUDY
    longest_run_s: float = _FIVE_MINUTES_S
    longest_warmup_s: float = _SHORT_S

    def check(self, connections: int, payload_bytes: int, factors: Mapping[str, Value]) -> None:
        del factors
        if connections > _MOST_STREAMS:
            raise UsageError(
                f"{connections} sessions at once are more than file_transfer supports; take {_MOST_STREAMS} at most"
            )
        if not _LEAST_BYTES <= payload_bytes <= _MOST_BYTES:
            raise UsageError(f"payload {payload_bytes} is not the size of a file of file_transfer, which is 1k to 16g")

    def served_state(self, state: ServerState, payload_bytes: int) -> ServerState:
        return replace(state, file_bytes=payload_bytes)

    def caution(self, run_s: float) -> str:
        if run_s >= _SHORT_S:
            return ""
        return (
            f"Runs of {seconds_text(run_s)} may end before a large file does; what a transfer's beginning and end cost "
            "is then hardly in them."
        )


protocol = FileTransfer()
