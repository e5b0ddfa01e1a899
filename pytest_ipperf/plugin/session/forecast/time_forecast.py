"""Estimate the duration of a plan by a rule of thumb, until it has been measured once."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.core.design.design import Design
from pytest_ipperf.core.design.plan import Plan
from pytest_ipperf.core.portable.factor import values_of
from pytest_ipperf.core.portable.traffic.load import LEAD_S, SILENCE_S, TAIL_S, load_of
from pytest_ipperf.core.portable.traffic.model import TrafficModel
from pytest_ipperf.lab.epoch.arm_workload import workload_of
from pytest_ipperf.lab.inventory.model import Links
from pytest_ipperf.lab.runs.background import drain_s
from pytest_ipperf.protocols import PROTOCOLS

# Build a testbed, prove its paths and start its servers.
_EPOCH_S = 0.6
# Reboot a host: longer for many physical machines, shorter for most virtual ones.
_REBOOT_S = 60.0
# Check that an arm's path has the rate of its links.
_TRAINS_S = 0.3


def estimated_s(plan: Plan, design: Design, links: Links, models: Mapping[str, TrafficModel], *, reboot: bool) -> float:
    """Return the estimated seconds of a plan of `design` up to its first look, over these links."""
    epochs = plan.look(0)
    counts = {False: sum(len(epoch.blocks) for epoch in epochs), True: len(epochs)}  # of each arm, by `warmup`
    workloads = {arm: workload_of(plan.workload, arm) for arm in plan.arms}
    running_s = {
        own: sum(count * _run_s(own, design, links.rate_bit_s, warmup=warmup) for warmup, count in counts.items())
        for own in set(workloads.values())
    }
    arms_s = sum(
        running_s[own] + sum(counts.values()) * _background_s(arm, own, design, links, models)
        for arm, own in workloads.items()
    )
    trains_s = _TRAINS_S * len(plan.arms) if links.rate_bit_s else 0.0
    rebooting_s = (len(epochs) - 1) * _REBOOT_S if reboot else 0.0
    return trains_s + rebooting_s + len(epochs) * _EPOCH_S + arms_s


def _run_s(workload: Workload, design: Design, rate_bit_s: float, *, warmup: bool) -> float:
    """Return the estimated seconds of a run; its connections are limited by protocol, arrivals or link rate."""
    protocol = PROTOCOLS[workload.protocol]
    sized = design.for_warmups(workload.connections, protocol.longest_warmup_s) if warmup else design
    size = protocol.kind.run_size(sized, workload.connections)
    connections = size.connections
    arriving_s = connections / workload.rate_per_s if workload.rate_per_s else 0.0
    sending_s = 8 * connections * workload.payload_bytes / rate_bit_s if rate_bit_s else 0.0
    connecting_s = max(protocol.typical_run_s(connections), arriving_s, sending_s)
    return protocol.kind.overhead_s + size.warmup_s + size.run_s + connecting_s


def _background_s(
    arm: Arm, workload: Workload, design: Design, links: Links, models: Mapping[str, TrafficModel]
) -> float:
    """Return the seconds that background traffic adds to a run; 0 without any.

    They are its lead and its tail, the time in which its queues drain, and that in which one end after the other finds
    that nothing arrives.
    """
    if not load_of(values_of(workload.levels)):
        return 0.0
    loaded_s = LEAD_S + design.warmup_s + design.run_s + TAIL_S
    return LEAD_S + TAIL_S + drain_s(arm, workload, models, links, loaded_s) + 2 * SILENCE_S
