"""Modelled traffic: the model of a workload, and the rates of its layers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.core.measurement.goodput_ceiling import FRAME_BYTES, HeaderOverhead
from pytest_ipperf.core.portable.factor import values_of
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


def model_names(workload: Workload, arms: Iterable[Arm]) -> tuple[str, ...]:
    """Return the names of the models that these arms of a workload measure; none if its traffic is not modelled."""
    protocol, levels = PROTOCOLS[workload.protocol], values_of(workload.levels)
    if not isinstance(protocol, Traffic):
        return ()
    if protocol.model_factor in levels:
        return (protocol.model_name(levels),)
    return tuple(dict.fromkeys(arm.level.partition("_")[2] for arm in arms))


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
