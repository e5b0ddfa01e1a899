"""Schedule of a traffic model: the packets of all connections in the order of their instants, from a seed.

Each stream has random numbers of its own, so its packets do not depend on how many other streams there are. Its first
packet comes within the first interval that it draws, which spreads the streams of many connections. The same model,
connections and seed give the same schedule. Travels to hosts: Python 3.10 alone.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from pytest_ipperf.core.portable.traffic.conversation import talk_spurts
from pytest_ipperf.core.portable.traffic.draw import drawing
from pytest_ipperf.core.portable.traffic.model import MOST_BYTES, UP, Stream, TrafficModel

_LEAST_S = 1e-6
"""Least time between two packets of a stream; distributions may give 0 or less."""

Spurts = Iterator[tuple[float, float]]
"""Beginning and end in s of one talk spurt after another."""


class Packet(NamedTuple):
    """Packet due at `due_s` after the beginning; `number` counts those of its stream from 0.

    `stream` numbers the streams of all connections: those of connection 0 first. `first` marks the first packet of a
    talk spurt, and of a stream.
    """

    due_s: float
    stream: int
    number: int
    size_bytes: int
    first: bool


def packets(
    model: TrafficModel, direction: str, connections: int, seed: str, *, least_bytes: int, until_s: float
) -> Iterator[Packet]:
    """Yield the packets of that direction that are due before `until_s`, and before the model's own end.

    `model` has its payload; sizes are at least `least_bytes`.
    """
    seed, until_s = model.seed or seed, min(until_s, model.duration_s)
    streams = [
        _stream(model, number, connection, seed, least_bytes)
        for connection in range(connections)
        for number, stream in enumerate(model.streams)
        if stream.direction == direction
    ]
    heap = [(next(following), order, following) for order, following in enumerate(streams)]
    heapq.heapify(heap)
    while heap and heap[0][0].due_s < until_s:
        packet, order, following = heap[0]
        yield packet
        heapq.heapreplace(heap, (next(following), order, following))


def _stream(model: TrafficModel, number: int, connection: int, seed: str, least_bytes: int) -> Iterator[Packet]:
    """Yield the packets of a stream of a connection without end."""
    stream, index = model.streams[number], connection * len(model.streams) + number
    random = Random(f"{seed}/{index}")  # noqa: S311 - not a secret
    if stream.size_bytes is None:
        raise ValueError(f"traffic model {model.name} has no payload yet")
    interval, size, constant = drawing(stream.interval_s, random), drawing(stream.size_bytes, random), None
    if stream.size_bytes.constant is not None:
        constant = _bounded(stream.size_bytes.constant, least_bytes)
    spurts = _spurts(model, stream, f"{seed}/talk/{connection}", random)
    due_s, ends_s, count, first = random.random() * max(_LEAST_S, interval()), -math.inf, 0, True
    while True:
        while spurts is not None and due_s >= ends_s:
            begins_s, ends_s = next(spurts)
            due_s, first = max(due_s, begins_s), True
        yield Packet(due_s, index, count, constant or _bounded(size(), least_bytes), first)
        count, first = count + 1, False
        due_s += max(_LEAST_S, interval())


def _bounded(size_bytes: float, least_bytes: int) -> int:
    return int(min(max(size_bytes, least_bytes), MOST_BYTES))


def _spurts(model: TrafficModel, stream: Stream, conversation: str, random: Random) -> Spurts | None:
    """Return the talk spurts of a stream; None if it never pauses."""
    if model.conversation:
        return talk_spurts(0 if stream.direction == UP else 1, Random(conversation))  # noqa: S311
    if stream.talk_s is None or stream.pause_s is None:
        return None
    return _independent(stream, random)


def _independent(stream: Stream, random: Random) -> Spurts:
    assert stream.talk_s is not None  # noqa: S101 - for the type checker
    assert stream.pause_s is not None  # noqa: S101
    talk, pause = drawing(stream.talk_s, random), drawing(stream.pause_s, random)
    begins_s = -random.random() * (max(_LEAST_S, talk()) + max(0.0, pause()))
    while True:
        ends_s = begins_s + max(_LEAST_S, talk())
        yield begins_s, ends_s
        begins_s = ends_s + max(0.0, pause())
