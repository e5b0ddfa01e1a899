"""Traffic model: the streams of one call, game or session. Travels to hosts: Python 3.10 alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.traffic.distribution import Variable

NUMBERED, RTP = "numbered", "rtp"
"""Formats of packets: a header with a number and an instant, or one of RTP with those behind it."""
UP, DOWN = "up", "down"
"""Directions of a stream: from the client to the server, and back."""
MODEL_NAME_PATTERN = r"(?!(?:ipv[46]|r[\d.]+|w\d+|none|tcp\.up|tcp\.down)$)[a-z0-9][a-z0-9.]*"
"""Regular expression for the name of a model, which stands in the ids of tests and cells between hyphens.

There an underscore is between a compared factor and its level, `ipv6`, `r200` and `w2` are IP version, arrivals and
workers, and `none`, `tcp.up` and `tcp.down` are loads.
"""
MODEL_NAME_RULE = (
    "small letters, digits and dots, but not ipv4, ipv6, r200, w2, none or tcp.up, which mean other things in ids"
)
"""Rule for the name of a model, as sentences on wrong names end."""
MOST_BYTES = 65507
"""Largest payload of an IPv4 datagram (RFC 791, RFC 768), which IPv6 carries too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Packets in one direction: `interval_s` between two of them, and `size_bytes` of UDP payload in each.

    Where `size_bytes` is None, it is the payload of the workload. A stream with `talk_s` and `pause_s` sends in talk
    spurts of that duration, with pauses between.
    """

    direction: str
    interval_s: Variable
    size_bytes: Variable | None
    talk_s: Variable | None = None
    pause_s: Variable | None = None

    def __post_init__(self) -> None:
        if self.direction not in (UP, DOWN):
            raise UsageError(f"direction {self.direction!r} of a stream does not exist; there are {UP} and {DOWN}")
        if (self.talk_s is None) != (self.pause_s is None):
            raise UsageError("talk and pause of a stream go together; it has one of them")


@dataclass(frozen=True, slots=True, kw_only=True)
class RtpFormat:
    """Payload type of RTP packets, and the rate of their timestamps' clock in Hz (RFC 3551, section 6)."""

    payload_type: int
    clock_hz: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Speech:
    """Parameters of a codec for the E-model (ITU-T G.107): `ie` and `bpl` of ITU-T G.113, and its own delay.

    `delay_s` is the duration of the speech in a packet and the codec's look-ahead.
    """

    ie: float
    bpl: float
    delay_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficModel:
    """Model of one call, game or session; each connection of a workload has all of its streams.

    Its packets are RTP if it has `rtp`, else numbered. With `conversation`, the up and down streams are those of two
    people in a conversation (ITU-T P.59), which send only while they talk. All streams end after `duration_s`. With a
    `seed` the packets are those of that seed in every run, else those of the session's.
    """

    name: str
    title: str
    source: str
    streams: tuple[Stream, ...]
    rtp: RtpFormat | None = None
    speech: Speech | None = None
    conversation: bool = False
    duration_s: float = math.inf
    seed: str = ""

    def __post_init__(self) -> None:
        if self.conversation and any(stream.talk_s for stream in self.streams):
            raise UsageError("a conversation has its own talk spurts; its streams take no talk and pause")

    @property
    def takes_payload(self) -> bool:
        """Return whether the payload of the workload is the size of some packets."""
        return any(stream.size_bytes is None for stream in self.streams)

    def with_payload(self, payload_bytes: int) -> TrafficModel:
        """Return the model with that size where its own leaves it to the workload."""
        size = Variable.of(payload_bytes)
        return replace(
            self,
            streams=tuple(each if each.size_bytes else replace(each, size_bytes=size) for each in self.streams),
        )
