"""The flows of `traffic.py`: the project's models, D-ITG's words for them, and what theory says of each.

Distribution functions come from scipy, not from the code that draws.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from scipy import stats

from pytest_ipperf.core.portable.traffic.distribution import Distribution, Variable
from pytest_ipperf.core.portable.traffic.model import UP, Stream, TrafficModel
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.protocols.traffic import OWN_BYTES, Traffic
from pytest_ipperf.protocols.voip import CODEC
from pytest_ipperf.traffic_models import shipped_models

LEAST_BYTES = 16
"""Smallest packet of D-ITG 2.8.1 over UDP, and of ours."""
MOST_BYTES = 2048
GAMES = {"cs.active": "CSa", "cs.inactive": "CSi", "quake3": "Quake3"}
MODELS = shipped_models()
CALL = MODELS["g729.3"]
Cumulative = Callable[[int], float]
"""Probability of a whole number or a smaller one."""


@dataclass(frozen=True)
class Sent:
    """A flow: its name, D-ITG's words for it, and the stream of ours; `packets_s` is 0 if the mean interval is none."""

    name: str
    ditg: str
    stream: Stream
    packets_s: float

    @property
    def size(self) -> Variable:
        """The distribution of sizes in bytes."""
        assert self.stream.size_bytes
        return self.stream.size_bytes

    def mean_bytes(self) -> float:
        """Return the mean size, each cut to a whole number and at least the least one."""
        below = cumulative(self.size, least=LEAST_BYTES)
        return math.fsum(1 - below(each) for each in range(MOST_BYTES))


def _flows() -> tuple[Sent, ...]:
    voip = PROTOCOLS["voip"]
    assert isinstance(voip, Traffic)
    found = []
    for codec in CODEC.words:
        for rtp, vad in ((rtp, vad) for vad in ("off", "ditg") for rtp in ("rtp", "crtp2")):
            model = voip.shaped(MODELS[codec], OWN_BYTES, {"codec": codec, "vad": vad, "rtp": rtp})
            stream, name = _up(model), f"G.{codec[1:]}"
            words = f"VoIP -x {name} -h {'RTP' if rtp == 'rtp' else 'CRTP'}{' -VAD' if vad == 'ditg' else ''}"
            title = f"{name}, {'RTP' if rtp == 'rtp' else 'cRTP'}{', VAD' if vad == 'ditg' else ''}"
            assert stream.interval_s.constant
            found.append(Sent(title, words, stream, 1 / stream.interval_s.constant))
    for game, word in GAMES.items():
        stream = _up(MODELS[game])
        found.append(Sent(game, word, stream, _rate(stream.interval_s)))
    return tuple(found)


def _up(model: TrafficModel) -> Stream:
    return next(each for each in model.streams if each.direction == UP)


def _rate(interval_s: Variable) -> float:
    """Return the rate of a mixture; 0 with Student's t, whose mean is infinite or met by no sample of a minute."""
    if any(each.name == "student_t" for each in interval_s.parts):
        return 0.0
    means_s = [each.parameters["mean" if each.name == "exponential" else "value"] for each in interval_s.parts]
    weighted = zip(interval_s.weights, means_s, strict=True)
    return sum(interval_s.weights) / math.fsum(weight * mean_s for weight, mean_s in weighted)


def together(sent: Sequence[Sent]) -> TrafficModel:
    """Return the model that sends all of these flows, in this order."""
    return TrafficModel(name="together", title="", source="", streams=tuple(each.stream for each in sent))


# --- distributions ----------------------------------------------------------------------------------------------------


def cumulative(variable: Variable, *, least: float = 0.0, unit: float = 1.0, rounded: bool = False) -> Cumulative:
    """Return the distribution function of whole numbers: values in `unit`, at least `least`, rounded or else cut."""
    parts = [
        (weight / sum(variable.weights), part) for weight, part in zip(variable.weights, variable.parts, strict=True)
    ]
    up = 0.5 if rounded else 1.0

    def below(number: int) -> float:
        end = (number + up) * unit
        return math.fsum(weight * _below(part, end) for weight, part in parts) if end > least else 0.0

    return below


def _below(part: Distribution, end: float) -> float:
    """Return the probability of a value below `end`."""
    known = part.parameters
    match part.name:
        case "constant":
            return float(known["value"] < end)
        case "choice":
            chosen = zip(part.values, part.weights, strict=True)
            return math.fsum(weight for value, weight in chosen if value < end) / math.fsum(part.weights)
        case "normal":
            law: Any = stats.norm(known["mean"], known["sd"])
        case "exponential":
            law = stats.expon(scale=known["mean"])
        case "student_t":
            law = stats.t(known["df"], known["location"], known["scale"])
        case other:
            raise ValueError(other)
    return float(law.cdf(end))


def distance(one: Sequence[int], other: Sequence[int] | Cumulative) -> str:
    """Return the Kolmogorov-Smirnov distance, and p, which for whole numbers is an upper bound."""
    first = _empirical(one)
    second, weight = (other, float(len(one))) if callable(other) else (_empirical(other), _weight(one, other))
    places = {*one, *(() if callable(other) else other)}
    most = max(abs(first(each) - second(each)) for near in places for each in (near - 1, near))
    return f"{most:.4f} ({float(stats.kstwobign.sf(math.sqrt(weight) * most)):.2g})"


def _weight(one: Sequence[int], other: Sequence[int]) -> float:
    return len(one) * len(other) / (len(one) + len(other))


def _empirical(values: Sequence[int]) -> Cumulative:
    ordered = sorted(values)
    return lambda number: bisect_right(ordered, number) / len(ordered)


SENT = _flows()
CODECS = len(SENT) - len(GAMES)
"""Number of flows that are calls; they come first."""
