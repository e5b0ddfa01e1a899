"""Estimate the duration of a plan by a rule of thumb, until it has been measured once."""

from __future__ import annotations

from pytest_ipperf.core.design.cell import Workload
from pytest_ipperf.core.design.design import Design
from pytest_ipperf.core.design.plan import Plan
from pytest_ipperf.core.portable.factor import values_of
from pytest_ipperf.core.portable.traffic.load import LEAD_S, LOAD, SILENCE_S, TAIL_S, TCP_LOADS
from pytest_ipperf.lab.epoch.arm_workload import workload_of
from pytest_ipperf.protocols import PROTOCOLS

# Build a testbed, prove its paths and start its servers.
_EPOCH_S = 0.6
# Reboot a host: longer for many physical machines, shorter for most virtual ones.
_REBOOT_S = 60.0
# Check that an arm's path has the rate of its links.
_TRAINS_S = 0.3


def estimated_s(plan: Plan, design: Design, rate_bit_s: float, *, reboot: bool) -> float:
    """Return the estimated seconds of a plan of `design` up to its first look, over links of that rate (0: none)."""
    epochs = plan.look(0)
    counts = {False: sum(len(epoch.blocks) for epoch in epochs), True: len(epochs)}  # of each arm, by `warmup`
    running_s = sum(
        count * _run_s(workload_of(plan.workload, arm), design, rate_bit_s, warmup=warmup)
        for arm in plan.arms
        for warmup, count in counts.items()
    )
    trains_s = _TRAINS_S * len(plan.arms) if rate_bit_s else 0.0
    rebooting_s = (len(epochs) - 1) * _REBOOT_S if reboot else 0.0
    return trains_s + rebooting_s + len(epochs) * _EPOCH_S + running_s


def _run_s(workload: Workload, design: Design, rate_bit_s: float, *, warmup: bool) -> float:
    """Return the estimated seconds of a run; its connections are limited by protocol, arrivals or link rate."""
    protocol = PROTOCOLS[workload.protocol]
    sized = design.for_warmups(workload.connections, protocol.longest_warmup_s) if warmup else design
    size = protocol.kind.run_size(sized, workload.connections)
    connections = size.connections
    arriving_s = connections / workload.rate_per_s if workload.rate_per_s else 0.0
    sending_s = 8 * connections * workload.payload_bytes / rate_bit_s if rate_bit_s else 0.0
    connecting_s = max(protocol.typical_run_s(connections), arriving_s, sending_s)
    flowing_s = size.warmup_s + size.run_s + _background_s(workload)
    return protocol.kind.overhead_s + flowing_s + connecting_s


def _background_s(workload: Workload) -> float:
    """Return the seconds that background traffic adds to a run; 0 without any.

    They are its lead and its tail, and the time in which one end after the other finds that nothing arrives. Queues
    that it has filled drain within it on the lab's links of 2 and 20 Mbit/s.
    """
    loaded = values_of(workload.levels).get(LOAD.name) in TCP_LOADS
    return LEAD_S + TAIL_S + 2 * SILENCE_S if loaded else 0.0
