"""Definition of a traffic model's file: TOML, with the keys that are read here."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.traffic.distribution import EMPIRICAL, Distribution, Variable
from pytest_ipperf.core.portable.traffic.model import (
    DOWN,
    MOST_BYTES,
    NUMBERED,
    RTP,
    UP,
    RtpFormat,
    Speech,
    Stream,
    TrafficModel,
)

T = TypeVar("T")

PAYLOAD = "payload"
"""Size of a stream whose packets have the payload of the workload."""
_MODEL = ("title", "source", "format", "duration_s", "seed", "conversation", "rtp", "speech", "stream")
_STREAM = ("direction", "interval_ms", "size_bytes", "talk_s", "pause_s")
_NOT_PARAMETERS = ("distribution", "weight", "least", "most", "values", "weights", "quantiles")
_MOST_STREAMS = 16
_MS = 1e-3
_HIGHEST_CLOCK_HZ = 1_000_000


def is_model(text: str) -> bool:
    """Return whether a file's text is to be read as that of a model: it has tables [[stream]], or title and source.

    A text that is no TOML is to be read too, which tells the mistake in it.
    """
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return True
    return "stream" in given or {"title", "source"} <= given.keys()


def model_from_text(name: str, text: str) -> TrafficModel:
    """Return the model that a file's text describes; raise UsageError for a mistake in it."""
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"the file is not TOML: {error}") from error
    _check_keys("the file", given, _MODEL)
    format_name = given.get("format", NUMBERED)
    if format_name not in (NUMBERED, RTP):
        raise UsageError(f"format {format_name!r} does not exist; there are {NUMBERED} and {RTP}")
    if (format_name == RTP) != ("rtp" in given):
        raise UsageError(f'format = "{RTP}" and table [rtp] go together; the file has one of them')
    conversation = given.get("conversation", False)
    if not isinstance(conversation, bool):
        raise UsageError(f"conversation is {conversation!r}; it takes true or false")
    options: dict[str, Any] = {}
    if "duration_s" in given:
        options["duration_s"] = _above_0("the file", given, "duration_s")
    return TrafficModel(
        name=name,
        title=_text(given, "title"),
        source=_text(given, "source"),
        streams=_streams(given.get("stream")),
        rtp=_rtp(given["rtp"]) if "rtp" in given else None,
        speech=_speech(given["speech"]) if "speech" in given else None,
        conversation=conversation,
        seed=_text(given, "seed") if "seed" in given else "",
        **options,
    )


def _streams(given: Any) -> tuple[Stream, ...]:
    if not isinstance(given, list) or not 0 < len(given) <= _MOST_STREAMS:
        count = len(given) if isinstance(given, list) else 0
        raise UsageError(f"the file has {count} tables [[stream]]; it takes 1 to {_MOST_STREAMS}")
    return tuple(_stream(f"stream {number}", each) for number, each in enumerate(given, 1))


def _stream(where: str, given: Any) -> Stream:
    _check_keys(where, given, _STREAM)
    for name in ("direction", "interval_ms", "size_bytes"):
        if name not in given:
            raise UsageError(f"{where}: {name} is missing")
    if given["direction"] not in (UP, DOWN):
        raise UsageError(f"{where}: direction {given['direction']!r} does not exist; there are {UP} and {DOWN}")
    if ("talk_s" in given) != ("pause_s" in given):
        raise UsageError(f"{where}: talk_s and pause_s go together; the file has one of them")
    interval_s, size_bytes, talk_s, pause_s = (
        None if given.get(name, PAYLOAD) == PAYLOAD else _variable(f"{where}: {name}", given[name], unit)
        for name, unit in (("interval_ms", _MS), ("size_bytes", 1.0), ("talk_s", 1.0), ("pause_s", 1.0))
    )
    if interval_s is None:
        raise UsageError(f"{where}: interval_ms is {PAYLOAD!r}, which is a size")
    size = size_bytes.constant if size_bytes else None
    if size is not None and not 1 <= size <= MOST_BYTES:
        raise UsageError(f"{where}: size_bytes is {size:g}; it takes 1 to {MOST_BYTES}, or {PAYLOAD!r}")
    return Stream(
        direction=given["direction"], interval_s=interval_s, size_bytes=size_bytes, talk_s=talk_s, pause_s=pause_s
    )


