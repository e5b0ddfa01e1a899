"""Queries to a name server for some seconds, in a closed or an open loop, by UDP or TCP.

Facts: `seconds` of the run; `answered`, right answers that came in it, and `payload_bytes`, their messages;
`asked`, queries that had to be asked in it, `lost` ones without an answer in time, `given_up` those of any time;
`truncated`, answers that had to be asked for again by TCP, `unexpected`, those to no query that waited, and `refused`,
datagrams that a host refused, of warm-up and run. `served` are all right answers, of the warm-up too, and
`receiver_cpu_s` is the client's processor time in the run. An open loop has `offered_qps`, `sent_qps`, and `late_s` and
`late_p99_s`, the median and the 99th percentile of how long after its instant a query was sent. `segments` are answers
for each packet that certainly came.

Samples have a row for each answered query: its instant since the run began, and its response time.
"""

from __future__ import annotations

import contextlib
import random
import time
from array import array
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager

from pytest_ipperf.agent.flows.dns.connection import ConnectionClient
from pytest_ipperf.agent.flows.dns.datagrams import DatagramClient
from pytest_ipperf.agent.flows.dns.load import NOT_SENT, Load
from pytest_ipperf.agent.flows.dns.query import Client
from pytest_ipperf.agent.flows.dns.questions import Questions
from pytest_ipperf.agent.flows.dns.stream import StreamClient
from pytest_ipperf.agent.flows.dns.tally import LOST, Tally
from pytest_ipperf.agent.flows.engines.base import NO_BACKGROUND, ServedEngine
from pytest_ipperf.agent.flows.spec import FlowReport, FlowSpec
from pytest_ipperf.agent.kernel.timer_slack import low_jitter
from pytest_ipperf.agent.sockets.target import failure_kind
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.core.portable.traffic.carrier import UDP

_FIRST_S = 10.0
_LEAD_S = 0.01
_PIPELINED = "pipelined"
_BUSY = 0.9
_KEPT_UP = 0.9


class DnsLoad(ServedEngine):
    """Engine whose far end is the name server of the epoch."""

    def near(
        self, spec: FlowSpec, alive: Callable[[], None], background: AbstractContextManager[None] = NO_BACKGROUND
    ) -> FlowReport:
        """Ask for the warm-up and the run; raise LabError if the server does not hold the zone, or never answers."""
        factors = spec.factors
        udp_bytes = factors["edns"]
        questions = Questions(
            spec.payload_bytes,
            udp_bytes if isinstance(udp_bytes, int) else 0,
            unique=factors["qnames"] == "unique",
            cached_ttl_s=spec.service.cached_ttl_s,
        )
        load = Load(spec, questions, alive)
        with contextlib.closing(load):
            _connect(spec, load)
            _check_zone(spec, load)
            with background, low_jitter():
                return _report(spec, load, _run(spec, load))


def _connect(spec: FlowSpec, load: Load) -> None:
    kind: Callable[[Load], Client] = (
        DatagramClient
        if spec.factors.get("carrier", UDP) == UDP
        else _STREAMS[str(spec.factors.get("reuse", _PIPELINED))]
    )
    try:
        for _ in range(spec.connections):
            load.clients.append(kind(load))
    except OSError as error:
        here = spec.source or "here"
        raise LabError(f"no query can be sent from {here} to {spec.address}: {failure_kind(error)}") from error


def _check_zone(spec: FlowSpec, load: Load) -> None:
    """Raise LabError unless the server answers a query with what it was given."""
    if load.ask_once(_FIRST_S):
        return
    kinds = ", ".join(load.tally.before)
    refused = ", refused" if load.tally.refused else ""
    raise LabError(
        f"the name server at {spec.address} port {spec.service.port} has not answered a first query rightly within "
        f"{_FIRST_S:g} s ({kinds or LOST}{refused})"
    )


