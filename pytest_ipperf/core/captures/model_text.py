"""Text of a model's file (TOML), which reads back as the same model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from pytest_ipperf.core.portable.traffic.distribution import Distribution, Variable
from pytest_ipperf.core.portable.traffic.model import RTP, TrafficModel

_MS = 1e-3
_ON_A_LINE = 8


def model_text(model: TrafficModel, remarks: Sequence[str] = ()) -> str:
    """Return the file of a fitted model, whose variables are constant, empirical or choices; `remarks` are comments."""
    return "".join(f"{line}\n" for line in _lines(model, remarks))


def _lines(model: TrafficModel, remarks: Sequence[str]) -> Iterator[str]:
    yield from (f"# {each}".rstrip() for each in remarks)
    yield f"title = {json.dumps(model.title)}"
    yield f"source = {json.dumps(model.source)}"
    if model.rtp:
        yield f'format = "{RTP}"'
        yield from ("", "[rtp]", f"payload_type = {model.rtp.payload_type}", f"clock_hz = {model.rtp.clock_hz}")
    for stream in model.streams:
        yield from ("", "[[stream]]", f'direction = "{stream.direction}"')
        given = (
            ("interval_ms", stream.interval_s, _MS), ("size_bytes", stream.size_bytes, 1.0),
            ("talk_s", stream.talk_s, 1.0), ("pause_s", stream.pause_s, 1.0),
        )  # fmt: skip
        variables = [(name, of, unit) for name, of, unit in given if of is not None]
        # TOML has the single values of a table before the tables in it.
        for name, of, unit in variables:
            if of.constant is not None:
                yield f"{name} = {_number(of.constant / unit)}"
        for name, of, unit in variables:
            if of.constant is None:
                yield from _variable(name, of, unit)


def _variable(name: str, of: Variable, unit: float) -> Iterator[str]:
    for part, weight in zip(of.parts, of.weights, strict=True):
        yield ""
        if len(of.parts) > 1:
            yield from (f"[[stream.{name}]]", f"weight = {_number(weight)}")
        else:
            yield f"[stream.{name}]"
        yield from _distribution(part, unit)


def _distribution(of: Distribution, unit: float) -> Iterator[str]:
    yield f'distribution = "{of.name}"'
    yield from _list("quantiles" if of.name == "empirical" else "values", [each / unit for each in of.values])
    if of.weights:
        yield from _list("weights", of.weights)


def _list(name: str, values: Sequence[float]) -> Iterator[str]:
    yield f"{name} = ["
    for at in range(0, len(values), _ON_A_LINE):
        yield f"    {', '.join(map(_number, values[at : at + _ON_A_LINE]))},"
    yield "]"


def _number(value: float) -> str:
    """Return a number as TOML reads it, to nine digits: times to a ns."""
    text = f"{value:.9g}"
    return text if "e" not in text else f"{value:.12f}".rstrip("0")
