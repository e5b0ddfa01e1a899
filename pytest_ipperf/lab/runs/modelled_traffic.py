"""Modelled traffic: the model of a workload, and the rates of its layers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pytest_ipperf.core.closest_match import did_you_mean
from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.core.measurement.goodput_ceiling import FRAME_BYTES, HeaderOverhead
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.factor import values_of
from pytest_ipperf.core.portable.traffic.load import LOAD, TCP_LOADS, load_of
from pytest_ipperf.core.portable.traffic.model import TrafficModel
from pytest_ipperf.protocols import PROTOCOLS
from pytest_ipperf.protocols.traffic import Traffic


def model_of(workload: Workload, models: Mapping[str, TrafficModel]) -> TrafficModel | None:
    """Return the model of a workload; raise UsageError if there is none of that name, or if its levels do not fit it.

    None if its traffic is not modelled, or if the arms have different models.
    """
    protocol, levels = PROTOCOLS[workload.protocol], values_of(workload.levels)
    if not isinstance(protocol, Traffic) or protocol.model_factor not in levels:
        return None
    return protocol.shaped(models[protocol.model_name(levels)], workload.payload_bytes, levels)


def load_model_of(workload: Workload, models: Mapping[str, TrafficModel]) -> TrafficModel | None:
    """Return the model of a workload's load; None on an idle path, and of a load by TCP.

    Raise UsageError if there is none of that name.
    """
    level = load_of(values_of(workload.levels))
    return _load_model(level, models) if level and level not in TCP_LOADS else None


def check_load_level(level: str, models: Mapping[str, TrafficModel]) -> None:
    """Raise UsageError if a level of the factor `load` is neither one of its words nor the name of a traffic model."""
    if level not in LOAD.words:
        _load_model(level, models)


def _load_model(level: str, models: Mapping[str, TrafficModel]) -> TrafficModel:
    if level not in models:
        names = [*LOAD.words, *models]
        raise UsageError(
            f"load {level!r} does not exist; there are {', '.join(LOAD.words)}, and the traffic models "
            f"{', '.join(models)}{did_you_mean(level, names)}"
        )
    return models[level]


def model_names(workload: Workload, arms: Iterable[Arm]) -> tuple[str, ...]:
    """Return the names of the models that these arms of a workload measure, or have for load; often there are none."""
    return tuple(dict.fromkeys(name for arm in arms for name in _model_names(workload, arm)))


def _model_names(workload: Workload, arm: Arm) -> Iterator[str]:
    protocol, levels = PROTOCOLS[workload.protocol], {**values_of(workload.levels)}
    compared, _, level = arm.level.partition("_")
    if compared:
        levels[compared] = level
    if isinstance(protocol, Traffic):
        yield protocol.model_name(levels)
    if (load := load_of(levels)) and load not in TCP_LOADS:
        yield load


def layer_facts(layers: HeaderOverhead, facts: Mapping[str, float]) -> dict[str, float]:
    """Return the rates of both directions together as IP packets and on Ethernet, reached and planned.

    Packets have the headers of IP and UDP and of the transport, and on Ethernet the overhead of `FRAME_BYTES`. None are
    known of TCP, whose segments are not the model's packets, nor of packets that travel in fragments.
    """
    if not layers.datagram or facts["largest_bytes"] > layers.max_payload_bytes:
        return {}
    seconds = facts["seconds"]
    reached = max(seconds, facts["received_seconds"]), facts["payload_bytes"], facts["unique"]
    planned = seconds, facts["sent_bytes"] + facts["missed_bytes"], facts["sent"] + facts["missed"]
    return {
        f"{of}{layer}_bit_s": 8 * (payload_bytes + packets * around) / time_s
        for of, (time_s, payload_bytes, packets) in (("", reached), ("planned_", planned))
        for layer, around in (("ip", layers.header_bytes), ("ethernet", layers.header_bytes + FRAME_BYTES))
    }
