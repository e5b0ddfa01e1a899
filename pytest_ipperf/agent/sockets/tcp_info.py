"""TCP_INFO of a connection (tcp(7), linux/tcp.h): its layout, and samples of it during a run."""

from __future__ import annotations

import socket
import statistics
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

_LAYOUT = struct.Struct("=16xI48xII4xI16xI16xQ20xI8x4Q8xQQ")
"""Layout of `tcp_info` up to `tcpi_bytes_retrans`, the last member used here; Linux has it since 4.19."""
_SEGMENTS = struct.Struct("=24xI108xII")
"""Layout of the members `tcpi_unacked`, `tcpi_segs_out` and `tcpi_segs_in`; Linux has the last two since 4.2."""
_ROOM_BYTES = 512
_NO_RTT_US = 0xFFFFFFFF


class TcpInfo(NamedTuple):
    """One sample of a connection's TCP_INFO; members that an older kernel lacks are 0."""

    mss_bytes: int
    rtt_us: int
    rttvar_us: int
    cwnd_segments: int
    retransmits: int
    bytes_acked: int
    min_rtt_us: int
    delivery_rate_bytes_s: int
    busy_us: int
    rwnd_limited_us: int
    sndbuf_limited_us: int
    bytes_sent: int
    bytes_retrans: int


def tcp_info(sock: socket.socket) -> TcpInfo:
    """Return one sample; its smallest round-trip time is 0 as long as there is none."""
    return parsed(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _ROOM_BYTES))


def parsed(data: bytes) -> TcpInfo:
    """Parse the structure, which is shorter from older kernels."""
    found = TcpInfo._make(_LAYOUT.unpack_from(data.ljust(_LAYOUT.size, b"\0")))
    return found._replace(min_rtt_us=0) if found.min_rtt_us == _NO_RTT_US else found


def segments(data: bytes) -> tuple[int, int]:
    """Return how many of our segments are unacknowledged, and how many segments passed in both directions.

    Raise struct.error if the kernel is too old to count them.
    """
    waiting, sent, received = _SEGMENTS.unpack_from(data)
    return waiting, sent + received


class TcpInfoSampler:
    """Sampler of TCP_INFO of all streams of a sender. `series` has a row for each sample, see `COLUMNS`."""

    COLUMNS = (
        "at_s", "rtt_s", "rttvar_s", "cwnd_bytes", "delivery_rate_bit_s", "retransmits", "acked_bytes",
    )  # fmt: skip
    """Time of the sample, three means over the streams, and three sums."""

    def __init__(self, socks: Sequence[socket.socket]) -> None:
        self._socks = socks
        self._counted: list[list[TcpInfo]] = []
        self._last = [tcp_info(sock) for sock in socks]
        self.series: list[list[float]] = []

    def sample(self, at_s: float, *, counts: bool) -> None:
        """Take a sample, `at_s` after the transfer's start; `counts` says whether it belongs to the run."""
        self._last = found = [tcp_info(sock) for sock in self._socks]
        if counts:
            self._counted.append(found)
        self.series.append([
            at_s, *_means(found), sum(each.delivery_rate_bytes_s for each in found) * 8.0,
            sum(each.retransmits for each in found), sum(each.bytes_acked for each in found),
        ])  # fmt: skip

    def facts(self) -> dict[str, float]:
        """Return the figures that metrics use, under the names of the engine's facts."""
        found, last = self._counted or [self._last], self._last
        means = [_means(each) for each in found]
        rates = [sum(each.delivery_rate_bytes_s for each in sample) * 8.0 for sample in found]
        facts = {
            "retransmits": float(sum(each.retransmits for each in last)),
            "rtt_s": statistics.fmean(mean[0] for mean in means),
            "cwnd_bytes": statistics.fmean(mean[2] for mean in means),
            "delivery_rate_bit_s": statistics.fmean(rates),
            "mss_bytes": float(max(each.mss_bytes for each in last)),
        }
        if known := [each.min_rtt_us for each in last if each.min_rtt_us]:
            facts["base_rtt_s"] = min(known) * 1e-6
        if all(each.bytes_sent for each in last):
            facts["sent_bytes"] = float(sum(each.bytes_sent for each in last))
            facts["retransmitted_bytes"] = float(sum(each.bytes_retrans for each in last))
        return facts

    def detail(self) -> dict[str, Any]:
        """Return further data worth keeping: the last sample of each stream, and the series."""
        streams = [each._asdict() for each in self._last]
        return {"tcp_info": streams, "tcp_info_columns": list(self.COLUMNS), "tcp_info_series": self.series}


def _means(found: Sequence[TcpInfo]) -> tuple[float, float, float]:
    """Return round-trip time and its deviation in seconds, and the congestion window in bytes."""
    count = len(found)
    return (
        sum(each.rtt_us for each in found) * 1e-6 / count,
        sum(each.rttvar_us for each in found) * 1e-6 / count,
        sum(each.cwnd_segments * each.mss_bytes for each in found) / count,
    )
