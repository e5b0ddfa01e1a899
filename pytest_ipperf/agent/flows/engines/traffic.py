"""Packets of a traffic model, in one direction or both at once, by datagrams or over TCP connections.

Facts of one direction begin with `up_` (client to server) or `down_`: `sent` and `sent_bytes` (payload, with that of
`refused` packets, which the host had no room for), `missed` and `missed_bytes` (never sent, nor in `sent`, as the
sender could not keep up), `late_s` and `late_p99_s` (median and 99th percentile of how long after its instant a packet
was sent), `unique` (first copies that arrived), `payload_bytes` (of those), `duplicates`, `reordered` (RFC 4737),
`delay_s` (mean one-way delay of those that arrived).

Without such a beginning, `sent` to `reordered` are those of both directions together, `late_s` and `late_p99_s` those
of the later one. `seconds` is the time of the run, `received_seconds` the time from a direction's first arrival to its
last, the longer one, `planned_bit_s` and `sent_bit_s` payload of the schedule and of what was sent, `packets_s` packets
that arrived in a second, `size_bytes` and `largest_bytes` their mean and largest payload, `one_way_bytes` the payload
of the direction that moved more, `receiver_drops` how often a receiving socket had no room, `near_cpu_s` and
`far_cpu_s` processor time, and `clock_error_s` the largest error of delays, which compare both hosts' clocks (inf if
unknown). With a codec, `ie`, `bpl` and `codec_delay_s` are its parameters for the E-model.

On the wire, warm-up included: `wire_messages` and `wire_payload_bytes` that the client sent, and the IP packets
(`wire_packets`), their bytes (`wire_bytes`) and fragments (`wire_fragments`) that its device sent in the meantime. They
are not known of a device that splits packets itself, nor over TCP if packets come back.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from pytest_ipperf.agent.flows.engines.base import NO_BACKGROUND, Engine, FarEnd
from pytest_ipperf.agent.flows.spec import Delivered, FlowReport, FlowSpec, SenderClock
from pytest_ipperf.agent.flows.traffic.datagram_link import DatagramLink
from pytest_ipperf.agent.flows.traffic.far_end import LEAD_S, FarTraffic, ident_of, model_of
from pytest_ipperf.agent.flows.traffic.link import Link
from pytest_ipperf.agent.flows.traffic.packet_format import BEGIN, CONTROL, END, HELLO, packet_format
from pytest_ipperf.agent.flows.traffic.report import delivered, mean_delay_s, near_facts, rows_of
from pytest_ipperf.agent.flows.traffic.sender import SentPackets, send_schedule
from pytest_ipperf.agent.flows.traffic.stream_link import StreamLink, control_message
from pytest_ipperf.agent.flows.traffic.wire import CountedMessages
from pytest_ipperf.agent.flows.udp.sockets import connected
from pytest_ipperf.agent.kernel.timer_slack import low_jitter
from pytest_ipperf.agent.paths.clock_sync import ClockMap, ClockSample, compare_clocks
from pytest_ipperf.agent.sockets.target import failure_kind
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.core.portable.traffic.carrier import TCP
from pytest_ipperf.core.portable.traffic.model import DOWN, UP
from pytest_ipperf.core.portable.traffic.schedule import packets

_HELLO_S = 0.05
_REPEATED_S = 0.02
_ENDS = 3
_ASKED_NS = 1_000_000_000


class _TrafficFarEnd(FarTraffic, FarEnd):
    """Far end of the engine."""


class Traffic(Engine):
    """Traffic engine."""

    def far(self, spec: FlowSpec) -> FarEnd:
        """Return the far end, listening."""
        return _TrafficFarEnd(spec)

    def near(
        self, spec: FlowSpec, alive: Callable[[], None], background: AbstractContextManager[None] = NO_BACKGROUND
    ) -> FlowReport:
        """Send the streams to the far end, and receive those from it."""
        model = model_of(spec)
        if spec.connections * len(model.streams) > CONTROL:
            raise LabError(f"{spec.connections} connections have too many streams; {CONTROL} can be told apart")
        if spec.far.byteorder != sys.byteorder:
            raise LabError(f"host {spec.address} has another byte order than this one; traffic needs the same")
        with _link(spec, alive) as (link, socks):
            marks = _clock_marks(spec)
            with background, low_jitter():
                began_ns, sent, wire = _run(spec, link, alive)
                link.drain(None, spec.deadline_s, alive)
            marks += _clock_marks(spec) if marks else []
            link.close()
            link.check()
            link.check_clock()
            rows = rows_of(link.arrivals, ClockMap(marks), began_ns, DOWN)
            facts = near_facts(spec, sent, link.arrivals, sent.cpu_s + link.cpu_s, link.drops())
            sources = [str(sock.getsockname()[0]) for sock in socks]
            return FlowReport(
                samples=rows.tobytes(),
                facts={**facts, **mean_delay_s(rows, DOWN), **wire},
                sender_clock=SenderClock(began_ns=began_ns, clock_marks=marks),
                families=sorted({sock.family.name for sock in socks}),
                peers={spec.address: len(socks)},
                sources=sorted(set(sources)),
                cpu_s=facts["near_cpu_s"],
                wall_s=spec.run_s,
            )

    def delivered(self, spec: FlowSpec, report: FlowReport, direction: str, during_s: tuple[float, float]) -> Delivered:
        """Return the packets of a direction that arrived at this end, with the sizes that its schedule gives them."""
        return delivered(spec, model_of(spec), report, direction, during_s)


def _run(spec: FlowSpec, link: Link, alive: Callable[[], None]) -> tuple[int, SentPackets, dict[str, float]]:
    """Send all packets; return when the run began, after the warm-up, what was sent, and the facts of the wire."""
    schedule = packets(
        model_of(spec), UP, spec.connections, spec.pattern,
        least_bytes=link.least_bytes, until_s=spec.warmup_s + spec.run_s,
    )  # fmt: skip
    begin_ns = time.monotonic_ns() + round(LEAD_S * 1e9)
    while time.monotonic_ns() < begin_ns - _REPEATED_S * 1e9:
        link.control(BEGIN)  # again and again, as it may be lost
        time.sleep(_REPEATED_S)

    silent = all(stream.direction == DOWN for stream in model_of(spec).streams)
    asked = begin_ns

    def idle() -> None:
        nonlocal asked
        if silent and time.monotonic_ns() > asked:
            # Only an end that sends learns that the other one is gone.
            asked = time.monotonic_ns() + _ASKED_NS
            link.control(BEGIN)
        link.flush()
        link.check()
        alive()

    counted = CountedMessages(spec, link.send)
    sent = send_schedule(schedule, counted.send, begin_ns=begin_ns, warmup_s=spec.warmup_s, idle=idle)
    end_ns = begin_ns + round((spec.warmup_s + spec.run_s) * 1e9)
    while (left_s := (end_ns - time.monotonic_ns()) * 1e-9) > 0:
        idle()
        time.sleep(min(left_s, _HELLO_S))
    end = time.monotonic() + spec.deadline_s
    while not link.flush() and time.monotonic() < end:
        link.check()
        alive()
        time.sleep(_REPEATED_S)
    wire = counted.facts()
    link.over = True
    for _ in range(_ENDS):
        link.control(END, sent.sent)
    return begin_ns + round(spec.warmup_s * 1e9), sent, wire


@contextlib.contextmanager
def _link(spec: FlowSpec, alive: Callable[[], None]) -> Iterator[tuple[Link, list[socket.socket]]]:
    """Yield a link that the far end has accepted, and its sockets."""
    with contextlib.ExitStack() as stack:
        link, socks = (_streams if spec.factors.get("carrier") == TCP else _datagrams)(spec, stack)
        stack.callback(link.close)
        link.start()
        end = time.monotonic() + spec.deadline_s
        while not link.arrivals.accepted.wait(_HELLO_S):
            alive()
            link.check()
            if time.monotonic() > end:
                where = f"{spec.address} port {spec.far.port}"
                raise LabError(
                    f"the far end at {where} has not answered within {spec.deadline_s:g} s: it has died, or a firewall "
                    "drops packets"
                )
            if isinstance(link, DatagramLink):
                link.control(HELLO)
        yield link, socks


def _datagrams(spec: FlowSpec, stack: contextlib.ExitStack) -> tuple[Link, list[socket.socket]]:
    sock = stack.enter_context(connected(spec, spec.far.port))
    link = DatagramLink(sock, packet_format(model_of(spec).rtp), ident_of(spec), f"{spec.address} port {spec.far.port}")
    link.control(HELLO)
    return link, [sock]


def _streams(spec: FlowSpec, stack: contextlib.ExitStack) -> tuple[Link, list[socket.socket]]:
    socks = []
    family = socket.AF_INET6 if ":" in spec.address else socket.AF_INET
    peer = f"{spec.address} port {spec.far.port}"
    for place in range(spec.connections):
        sock = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
        sock.settimeout(spec.deadline_s)
        try:
            if spec.source:
                sock.bind((spec.source, 0))
            sock.connect((spec.address, spec.far.port))
            sock.sendall(control_message(ident_of(spec), HELLO, place))
        except OSError as error:
            raise LabError(f"no connection from {spec.source or 'here'} to {peer}: {failure_kind(error)}") from error
        socks.append(sock)
    return StreamLink(socks, ident_of(spec), peer, len(model_of(spec).streams)), socks


def _clock_marks(spec: FlowSpec) -> list[ClockSample]:
    return list(compare_clocks(spec.source, spec.address, spec.far.clock, spec.far.clock_port))


engine = Traffic()
