"""Streams of packets among the samples of a run."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable
from typing import NamedTuple

from pytest_ipperf.core.measurement.run_data import RunData

_OF = "stream"


class PacketStream(NamedTuple):
    """Columns of the packets of one stream, in order of arrival: number, and instants of sending and arrival in s."""

    sequence: array[float]
    sent_s: array[float]
    received_s: array[float]


def packet_streams(data: RunData) -> list[PacketStream]:
    """Return the streams of a run's packets; a run without column `stream` has one."""
    columns = PacketStream(*map(data.column, PacketStream._fields))
    if _OF not in data.columns:
        return [columns]
    found: dict[float, PacketStream] = {}
    for stream, *packet in zip(data.column(_OF), *columns, strict=True):
        if stream not in found:
            found[stream] = PacketStream(array("d"), array("d"), array("d"))
        for column, value in zip(found[stream], packet, strict=True):
            column.append(value)
    return list(found.values())


def mean_of_streams(values: Iterable[float | None]) -> float | None:
    """Return the mean of a figure over the streams that have it; None if none has."""
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None
