"""Records of flows as a session of the router study leaves them, made of numbers that a reader can check."""

from __future__ import annotations

import dataclasses
import math
import random
import statistics
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_ipperf.core.cell import levels_text
from pytest_ipperf.core.effect import percent_of_log
from pytest_ipperf.core.interval import t_interval
from pytest_ipperf.core.metric import UNITS_OF_CHANGE
from pytest_ipperf.core.record import ArmSummary, Record
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.protocols import PROTOCOLS

SILENT: dict[str, dict[str, Any]] = {
    "tcp": {"window": "auto", "direction": "up", "congestion": "auto"},
    "udp": {"rate": 1e7},
    "rtt": {"probe": "udp", "waiting": "path"},
}
TCP = {
    "transfer_time_ratio": 1.012, "tcp_efficiency": 0.9991, "buffer_delay": 2.5, "ideal_bit_s": 9.49e7,
    "retransmits": 3.0, "rtt_s": 0.0042, "base_rtt_s": 0.0012, "cwnd_bytes": 65536.0, "send_buffer_bytes": 131072.0,
    "receive_buffer_bytes": 262144.0, "sender_cpu_s": 0.01, "receiver_cpu_s": 0.02,
    "payload_bytes": 1e7, "seconds": 1.0,
}  # fmt: skip
UDP = {
    "sent": 5000.0, "unique": 4500.0, "duplicates": 0.0, "reordered": 0.0, "seconds": 1.0, "offered_bit_s": 6e7,
    "sent_bit_s": 5.9e7, "pacing_error_s": 6e-8, "pacing_error_p99_s": 1.75e-5, "refused": 0.0, "receiver_drops": 0.0,
    "sender_cpu_s": 0.02, "receiver_cpu_s": 0.01, "throughput": 5.4e7, "loss": 0.1, "jitter": 2.4e-5, "ipdv": 3e-5,
    "pdv": 4e-4, "reordering": 0.0, "duplication": 0.0,
}  # fmt: skip
FIGURES = {"tcp": TCP, "udp": UDP, "rtt": {"rtt": 0.0012, "worst_rtt": 0.0031, "loss": 0.0, "sent": 1000.0}}


def side(arm, values, protocol="tcp", metric="throughput", **change):
    values = tuple(values)
    figures = FIGURES[protocol] | {metric: statistics.fmean(values)}
    told = ArmSummary(arm=arm, values=values, attempted=60, completed=60, failed={}, phases={}, figures=figures)
    return dataclasses.replace(told, **change)


def record(protocol, metric, arm, values, reference, *, epochs=None, blocks=1, levels=None, **change):
    """A cell whose effect is that of the epochs' first blocks; with one epoch it has none."""
    epochs = len(values) // blocks if epochs is None else epochs
    own: dict[str, Any] = SILENT[protocol] | (levels or {})
    payload, count = change.pop("payload_bytes", 1400), change.pop("connections", 1)
    text = levels_text([factor.level(own[factor.name]) for factor in PROTOCOLS[protocol].factors])
    told = Record(
        cell=f"lab-{protocol}-c{count}-{payload}-{text}-{arm}", testbed="lab.100mbit", protocol=protocol,
        connections=count, payload_bytes=payload, ipver=int(arm[3]), transport=arm.partition("-")[2] or "native",
        twin=False, client="lean", server="", metric=metric, design="paper" if epochs == 1 else "quick",
        judges=epochs > 1, seed=7, look=1, looks=1, epochs=epochs, blocks=blocks, deadline_s=10.0,
        test=side(arm, values, protocol, metric), reference=side("ipv4", reference, protocol, metric),
        estimate=None, low=None, high=None, confidence=0.95, sd_epoch=None, sd_block=None, margin="10 %",
        margin_fraction=0.1, alpha=0.05, verdict="within" if epochs > 1 else "measured", reasons=(), sentence="...",
        backend="kernel" if "-" in arm else "", rate_bit_s=1e8, run_s=1.0, warmup_s=0.5, levels=own, levels_text=text,
    )  # fmt: skip
    return dataclasses.replace(told, **_effect(told), **change)


def _effect(told):
    """The change of the epochs' first blocks, by the metric's scale."""
    scale = METRICS[told.metric].metric.scale
    unit = {"change_unit": UNITS_OF_CHANGE[scale]}
    if told.epochs == 1:
        return unit
    pairs = zip(told.test.values[:: told.blocks], told.reference.values[:: told.blocks], strict=True)
    changes = [math.log(a / b) if scale == "ratio" else a - b for a, b in pairs]
    found = t_interval(changes, 0.95).mapped(percent_of_log if scale == "ratio" else _points)
    return unit | {
        "estimate": found.estimate, "low": found.low, "high": found.high, "sd_epoch": statistics.stdev(changes),
    }  # fmt: skip


def _points(share):
    return 100 * share


RATIOS = {
    "ipv6": (0.985, 1.04, 0.97, 1.13, 1.225), "ipv6-isatap": (0.962, 1.09, 0.925, 1.3, 1.45),
    "ipv6-tunnel": (0.962, 1.08, 0.80, 1.25, 2.5),
}  # fmt: skip
"""By arm what it makes of IPv4's figures: TCP, RTT, UDP, jitter, loss."""


def study(epochs=6, blocks=2, seed=1, spread=0.01, arms=tuple(RATIOS)):
    """All cells of the router study, of runs that spread around known ratios."""
    draw = random.Random(seed)
    found = []

    def add(column, protocol, metric, value, **cell):
        def runs(mean):
            return [mean * (1 + draw.gauss(0, spread)) for _ in range(epochs * blocks)]

        reference = runs(value)
        for arm in arms:
            values = runs(value * RATIOS[arm][column]) if value else [0.0] * (epochs * blocks)
            found.append(record(protocol, metric, arm, values, reference, epochs=epochs, blocks=blocks, **cell))

    for window in (16384, 65536, 262144):
        add(0, "tcp", "throughput", min(9.4e7, 1200 * window), levels={"window": window}, payload_bytes=131072)
    for streams in (1, 4, 8):
        add(0, "tcp", "throughput", 9.4e7 - 1e5 * streams, connections=streams, payload_bytes=131072)
    for size in (64, 1408, 8192):
        add(1, "rtt", "rtt", 2e-4 + 1e-7 * size, payload_bytes=size)
    for rate in (2e7, 6e7, 1e8):
        add(2, "udp", "throughput", min(rate, 9.3e7), levels={"rate": rate})
        add(3, "udp", "jitter", rate * 2e-13, levels={"rate": rate})
        add(4, "udp", "loss", max(0.0, 1 - 9.3e7 / rate), levels={"rate": rate})
    return found


@pytest.fixture(scope="session")
def made():
    """What makes records: `record`, `side`, `study`."""
    return SimpleNamespace(record=record, side=side, study=study)
