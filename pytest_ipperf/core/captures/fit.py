"""Traffic models fitted to a flow: empirical distributions of the sizes and intervals of its packets.

Values are drawn independently of each other from these distributions, so a model has no memory beyond talk spurts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from pytest_ipperf.core.captures.flow import Direction, Flow
from pytest_ipperf.core.captures.talk_spurts import talk_spurts
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.traffic.distribution import Distribution, Variable
from pytest_ipperf.core.portable.traffic.model import DOWN, UP, RtpFormat, Stream, TrafficModel

FEWEST = 20
"""Fewest packets of a direction that a distribution is made of."""
_MOST_SIZES = 64
"""Most different sizes that are listed one by one, with their shares."""
_STEPS = 100
_TAIL = 0.99
"""Share of the values below the tail, which has as many quantiles of its own, as a few values may be most of a mean."""
RESOLUTION_S = 1e-6
"""Resolution of most captures; smaller differences say nothing."""


@dataclass(frozen=True, slots=True)
class CapturedStream:
    """Packets of one direction, as a model's stream is fitted to them."""

    name: str
    sizes: Sequence[int]
    intervals_s: Sequence[float]
    repeated: int

    @property
    def duration_s(self) -> float:
        """Return the time from the first packet to the last."""
        return math.fsum(self.intervals_s)


def captured_streams(flow: Flow) -> list[CapturedStream]:
    """Return the directions with enough packets; UsageError if there is none."""
    found = [
        _captured(name, direction)
        for name, direction in ((UP, flow.up), (DOWN, flow.down))
        if len(direction.at_ns) >= FEWEST
    ]
    if not found:
        most = max(len(flow.up.at_ns), len(flow.down.at_ns))
        raise UsageError(f"flow {flow} has {most} packets in a direction; a model is fitted to {FEWEST} or more")
    if not any(stream.duration_s for stream in found):
        raise UsageError(f"all packets of flow {flow} have the same time, so that there are no intervals")
    return found


def _captured(name: str, direction: Direction) -> CapturedStream:
    ordered = sorted(zip(direction.at_ns, direction.size_bytes, strict=True), key=lambda packet: packet[0])
    intervals = [(later[0] - earlier[0]) / 1e9 for earlier, later in pairwise(ordered)]
    return CapturedStream(name, [size for _, size in ordered], intervals, direction.repeated)


def rtp_format(flow: Flow) -> RtpFormat | None:
    """Return the format of RTP if every direction with enough packets has the same; None otherwise."""
    forms = {each.rtp.form() for each in (flow.up, flow.down) if len(each.at_ns) >= FEWEST}
    return forms.pop() if len(forms) == 1 else None


def fitted_model(name: str, title: str, source: str, flow: Flow) -> TrafficModel:
    """Return the model of a flow; UsageError if it has too few packets."""
    streams = tuple(_stream(each) for each in captured_streams(flow))
    return TrafficModel(name=name, title=title, source=source, streams=streams, rtp=rtp_format(flow))


def _stream(captured: CapturedStream) -> Stream:
    found, sizes = talk_spurts(captured.intervals_s), Variable((_sizes(captured.sizes),))
    if found is None:
        return Stream(direction=captured.name, interval_s=_times(captured.intervals_s), size_bytes=sizes)
    return Stream(
        direction=captured.name,
        interval_s=_times(found.intervals_s),
        size_bytes=sizes,
        talk_s=_times(found.talk_s),
        pause_s=_times(found.pause_s),
    )


def _sizes(sizes: Sequence[int]) -> Distribution:
    """Return the distribution of sizes: each one with its share, or quantiles if there are too many."""
    counted = sorted(Counter(sizes).items())
    if len(counted) == 1:
        return Distribution(name="constant", parameters={"value": float(sizes[0])})
    if len(counted) > _MOST_SIZES:
        # Sizes are drawn as the integer below, so that half a byte is added for their mean.
        return _empirical([size + 0.5 for size in sizes], _STEPS)
    return Distribution(
        name="choice",
        values=tuple(float(size) for size, _ in counted),
        weights=tuple(float(count) for _, count in counted),
    )


def _times(values_s: Sequence[float]) -> Variable:
    """Return the variable of times: quantiles, of many values with a tail of their own."""
    ordered = sorted(max(RESOLUTION_S, each) for each in values_s)
    if ordered[-1] - ordered[0] <= RESOLUTION_S:
        return Variable.of(math.fsum(ordered) / len(ordered))
    if len(ordered) <= _STEPS + 1:
        return Variable((_empirical(ordered, _STEPS),))
    border = math.floor(_TAIL * (len(ordered) - 1))
    parts = (_empirical(ordered[: border + 1], _STEPS), _empirical(ordered[border:], _STEPS))
    return Variable(parts, (_TAIL, 1 - _TAIL))


def _empirical(values: Sequence[float], most_steps: int) -> Distribution:
    """Return the distribution with quantiles at equal steps: all values, if there are not more than `most_steps`."""
    ordered = sorted(values)
    steps = min(most_steps, len(ordered) - 1)
    return Distribution(name="empirical", values=tuple(_at(ordered, place / steps) for place in range(steps + 1)))


def _at(ordered: Sequence[float], share: float) -> float:
    """Return the quantile at a share, on the straight line between two values (definition 7 of Hyndman and Fan)."""
    place = share * (len(ordered) - 1)
    low = min(math.floor(place), len(ordered) - 2)
    return ordered[low] + (place - low) * (ordered[low + 1] - ordered[low])
