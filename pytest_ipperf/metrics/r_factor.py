"""R factor: quality of telephone calls by the E-model, from delay, losses and the codec, for what each person hears.

Losses are packets that never came and those too late for a de-jitter buffer of 50 ms above the fastest packet. The
delay is that buffer's end with the codec's own delay; the echo paths have the delays of both directions, and all else
is a connection of G.107's defaults. A call of which nothing arrived in a direction leaves its losses to the others.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from pytest_ipperf.core.design.metric import Metric
from pytest_ipperf.core.measurement.run_data import RunData
from pytest_ipperf.core.portable.traffic.model import Speech
from pytest_ipperf.core.stats.voice_quality import LEAST_R, HeardStream, heard_stream, rating
from pytest_ipperf.metrics.base import Measure

_MOST_ERROR_S = 0.005
"""Largest error of the clocks: 5 ms are at most 0.7 of R, where G.107's impairment by delay is steepest."""
_DIRECTIONS = ("up", "down")
LACKING = "the model has no speech, the clocks' error is unknown or above 5 ms, or nothing was sent"


def ratings(outcome: RunData) -> Sequence[float]:
    """Return R of each call's directions; empty for a run without any."""
    facts = outcome.facts
    if "ie" not in facts or facts.get("clock_error_s", float("inf")) > _MOST_ERROR_S:
        return ()
    speech = Speech(ie=facts["ie"], bpl=facts["bpl"], delay_s=facts["codec_delay_s"])
    heard = {name: _heard(outcome, place) for place, name in enumerate(_DIRECTIONS)}
    found: list[float] = []
    for name, streams in heard.items():
        back = heard[_DIRECTIONS[1 - _DIRECTIONS.index(name)]]
        found += [rating(each, speech, _delay_s(back) if back else each.delay_s) for each in streams]
        if facts.get(f"{name}_sent") and not streams:
            found.append(LEAST_R)
    return found


def _heard(outcome: RunData, direction: int) -> list[HeardStream]:
    streams: dict[float, dict[int, float]] = {}
    for way, stream, sequence, sent_s, received_s in outcome.rows():
        if way == direction:
            streams.setdefault(stream, {}).setdefault(int(sequence), received_s - sent_s)
    spans = {stream: max(delays) - min(delays) + 1 for stream, delays in streams.items()}
    sent = outcome.facts.get(f"{_DIRECTIONS[direction]}_sent", 0.0)
    total = sum(spans.values())
    return [heard_stream(delays, sent * spans[stream] / total) for stream, delays in streams.items()]


def _delay_s(streams: Sequence[HeardStream]) -> float:
    return statistics.fmean(each.delay_s for each in streams)


def _value(outcome: RunData) -> float | None:
    found = ratings(outcome)
    return statistics.fmean(found) if found else None


measure = Measure(
    metric=Metric(
        name="r_factor",
        title="R factor",
        unit="1",
        direction="higher_is_better",
        scale="ratio",
        location="mean",
        resolution=0.0,
        formula=(
            "mean over calls and directions of R = Ro - Is - Id - Ie,eff (at least 1), with losses after a de-jitter "
            "buffer of 50 ms above the fastest packet"
        ),
        source="ITU-T G.107 (06/2015), 7; ITU-T G.113, appendix I; RFC 5481, section 4.2; ITU-T Y.1541, class 0",
        words=("less", "more"),
        margin="5%",
    ),
    value=_value,
    lacking=LACKING,
)