def _run(spec: FlowSpec, load: Load) -> float:
    """Ask for the warm-up and the run; return the processor time of the run."""
    begin_s = time.perf_counter() + _LEAD_S
    load.tally.begin_s, load.tally.end_s = begin_s + spec.warmup_s, begin_s + spec.warmup_s + spec.run_s
    offered_qps = spec.factors["qps"]
    cpu_s = time.process_time()
    if isinstance(offered_qps, float):
        instants_s = _instants(
            offered_qps, spec.pattern if spec.factors.get("spacing", "poisson") == "poisson" else None
        )
        load.run_open((begin_s + each for each in instants_s), load.tally.end_s)
    else:
        load.run_closed(int(spec.factors.get("outstanding", 100)), load.tally.end_s)
    return time.process_time() - cpu_s


def _instants(qps: float, pattern: str | None) -> Iterator[float]:
    """Yield instants in seconds: of a Poisson process, the same for the same pattern, or at even gaps without one."""
    if pattern is None:
        number = 0
        while True:
            yield number / qps
            number += 1
    rng, at_s = random.Random(pattern), 0.0  # noqa: S311 - not a secret
    while True:
        at_s += rng.expovariate(qps)
        yield at_s


def _report(spec: FlowSpec, load: Load, cpu_s: float) -> FlowReport:
    tally, asked_s = load.tally, spec.warmup_s + spec.run_s
    facts = {
        "seconds": spec.run_s,
        "answered": float(tally.answered),
        "payload_bytes": float(tally.answered_bytes),
        "asked": float(tally.attempted),
        "lost": float(tally.failed[LOST]),
        "given_up": float(tally.given_up),
        "truncated": float(tally.truncated),
        "unexpected": float(tally.unexpected),
        "refused": float(tally.refused),
        "served": float(tally.answered_ever),
        "receiver_cpu_s": cpu_s,
        "client_share": cpu_s / asked_s,
    }
    if spec.factors.get("carrier", UDP) != UDP and spec.factors.get("reuse", _PIPELINED) == _PIPELINED:
        # Many answers share a packet; each connection has at least one.
        facts["segments"] = float(max(1, tally.answered_ever // spec.connections))
    if isinstance(offered_qps := spec.factors["qps"], float):
        facts |= {
            "offered_qps": offered_qps,
            "sent_qps": (tally.attempted - tally.failed[NOT_SENT]) / spec.run_s,
            **_lateness(tally.late_s),
        }
    return FlowReport(
        samples=tally.rows.tobytes(),
        attempted=tally.attempted,
        failed=dict(tally.failed),
        facts=facts,
        notes=_notes(tally, facts),
        families=sorted(load.families),
        peers=dict(load.peers),
        sources=sorted(load.sources),
        cpu_s=cpu_s,
        wall_s=asked_s,
    )


def _lateness(late_s: array[float]) -> dict[str, float]:
    if not late_s:
        return {}
    ordered = sorted(late_s)
    return {"late_s": ordered[len(ordered) // 2], "late_p99_s": ordered[len(ordered) * 99 // 100]}


def _notes(tally: Tally, facts: dict[str, float]) -> list[str]:
    """Return what bounds the figures: the client, or in an open loop the server."""
    notes = []
    if missed := tally.failed[NOT_SENT]:
        notes.append(
            f"the client was behind at the end of a run and left out {missed} queries: its own host or link bounds "
            "this figure"
        )
    elif facts["client_share"] > _BUSY:
        notes.append(
            f"the client used {100 * facts['client_share']:.0f} % of a processor, of which it has one: this bounds "
            "this figure, as a server might answer more"
        )
    offered = facts.get("offered_qps")
    if offered and not missed and facts["answered"] / facts["seconds"] < _KEPT_UP * facts["sent_qps"]:
        notes.append(
            f"{facts['answered'] / facts['seconds']:.0f} of {facts['sent_qps']:.0f} queries a second were answered: "
            "the server or the path did not keep up"
        )
    return notes


_STREAMS: Mapping[str, Callable[[Load], Client]] = {_PIPELINED: StreamClient, "per_query": ConnectionClient}

engine = DnsLoad()
