"""Voice over IP: telephone calls at once, both people's RTP in each (RFC 3550, RFC 3551; paper 004, Figs 12 to 14)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.factor import Factor, Value
from pytest_ipperf.core.portable.figure_row import FigureRow
from pytest_ipperf.core.portable.offload import OFFLOAD
from pytest_ipperf.core.portable.traffic.carrier import CARRIER
from pytest_ipperf.core.portable.traffic.distribution import Variable
from pytest_ipperf.core.portable.traffic.load import GENERATORS, LOAD
from pytest_ipperf.core.portable.traffic.model import MODEL_NAME_PATTERN, Stream, TrafficModel
from pytest_ipperf.core.portable.workload_kind import FLOWS, WorkloadKind
from pytest_ipperf.protocols.traffic import OWN_BYTES, Traffic

OFF, P59, DITG = "off", "p59", "ditg"
DITG_SHARE = 0.65
"""Share of a packet's speech that D-ITG 2.8.1 sends with voice activity detection; it has no pauses."""
RTP_BYTES = 12
"""Bytes of the header of RTP without contributing sources (RFC 3550, section 5.1)."""
COMPRESSED_BYTES = {"rtp": RTP_BYTES, "crtp": 4, "crtp2": 2}
"""Bytes before the speech: of RTP, or of the header into which RFC 2508 and RFC 3545 compress those of IP, UDP and RTP.

It has 2 bytes, and 4 with UDP's checksum, which IPv6 requires (RFC 8200, section 8.1); D-ITG always takes 2.
"""

CODEC = Factor(
    name="codec",
    title="codec",
    unit="word",
    levels=("g711.1",),
    help="codec of VoIP, a traffic model with speech: one of the package's, or one of a user's own folder",
    words=("g711.1", "g711.2", "g723.1", "g729.2", "g729.3"),
    further=MODEL_NAME_PATTERN,
)
VAD = Factor(
    name="vad",
    title="voice activity detection",
    unit="word",
    levels=(OFF,),
    help=(
        f"voice activity detection of VoIP: {OFF}, {P59} (talk spurts and pauses of a conversation by ITU-T P.59), "
        f"{DITG} ({DITG_SHARE:g} of the speech in every packet, as D-ITG)"
    ),
    mark="vad",
    words=(OFF, P59, DITG),
    implicit=OFF,
)
RTP = Factor(
    name="rtp",
    title="RTP",
    unit="word",
    levels=("rtp",),
    help=(
        "headers of VoIP: rtp, crtp (4 bytes in place of RTP's 12, the compressed header with UDP's checksum) or crtp2 "
        "(2 bytes, without it, as D-ITG); IP and UDP headers travel in full"
    ),
    words=tuple(COMPRESSED_BYTES),
    implicit="rtp",
)


@dataclass(frozen=True, kw_only=True)
class Voip(Traffic):
    """VoIP; a connection is a call."""

    kind: ClassVar[WorkloadKind] = replace(FLOWS, unit="call")

    name: str = "voip"
    title: str = "VoIP"
    summary: str = "make telephone calls of RTP, with the packets of a codec in both directions"
    source: str = "RFC 3550, RFC 3551; paper 004, Figs 12 to 14"
    metrics: tuple[str, ...] = (*Traffic.metrics, "r_factor", "mos")
    rows: tuple[str | FigureRow, ...] = ("r_factor", "mos", *Traffic.rows)
    connections: tuple[int, ...] = (1, 10)
    payload: tuple[str, ...] = (str(OWN_BYTES),)
    factors: tuple[Factor, ...] = (CODEC, VAD, RTP, CARRIER, OFFLOAD, LOAD, GENERATORS)
    model_factor: str = "codec"

    def shaped(self, model: TrafficModel, payload_bytes: int, factors: Mapping[str, Value]) -> TrafficModel:
        if model.speech is None or model.rtp is None:
            raise UsageError(
                f"traffic model {model.name} is no codec, as its file lacks [speech] or [rtp]; take a codec such as "
                f"{', '.join(CODEC.words)}, or measure it by protocol traffic"
            )
        model = super().shaped(model, payload_bytes, factors)
        vad, rtp = factors.get(VAD.name, OFF), str(factors.get(RTP.name, RTP.implicit))
        if vad == P59:
            model = replace(model, conversation=True)
        share, header_bytes = DITG_SHARE if vad == DITG else 1.0, COMPRESSED_BYTES[rtp]
        if share == 1.0 and header_bytes == RTP_BYTES:
            return model
        streams = tuple(_resized(model.name, stream, share, header_bytes) for stream in model.streams)
        return replace(model, streams=streams, rtp=model.rtp if header_bytes == RTP_BYTES else None)


def _resized(name: str, stream: Stream, share: float, header_bytes: int) -> Stream:
    """Return a stream with a share of the speech in its packets, and another header than RTP's."""
    size_bytes = stream.size_bytes.constant if stream.size_bytes else None
    if size_bytes is None or size_bytes <= RTP_BYTES:
        raise UsageError(
            f"codec {name} has packets of different sizes, or without speech, whose speech cannot be made less or its "
            "headers compressed; take --vad=off,p59 and --rtp=rtp"
        )
    return replace(stream, size_bytes=Variable.of(int((size_bytes - RTP_BYTES) * share + header_bytes)))


protocol = Voip()
