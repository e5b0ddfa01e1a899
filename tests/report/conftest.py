"""Records of flows as a session of the router study writes them, with numbers that are easy to check."""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import math
import random
import statistics
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_ipperf.core.design.cell import Arm, levels_text
from pytest_ipperf.core.design.design import DESIGNS
from pytest_ipperf.core.design.margin import Margin
from pytest_ipperf.core.design.metric import UNITS_OF_CHANGE
from pytest_ipperf.core.design.question import FAILED_SHARE
from pytest_ipperf.core.inference.claim import Claim
from pytest_ipperf.core.inference.effect import Effect, percent_of_log
from pytest_ipperf.core.inference.verdict import judge
from pytest_ipperf.core.measurement.goodput_ceiling import HeaderOverhead
from pytest_ipperf.core.nightly.acceptance import Acceptance
from pytest_ipperf.core.nightly.gate import decide
from pytest_ipperf.core.nightly.session_summary import HostSummary, SessionSummary, Trouble
from pytest_ipperf.core.records.arm_summary import QUANTILES, ArmSummary
from pytest_ipperf.core.records.history_entry import HistoryEntry, HistoryKey
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.core.stats.interval import t_interval
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.protocols import PROTOCOLS
from tests.support.golden import golden  # noqa: F401 - a fixture