def _variable(where: str, given: Any, unit: float) -> Variable:
    """Return a variable; `unit` is that of the file in base units."""
    if _is_number(given):
        return _told(where, lambda: Variable.of(given * unit))
    parts = [given] if isinstance(given, dict) else given
    if not isinstance(parts, list) or not parts or not all(isinstance(each, dict) for each in parts):
        raise UsageError(f"{where} is {given!r}; it takes a number, a table with a distribution, or a list of tables")
    if len(parts) == 1:
        return Variable((_distribution(where, parts[0], unit),))
    weights = tuple(_number(where, each, "weight") for each in parts)
    return _told(where, lambda: Variable(tuple(_distribution(where, each, unit) for each in parts), weights))


def _distribution(where: str, given: Mapping[str, Any], unit: float) -> Distribution:
    name = given.get("distribution")
    if not isinstance(name, str):
        raise UsageError(f'{where}: distribution is missing, such as distribution = "exponential"')
    values = "quantiles" if name == EMPIRICAL else "values"
    other = "values" if name == EMPIRICAL else "quantiles"
    if other in given:
        raise UsageError(f"{where}: distribution {name} takes no {other}")
    limits = {key: _number(where, given, key) for key in ("least", "most") if key in given}
    parameters = {key: _number(where, given, key) for key in given if key not in _NOT_PARAMETERS}
    return _told(
        where,
        lambda: Distribution(
            name=name,
            parameters=parameters,
            values=_numbers(where, given, values),
            weights=_numbers(where, given, "weights"),
            **limits,
        ).scaled(unit),
    )


def _rtp(given: Any) -> RtpFormat:
    _check_keys("[rtp]", given, ("payload_type", "clock_hz"))
    kind, clock_hz = _number("[rtp]", given, "payload_type"), _number("[rtp]", given, "clock_hz")
    if kind not in range(128):
        raise UsageError(f"[rtp]: payload_type is {kind:g}; it takes a whole number from 0 to 127")
    if clock_hz not in range(1, _HIGHEST_CLOCK_HZ + 1):
        raise UsageError(f"[rtp]: clock_hz is {clock_hz:g}; it takes a whole number from 1 to {_HIGHEST_CLOCK_HZ}")
    return RtpFormat(payload_type=int(kind), clock_hz=int(clock_hz))


def _speech(given: Any) -> Speech:
    _check_keys("[speech]", given, ("ie", "bpl", "delay_ms"))
    ie, delay_ms = _number("[speech]", given, "ie"), _number("[speech]", given, "delay_ms")
    for name, value in (("ie", ie), ("delay_ms", delay_ms)):
        if value < 0:
            raise UsageError(f"[speech]: {name} is {value:g}; it takes a number of 0 or more")
    return Speech(ie=ie, bpl=_above_0("[speech]", given, "bpl"), delay_s=delay_ms * _MS)


def _told(where: str, make: Callable[[], T]) -> T:
    """Return what `make` makes; its UsageError says where in the file the mistake is."""
    try:
        return make()
    except UsageError as error:
        raise UsageError(f"{where}: {error}".replace(f"{where}: {where}: ", f"{where}: ")) from error


def _check_keys(where: str, given: Any, known: Sequence[str]) -> None:
    if not isinstance(given, dict):
        raise UsageError(f"{where} is {given!r}; it takes a table with {', '.join(known)}")
    unknown = [key for key in given if key not in known]
    if unknown:
        raise UsageError(f"{where}: key {unknown[0]!r} does not exist; there are {', '.join(known)}")


def _text(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{name} is {value!r}; it takes a text in quotes" if name in given else f"{name} is missing")
    return value


def _numbers(where: str, given: Mapping[str, Any], name: str) -> tuple[float, ...]:
    values = given.get(name, [])
    if not isinstance(values, list) or not all(map(_is_number, values)):
        raise UsageError(f"{where}: {name} is {values!r}; it takes a list of numbers")
    return tuple(map(float, values))


def _above_0(where: str, given: Mapping[str, Any], name: str) -> float:
    value = _number(where, given, name)
    if value <= 0:
        raise UsageError(f"{where}: {name} is {value:g}; it takes a number above 0")
    return value


def _number(where: str, given: Mapping[str, Any], name: str) -> float:
    if name not in given:
        raise UsageError(f"{where}: {name} is missing")
    if not _is_number(given[name]):
        raise UsageError(f"{where}: {name} is {given[name]!r}; it takes a number")
    return float(given[name])


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
