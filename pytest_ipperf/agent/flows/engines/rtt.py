"""RTT by probes, one after another, a millisecond apart or as soon as the last one has its reply.

Facts: `sent` and `lost` of the run. A probe that was answered, but lacks a kernel timestamp that is needed, is not
counted as attempted. If two ends that should busy-poll have only one processor, both sleep.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import time
from array import array
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from pytest_ipperf.agent.flows.engines.base import NO_BACKGROUND, Engine, FarEnd
from pytest_ipperf.agent.flows.rtt.datagram_probes import DatagramProbe, TimestampedProbe, TwoStepProbe
from pytest_ipperf.agent.flows.rtt.frame import Frame
from pytest_ipperf.agent.flows.rtt.icmp import EchoRequest, echo_socket
from pytest_ipperf.agent.flows.rtt.probe import LOST, Probe
from pytest_ipperf.agent.flows.rtt.responder import (
    ConnectionSink,
    DatagramReflector,
    MessageReflector,
    Reflector,
    TimestampingReflector,
)
from pytest_ipperf.agent.flows.rtt.tcp_probes import ConnectProbe, MessageProbe
from pytest_ipperf.agent.flows.spec import FarListening, FlowReport, FlowSpec
from pytest_ipperf.agent.kernel.timer_slack import low_jitter
from pytest_ipperf.agent.paths.clock_exchange import clock_of_host
from pytest_ipperf.core.portable.errors import LabError

_INTERVAL_NS = 1_000_000
_WAITED = 0.05
_SILENCES = 3
_MOST_STOLEN = 0.1
_NO_PORT = 1  # not 0, as the kernel would not name the other end then
# Errors caused by the path; all others are trouble of the host or of the far end.
_NO_REPLY = {
    errno.EAGAIN,
    errno.ENOBUFS,
    errno.EHOSTUNREACH,
    errno.ENETUNREACH,
    errno.EHOSTDOWN,
    errno.ENETDOWN,
    errno.ENONET,
    errno.EPERM,
    errno.EACCES,
    errno.ETIMEDOUT,
    errno.EPROTO,
}
_REFLECTORS: Mapping[str, type[Reflector]] = {
    "udp": DatagramReflector,
    "tcp": MessageReflector,
    "connect": ConnectionSink,
}


class _RttFarEnd(FarEnd):
    """Reflector of a run; none for ICMP, which the kernel answers."""

    def __init__(self, spec: FlowSpec) -> None:
        self._reflector: Reflector | None = None
        self.listening = _processors()
        probe = str(spec.factors["probe"])
        if probe in _REFLECTORS:
            kind = TimestampingReflector if spec.factors["waiting"] == "wire" else _REFLECTORS[probe]
            self._reflector = kind(
                spec.address,
                spec.ports,
                ident=spec.ident,
                payload_bytes=spec.payload_bytes,
                deadline_s=spec.deadline_s,
            )
            self.listening = replace(self.listening, port=self._reflector.port)

    def finish(self, near: FlowReport) -> FlowReport:
        """Return the number of probes answered, which shows the direction of losses."""
        self.close()
        if not self._reflector:
            return FlowReport()
        return FlowReport(
            detail={"answered": self._reflector.answered},
            notes=_cpu_notes("server", self._reflector.cpu_s, self._reflector.busy_polled_s),
            cpu_s=self._reflector.cpu_s,
            wall_s=near.wall_s,
        )

    def close(self) -> None:
        if self._reflector:
            self._reflector.close()


@dataclass
class _Series:
    """Probes of one phase; times in ns."""

    sent_ns: dict[int, int] = field(default_factory=dict)
    took_ns: dict[int, int] = field(default_factory=dict)
    lasted_ns: int = 0
    waited_ns: int = 0
    silent: bool = False


class Rtt(Engine):
    """RTT engine: the far end reflects, the near end probes, waits and counts."""

    def far(self, spec: FlowSpec) -> FarEnd:
        """Start the reflector, which listens until it is closed."""
        return _RttFarEnd(spec)

    def near(
        self, spec: FlowSpec, alive: Callable[[], None], background: AbstractContextManager[None] = NO_BACKGROUND
    ) -> FlowReport:
        """Measure, after a warm-up."""
        wanted = spec.factors["waiting"] == "path"
        busy_polls = wanted and _can_busy_poll(spec)
        try:
            probe = _open_probe(spec, busy_polls=busy_polls)
        except OSError as error:
            raise LabError(f"no probe of RTT {_way(spec)}: {error.strerror or error}") from error
        with contextlib.closing(probe), background, low_jitter():
            warm = _series(probe, spec, 1, spec.warmup_s, alive)
            cpu_s, began_s = time.process_time(), time.monotonic()
            run = _series(probe, spec, 1 + len(warm.sent_ns), spec.run_s, alive)
            spent = (time.process_time() - cpu_s, time.monotonic() - began_s)
            took_ns = probe.final_times_ns(run.took_ns)
        if run.took_ns and not took_ns:
            raise LabError(
                f"the kernels have no timestamps of probes {_way(spec)}, so 'wire' cannot be measured; take 'path' "
                "or 'application'"
            )
        report = _report(probe, run, took_ns, spec)
        report.cpu_s, report.wall_s = spent
        report.detail = _detail(spec, probe)
        report.notes += _cpu_notes("client", *spent) if busy_polls else []
        if wanted and not busy_polls:
            report.notes.append("both ends slept until a probe came, as they have only one processor to poll on")
        return report


engine = Rtt()


def _processors() -> FarListening:
    return FarListening(
        boot=clock_of_host()["boot"], processors=os.cpu_count() or 1, pinned=sorted(os.sched_getaffinity(0))
    )


def _can_busy_poll(spec: FlowSpec) -> bool:
    """Return whether both ends can busy-poll without keeping each other or the kernel from running."""
    here, far = _processors(), spec.far
    if here.processors < 2 or spec.factors["probe"] not in {"udp", "tcp"}:  # kernels answer the others
        return bool(here.processors > 1)
    shared = len(here.pinned) == 1 and (here.boot, here.pinned) == (far.boot, far.pinned)
    return far.processors > 1 and not shared


def _open_probe(spec: FlowSpec, *, busy_polls: bool) -> Probe:
    six, port = ":" in spec.address, spec.far.port
    probe, wire = spec.factors["probe"], spec.factors["waiting"] == "wire"
    if probe == "connect":
        return ConnectProbe(spec.source, spec.address, port, busy_polls=busy_polls)
    raw = False
    if probe == "icmp":
        sock, raw = echo_socket(six=six)
        frame: Frame = EchoRequest(spec.ident, spec.payload_bytes, six=six, raw=raw)
    else:
        kind = socket.SOCK_STREAM if probe == "tcp" else socket.SOCK_DGRAM
        sock = socket.socket(socket.AF_INET6 if six else socket.AF_INET, kind)
        frame = Frame(spec.ident, spec.payload_bytes, wants_busy_poll=busy_polls)
    try:
        if spec.source:
            sock.bind((spec.source, 0))
        sock.settimeout(_SILENCES * spec.deadline_s)
        sock.connect((spec.address, port or _NO_PORT))
        if probe == "tcp":
            return MessageProbe(sock, frame, busy_polls=busy_polls)
        if wire:
            return TimestampedProbe(sock, frame) if probe == "icmp" else TwoStepProbe(sock, frame)
        return DatagramProbe(sock, frame, busy_polls=busy_polls)
    except BaseException:
        sock.close()
        raise


def _series(probe: Probe, spec: FlowSpec, first: int, lasts_s: float, alive: Callable[[], None]) -> _Series:
    """Send probes for `lasts_s`, at least one; stop early if nothing is answered any more."""
    clock, series, deadline_ns = time.monotonic_ns, _Series(), _ns(spec.deadline_s)
    began_ns = due_ns = last_reply_ns = clock()
    end_ns, number = began_ns + _ns(lasts_s), first
    while True:
        probe.pause(due_ns)
        sent_ns = series.sent_ns[number] = clock()
        try:
            took_ns = probe.round_trip_ns(number, sent_ns + deadline_ns)
        except OSError as error:
            if error.errno not in _NO_REPLY:
                raise LabError(f"a probe of RTT {_way(spec)} has no reply: {error.strerror or error}") from error
            probe.pause(sent_ns + deadline_ns)
            took_ns = LOST
        now_ns = clock()
        if took_ns == LOST:
            series.waited_ns += now_ns - sent_ns
        else:
            series.took_ns[number] = took_ns
            last_reply_ns = now_ns
        alive()
        number += 1
        due_ns = max(due_ns + _INTERVAL_NS, now_ns)
        series.silent = now_ns - last_reply_ns >= _SILENCES * deadline_ns and due_ns < end_ns
        if series.silent or due_ns >= end_ns:
            series.lasted_ns = now_ns - began_ns
            return series


def _report(probe: Probe, run: _Series, took_ns: Mapping[int, int], spec: FlowSpec) -> FlowReport:
    """Build the report of the series, with the replies that have a time in the end."""
    rows, began_ns = array("d"), min(run.sent_ns.values())
    for number, each_ns in took_ns.items():
        rows.extend(((run.sent_ns[number] - began_ns) * 1e-9, each_ns * 1e-9))
    sent, answered = len(run.sent_ns), len(run.took_ns)
    lost, unknown = sent - answered, answered - len(took_ns)
    notes = [] if answered else [f"none of {sent} probes was answered"]
    if unknown:
        notes.append(f"{unknown} of {answered} replies are left out, as a kernel did not stamp them or their probes")
    if answered and run.waited_ns > _WAITED * run.lasted_ns:
        waited = f"{run.waited_ns * 1e-9:.3g} of its {run.lasted_ns * 1e-9:.3g} s"
        notes.append(f"the run waited for lost probes for {waited}, in which no other was sent")
    if run.silent:
        lasted = f"the run ended after {run.lasted_ns * 1e-9:.3g} s instead of {spec.run_s:g} s"
        notes.append(f"{lasted}, as nothing had been answered for {_SILENCES * spec.deadline_s:g} s")
    return FlowReport(
        samples=rows.tobytes(),
        attempted=sent - unknown,
        failed={"lost": lost} if lost else {},
        facts={"sent": sent, "lost": lost},
        notes=notes,
        families=sorted(probe.families),
        sources=sorted(probe.sources),
        peers={probe.peer: answered if probe.connections else 1} if answered else {},
    )


def _detail(spec: FlowSpec, probe: Probe) -> dict[str, object]:
    """Describe what a time contains."""
    waiting = "busy-polled" if probe.busy_polls else "slept until a packet came"
    stamps = "clock around the probe"
    if spec.factors["waiting"] == "wire":
        stamps = "kernel stamps of the near end alone" if spec.factors["probe"] == "icmp" else "kernel stamps of both"
    found: dict[str, object] = {
        "socket": probe.kind,
        "waited": waiting,
        "stamps": stamps,
        "interval_s": _INTERVAL_NS * 1e-9,
    }
    if spec.factors["probe"] == "connect":
        found["payload"] = "none, as the opening of a connection carries no data"
    return found


def _cpu_notes(host: str, cpu_s: float, polled_s: float) -> list[str]:
    """Return a sentence if other work had much of the processor of the end that busy-polls."""
    if cpu_s >= polled_s * (1 - _MOST_STOLEN):
        return []
    share = 1 - cpu_s / polled_s
    return [
        f"other work took {share:.0%} of the {host}'s processor while it polled for replies, and lengthens their times"
    ]


def _way(spec: FlowSpec) -> str:
    port = f" port {spec.far.port}" if spec.far.port else ""
    return f"by {spec.factors['probe']} from {spec.source or 'here'} to {spec.address}{port}"


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)