SILENT: dict[str, dict[str, Any]] = {
    "tcp": {"window": "auto", "direction": "up", "congestion": "auto"},
    "udp": {"rate": 1e7},
    "rtt": {"probe": "udp", "waiting": "path"},
    "traffic": {"model": "constant"},
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
FIGURES = {
    "tcp": TCP, "udp": UDP, "traffic": {}, "rtt": {"rtt": 0.0012, "worst_rtt": 0.0031, "loss": 0.0, "sent": 1000.0},
}  # fmt: skip


def side(arm, values, protocol="tcp", metric="throughput", **change):
    values = tuple(values)
    figures = FIGURES[protocol] | {metric: statistics.fmean(values)}
    arm_summary = ArmSummary(
        arm=Arm.parse(arm), values=values, attempted=60, completed=60, failed={}, phases={}, figures=figures
    )
    return dataclasses.replace(arm_summary, **change)


def record(protocol, metric, arm, values, reference, *, epochs=None, blocks=1, levels=None, **change):
    """Return a cell whose effect is that of the epochs' first blocks; with one epoch it has none."""
    epochs = len(values) // blocks if epochs is None else epochs
    own: dict[str, Any] = SILENT[protocol] | (levels or {})
    payload, count = change.pop("payload_bytes", 1400), change.pop("connections", 1)
    text = levels_text([each.level(own[each.name]) for each in PROTOCOLS[protocol].factors if each.name in own])
    shown = Record(
        cell=f"lab-{protocol}-c{count}-{payload}-{text}-{arm}", testbed="lab.100mbit", protocol=protocol,
        connections=count, payload_bytes=payload, ipver=int(arm[3]), transport=arm.partition("-")[2] or "native",
        twin=False, client="lean", server="", metric=metric, design="paper" if epochs == 1 else "quick",
        judges=epochs > 1, seed=7, look=1, looks=1, epochs=epochs, blocks=blocks, deadline_s=10.0,
        test=side(arm, values, protocol, metric), reference=side("ipv4", reference, protocol, metric),
        estimate=None, low=None, high=None, confidence=0.95, sd_epoch=None, sd_block=None, margin="10 %",
        margin_fraction=0.1, alpha=0.05, verdict="within" if epochs > 1 else "measured", reasons=(), sentence="...",
        backend="kernel" if "-" in arm else "", rate_bit_s=1e8, run_s=1.0, warmup_s=0.5, levels=own, levels_text=text,
    )  # fmt: skip
    return dataclasses.replace(shown, **_effect(shown), **change)


def _effect(record):
    """Return the change of the epochs' first blocks, on the metric's scale."""
    scale = METRICS[record.metric].metric.scale
    unit = {"change_unit": UNITS_OF_CHANGE[scale]}
    if record.epochs == 1:
        return unit
    pairs = zip(record.test.values[:: record.blocks], record.reference.values[:: record.blocks], strict=True)
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
"""Ratios of each arm to IPv4: TCP, RTT, UDP, jitter, loss."""


def study(epochs=6, blocks=2, seed=1, spread=0.01, arms=tuple(RATIOS)):
    """Return all cells of the router study, of runs that vary around known ratios."""
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


SWEEP = {32: 3e6, 1408: 9.3e7, 8192: 9.4e7}
"""Throughput of IPv4 by payload, in bit/s."""


def payload_sweep(testbed, ratio=0.9):
    """Return TCP and UDP cells of the traffic study: IPv6 has `ratio` of IPv4's throughput, of 32 bytes a tenth."""
    found = []
    for protocol, levels in (("tcp", {}), ("udp", {"rate": "flood"})):
        for size, rate in SWEEP.items():
            for arm, share in (("ipv6", ratio), ("ipv6-tunnel", 0.8 * ratio)):
                own = 0.1 if size == 32 else share
                values, reference = ([mean * each for each in (1.0, 1.01, 0.99)] for mean in (own * rate, rate))
                cell = f"{testbed}-{protocol}-c1-{size}-{arm}"
                found.append(
                    record(protocol, "throughput", arm, values, reference, levels=levels, payload_bytes=size,
                           testbed=testbed, cell=cell)
                )  # fmt: skip
    return found


def messages(testbed, carrier, sizes=(32, 8192)):
    """Return the cells of the jitter of messages: IPv4's is 100 us, IPv6's 150; 100 messages are on the wire."""
    found = []
    own = {"carrier": carrier} if carrier == "tcp" else {}
    for size in sizes:
        cell = f"{testbed}-traffic-c1-{size}-constant-{carrier}-ipv6"
        made = record("traffic", "ipdv", "ipv6", [1.5e-4] * 3, [1e-4] * 3, levels=own, payload_bytes=size,
                      testbed=testbed, cell=cell)  # fmt: skip
        sides = {}
        for name, side_, ipver in (("test", made.test, 6), ("reference", made.reference, 4)):
            overhead = HeaderOverhead(ipver=ipver, datagram=carrier == "udp")
            wire = {
                "wire_messages": 100.0, "wire_payload_bytes": 100.0 * size,
                "wire_packets": 100.0 * overhead.packets(size) + 1, "wire_bytes": 100.0 * overhead.ip_bytes(size) + 28,
                "wire_fragments": 100.0 * overhead.packets(size) if carrier == "udp" and size > 1472 else 0.0,
            }  # fmt: skip
            sides[name] = dataclasses.replace(side_, figures={**side_.figures, **wire})
        found.append(dataclasses.replace(made, **sides))
    return found


@pytest.fixture(scope="session")
def sweep():
    """Function that makes the records of a payload sweep on a testbed."""
    return payload_sweep


@pytest.fixture(scope="session")
def sent_messages():
    """Function that makes the records of messages on a testbed, by their carrier."""
    return messages


@pytest.fixture(scope="session")
def made():
    """Functions that make records: `record`, `side`, `study`."""
    return SimpleNamespace(record=record, side=side, study=study, sweep=payload_sweep, messages=messages)


METRIC = METRICS["response_time"].metric
NIGHTLY = DESIGNS["nightly"]
TODAY = 1795309200.0  # 2026-11-22, 01:00 UTC
NIGHT_S = 86400.0


def application(protocol, count, arm, ratio, *, spread=0.03, seed=1, epochs=10, blocks=3, **change):
    """Return a judged cell of an application: `arm` takes `ratio` times as long as IPv4, `spread` between epochs."""
    draw = random.Random(f"{protocol} {count} {arm} {seed}")
    mean = 0.002 * count**0.7 * (2.5 if protocol == "smtp" else 1.0)
    reference = [mean * math.exp(draw.gauss(0, spread / 3)) for _ in range(epochs * blocks)]
    between = [math.exp(draw.gauss(0, spread)) for _ in range(epochs)]
    values = [
        ratio * between[at // blocks] * each * math.exp(draw.gauss(0, spread / 5)) for at, each in enumerate(reference)
    ]
    twin = arm.endswith("-twin")
    cell = f"lab.100mbit-{protocol}-c{count}-1k-{arm}"
    shown = Record(
        cell=cell, testbed="lab.100mbit", protocol=protocol, connections=count, payload_bytes=1024, ipver=int(arm[3]),
        transport="native" if twin else arm.partition("-")[2] or "native", twin=twin, client="lean",
        server={"smtp": "postfix 3.7.11", "http": "apache 2.4.67"}[protocol], metric=METRIC.name, design=NIGHTLY.name,
        judges=True, seed=7, look=1, looks=1, epochs=epochs, blocks=blocks, deadline_s=10.0,
        test=_served(arm, values), reference=_served("ipv4", reference), estimate=None, low=None, high=None,
        confidence=0.95, sd_epoch=None, sd_block=None, margin="", margin_fraction=None, alpha=0.05, verdict="measured",
        reasons=(), sentence="", backend="kernel" if told_through(arm) else "", rate_bit_s=1e8, fingerprint="f1",
        workload_version="1", nodeid=f"suites/response_time/test_response_time.py::test_{protocol}[{cell}]",
    )  # fmt: skip
    return dataclasses.replace(_judged(shown, values, reference), **change)


def told_through(arm):
    return "tunnel" in arm or "isatap" in arm


def _served(arm, values):
    mean = statistics.fmean(values)
    phases = {"dns": 0.0004, "connect": 0.0007, "first_byte": 0.0011, "total": mean}
    return ArmSummary(
        arm=Arm.parse(arm), values=tuple(values), completed_values=tuple(values), attempted=9000,
        completed=9000, failed={},
        phases=phases, quantiles=dict(zip(QUANTILES, (0.9 * mean, 1.6 * mean, 2.4 * mean, 5 * mean), strict=True)),
    )  # fmt: skip


def _judged(record, values, reference):
    pairs = [math.log(a / b) for a, b in zip(values, reference, strict=True)]
    located = [statistics.median(pairs[at : at + record.blocks]) for at in range(0, len(pairs), record.blocks)]
    effect = Effect(
        metric=METRIC, change=t_interval(located, 0.95), n_epochs=record.epochs, n_blocks=len(pairs),
        sd_epoch=statistics.stdev(located), sd_block=None, test=record.test.arm, reference=Arm.parse("ipv4"),
        test_value=record.test.mean, reference_value=record.reference.mean,
    )  # fmt: skip
    shown = effect.shown
    own = dataclasses.replace(record, estimate=shown.estimate, low=shown.low, high=shown.high, sd_epoch=effect.sd_epoch)
    return own.judged(Claim(judge(effect, Margin.parse("10%,0.5ms"))))


def failing(record, share, *, metric=FAILED_SHARE, spread=0.001):
    """Return the record with a component: `share` more of its connections fail than by the reference."""
    changes = [share + spread * (-1) ** at for at in range(record.epochs)]
    effect = Effect(
        metric=METRICS[metric].metric, change=t_interval(changes, 0.95), n_epochs=record.epochs,
        n_blocks=record.epochs * record.blocks, sd_epoch=statistics.stdev(changes), sd_block=None, test=record.test.arm,
        reference=record.reference.arm, test_value=share, reference_value=0.0, attempted=(9000, 9000),
    )  # fmt: skip
    return record.also(judge(effect, Margin.parse("1pp")))


def past_of(record, nights, *, level=None, spread=0.012, changed=None, seed=1):
    """Return earlier nights of a cell; from night `changed` on they are 8 % slower, and before 10 on other hosts."""
    draw = random.Random(f"{record.cell} {seed}")
    level = math.log1p(record.estimate / 100) if level is None else level
    return [
        HistoryEntry(
            key=record.key, session=f"night-{at:02d}", began_at=TODAY - (nights - at) * NIGHT_S,
            change=level + draw.gauss(0, spread) + (0.08 if changed is not None and at >= changed else 0.0),
            sd_epoch=0.03, epochs=10, test_value=record.test.mean, reference_value=record.reference.mean,
            margin=record.margin, margin_fraction=record.margin_fraction, header_cost=0.0, verdict="within",
            fingerprint="f0" if at < 10 else "f1",
        )
        for at in range(nights)
    ]  # fmt: skip


def samples_of(records, failures=()):
    """Return times of single connections for every arm; the cells in `failures` lose one in fifty."""
    found = {}
    for expected in records:
        workload = expected.workload
        for side_ in (expected.test, expected.reference):
            draw = random.Random(f"{workload} {side_.arm}")
            times = [draw.lognormvariate(math.log(side_.mean), 0.25) for _ in range(600)]
            lost = [math.inf] * 12 if expected.cell in failures and side_ is expected.test else []
            found[workload, side_.arm] = times + lost
    return found


@functools.cache
def night_summary(nights=40, folder="/records/runs/20261122T010000Z-5eed00"):
    """Return a night with cells that are red, accepted, missing and undecided, and one in trouble."""
    arms = ("ipv6", "ipv6-tunnel", "ipv6-isatap", "ipv4-twin")
    ratio = {"ipv6": 1.01, "ipv6-tunnel": 1.03, "ipv6-isatap": 1.035, "ipv4-twin": 1.0}
    slow, known, wide = ("http", 100, "ipv6"), ("smtp", 100, "ipv6-tunnel"), ("smtp", 10, "ipv6-isatap")

    def cell(place, seed):
        protocol, count, arm = place
        times = {slow: 1.21, known: 1.24}.get(place, ratio[arm])
        return application(protocol, count, arm, times, spread=0.2 if place == wide else 0.03, seed=seed)

    places = [(protocol, count, arm) for protocol in ("http", "smtp") for count in (1, 10, 100) for arm in arms]
    screen = [cell(place, 1) for place in places]
    fresh = [cell(place, 2) for place in (slow, known)]
    judged = [expected for expected in screen if not expected.twin]
    histories = {
        expected.key: past_of(
            expected, nights, changed=25 if expected.cell.startswith("lab.100mbit-http-c10-") else None
        )
        for expected in judged
    }
    histories[fresh[0].key] = past_of(fresh[0], nights, level=0.01)
    gone = HistoryKey("lab.100mbit-ftp-c10-1m-ipv6", METRIC.name, "1")
    accepted = [
        Acceptance(
            cell="*-smtp-c100-*-ipv6-tunnel", metric="", reason="sit has no offloads here, ticket NET-7", by="ada",
            at=TODAY - 3 * NIGHT_S, until=dt.date(2026, 12, 24), up_to=0.4,
        )
    ]  # fmt: skip
    trouble = "suites/response_time/test_response_time.py::test_dns[lab.100mbit-dns-c10-1k-ipv6]"
    troubles = {trouble: "bind did not answer on 198.18.0.6 port 53 within 10 s"}
    return SessionSummary(
        name=Path(folder).name, folder=Path(folder), began_at=TODAY, seconds=1510.0,
        question={"schema": 6, "arguments": ["suites", "-m", "a b"], "pytest": "9.2.0", "pytest_ipperf": "0.1.0"},
        records=tuple(screen),
        troubles=tuple(
            Trouble(nodeid=name, kind="infrastructure", sentence=sentence) for name, sentence in troubles.items()
        ),
        hosts=tuple(
            HostSummary(
                testbed="lab.100mbit", role=role, facts={"kernel": "6.12.5", "cpus": 2, "sysctl": {"net.a": place}}
            )
            for place, role in enumerate(("client", "router", "server"))
        ),
        samples=samples_of(screen, failures={screen[0].cell}),
        histories=histories,
        night=decide(
            screen=screen, fresh=fresh, expected={expected.key for expected in judged} | {gone}, histories=histories,
            accepted=accepted, today=dt.date(2026, 11, 22), troubles=troubles,
            metric_of=lambda name: METRICS[name].metric,
        ),
    )  # fmt: skip


@pytest.fixture(scope="session")
def factory():
    """Functions that make records and summaries: `application`, `failing`, `past_of`, `samples_of`, `night_summary`."""
    return SimpleNamespace(
        application=application, failing=failing, past_of=past_of, samples_of=samples_of, night_summary=night_summary
    )
