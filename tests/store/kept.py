"""Stored sessions: records made of numbers, judged as the plugin judges them, in an event log of the store."""

from __future__ import annotations

import dataclasses
import json
import random
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.design import DESIGNS
from pytest_ipperf.core.design.margin import Margin
from pytest_ipperf.core.design.metric import UNITS_OF_CHANGE
from pytest_ipperf.core.inference.claim import Claim
from pytest_ipperf.core.inference.effect import compare
from pytest_ipperf.core.inference.verdict import judge
from pytest_ipperf.core.measurement.run import Run
from pytest_ipperf.core.records.arm_summary import ArmSummary
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.store import SCHEMA, EventLog
from pytest_ipperf.store.log.checksum import KEY, with_checksum

BEGAN = 1795311000.0
"""2026-11-22 01:30 UTC, when the first session begins; each further one a day later."""
FINGERPRINT = "f00d00000000"
SUITE = "suites/test_web.py"
HOST = {"kernel": "6.1", "processors": [0, 1]}


def record(number: int = 1, ratio: float = 1.0, *, epochs: int = 10, spread: float = 0.01, **more: Any) -> Record:
    """Make a record of HTTP with `number` connections, `ratio` times as slow by IPv6; or of UDP losses, by `metric`."""
    metric = METRICS[more.pop("metric", "response_time")].metric
    draw, blocks = random.Random(f"{number}/{ratio}/{epochs}/{more.pop('seed', 0)}"), 3
    test, reference = Arm(6, "native"), Arm(4, "native")
    runs = [
        Run(
            arm=arm, epoch=at // blocks, block=at % blocks, slot=0, warmup=False, started_at=0.0, attempted=300,
            failed={}, values={metric.name: 0.004 * times * (1 + draw.gauss(0, spread))},
        )
        for arm, times in ((test, ratio), (reference, 1.0)) for at in range(epochs * blocks)
    ]  # fmt: skip
    effect = compare(runs, test, reference, metric)
    cell = more.pop("cell", f"lab-http-c{number}-10k-ipv6")
    plain = Record(
        cell=cell, testbed="lab", protocol="http", connections=number, payload_bytes=10240, ipver=6,
        transport="native", twin=False, client="lean", server="apache 2.4", metric=metric.name, design="nightly",
        judges=True, seed=7, look=1, looks=1, epochs=epochs, blocks=blocks, deadline_s=10.0,
        test=_side("ipv6", runs, metric.name), reference=_side("ipv4", runs, metric.name),
        estimate=effect.shown.estimate, low=effect.shown.low, high=effect.shown.high, confidence=0.95,
        sd_epoch=effect.sd_epoch, sd_block=effect.sd_block, margin="", margin_fraction=None, alpha=0.05, verdict="",
        reasons=(), sentence="", change_unit=UNITS_OF_CHANGE[metric.scale], workload_version="1-apache-ipv4",
        fingerprint=FINGERPRINT, nodeid=f"{SUITE}::test_http[{cell}]",
    )  # fmt: skip
    judged = plain.judged(Claim(judge(effect, Margin.parse(more.pop("margin", metric.margin.partition(",")[0])))))
    return dataclasses.replace(judged, **more)


def _side(arm: str, runs: Iterable[Run], metric: str) -> ArmSummary:
    values = tuple(value for run in runs if str(run.arm) == arm and (value := run.values[metric]) is not None)
    return ArmSummary(
        arm=Arm.parse(arm), values=values, attempted=300 * len(values), completed=300 * len(values), failed={},
        phases={"dns": 0.0001, "connect": 0.0002, "first_byte": 0.003, "total": 0.004},
    )  # fmt: skip


def single(number: int = 1) -> Record:
    """Make a record of design `paper`: one epoch, no interval, no question."""
    nothing: dict[str, Any] = dict.fromkeys(("estimate", "low", "high", "sd_epoch", "sd_block", "margin_fraction"))
    own: dict[str, Any] = {
        "design": "paper",
        "judges": False,
        "epochs": 1,
        "blocks": 10,
        "margin": "",
        "verdict": "unjudged",
        "reasons": ("never_judges",),
        "sentence": "unjudged: design paper never judges",
    }
    return dataclasses.replace(record(number), **nothing, **own)


def facts(number: int, **more: Any) -> dict[str, Any]:
    """Return the facts of event `session`."""
    return {
        "at": BEGAN + 86400 * number, "schema": SCHEMA, "seed": 7, "design": DESIGNS["nightly"], "reference": "ipv4",
        "server": "auto", "backend": "auto", "client": "lean", "rate_per_s": 0.0, "workers": 1, "deadline_s": 10.0,
        "saved": "", "arguments": ["suites"], "pytest": "9.0.1", "pytest_ipperf": "0.1",
    } | more  # fmt: skip


def name_of(number: int) -> str:
    """Return the name of the session of that day."""
    return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(BEGAN + 86400 * number))}-{number:06x}"


def keep(
    root: Path,
    number: int,
    records: Iterable[Record],
    *,
    troubles: Mapping[str, str] | None = None,
    status: int | None = 0,
    **more: Any,
) -> Path:
    """Store a session with these records, and `troubles` by kind; return its folder. `status` None: it has no end."""
    folder = root / "runs" / name_of(number)
    event_log = EventLog(folder, "main")
    hosts = more.pop("hosts", {"client": HOST, "server": HOST})
    event_log.append("session", facts(number, **more))
    event_log.append("workload", {"workload": "lab-http-c1-10k", "seed": 7, "order": []})
    event_log.append("epoch", {"workload": "lab-http-c1-10k", "epoch": 0, "server": "apache 2.4", "fingerprint": hosts})
    for each in records:
        event_log.append("record", each.to_plain())
    for kind, nodeid in (troubles or {}).items():
        answer = {"nodeid": nodeid, "sentence": f"{kind} indeed"}
        event_log.append("undecided" if kind == "inconclusive" else "trouble", answer | {"kind": kind})
    if status is not None:
        event_log.append("end", {"status": status, "seconds": 61.5})
    event_log.close()
    return folder


def events_of(path: Path) -> list[dict[str, Any]]:
    """Return the events of an event log, without their checksums."""
    return [
        {name: value for name, value in json.loads(line).items() if name != KEY}
        for line in path.read_text().splitlines()
    ]


def rewrite(path: Path, events: Iterable[Mapping[str, Any]], *, checksums: bool = True) -> None:
    """Write an event log of these events as a writer would; without `checksums`, as schema 6 had it."""
    lines, checksum = [], 0
    for event in events:
        line, checksum = (
            with_checksum(json.dumps(event), checksum) if checksums else (f"{json.dumps(event)}\n".encode(), 0)
        )
        lines.append(line)
    path.write_bytes(b"".join(lines))
