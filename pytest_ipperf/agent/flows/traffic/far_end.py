"""Far end of modelled traffic: it waits for the near end's link, and sends its own streams once the near end begins."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import sys
import threading
import time

from pytest_ipperf.agent.flows.spec import FarListening, FlowReport, FlowSpec
from pytest_ipperf.agent.flows.traffic.datagram_link import DatagramLink
from pytest_ipperf.agent.flows.traffic.link import Link
from pytest_ipperf.agent.flows.traffic.packet_format import ACCEPT, END, HEAD_BYTES, HELLO, PacketFormat, packet_format
from pytest_ipperf.agent.flows.traffic.report import FarCounts, far_report
from pytest_ipperf.agent.flows.traffic.sender import SentPackets, send_schedule
from pytest_ipperf.agent.flows.traffic.stream_link import MESSAGE_BYTES, StreamLink, control_message
from pytest_ipperf.agent.flows.udp.sockets import bound
from pytest_ipperf.agent.kernel.timer_slack import low_jitter
from pytest_ipperf.agent.paths.clock_exchange import OffsetServer, clock_of_host
from pytest_ipperf.agent.paths.clock_sync import ClockMap
from pytest_ipperf.agent.sockets.ports import free_port
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.core.portable.traffic.carrier import TCP
from pytest_ipperf.core.portable.traffic.model import DOWN, TrafficModel
from pytest_ipperf.core.portable.traffic.schedule import packets

LEAD_S = 0.25
"""Time from the near end's first word that it begins to the beginning, for the word to be repeated if it is lost."""
_TICK_S = 0.05
_BACKLOG = 1024


def model_of(spec: FlowSpec) -> TrafficModel:
    """Return the model of a spec; raise LabError without one."""
    if spec.model is None:
        raise LabError(f"engine {spec.engine} takes a traffic model, and its spec has none")
    return spec.model.with_payload(spec.payload_bytes)


def ident_of(spec: FlowSpec) -> int:
    """Return the run's identifier in packets."""
    return spec.ident & 0xFFFF


class FarTraffic:
    """Far end, listening from construction on."""

    def __init__(self, spec: FlowSpec) -> None:
        self._spec, self._model = spec, model_of(spec)
        self._form = packet_format(self._model.rtp)
        self._open, self._finishing, self._trouble = True, False, ""
        self._link: Link | None = None
        self._sent = SentPackets()
        with contextlib.ExitStack() as stack:
            clocks = stack.enter_context(contextlib.closing(OffsetServer(spec.address, spec.ports)))
            if spec.factors.get("carrier") == TCP:
                self._sock, port = _listening(spec)
            else:
                self._sock, port, _ = bound(spec)
            stack.callback(self._sock.close)
            self._stack = stack.pop_all()
        self.listening = FarListening(port=port, clock=clock_of_host(), clock_port=clocks.port, byteorder=sys.byteorder)
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def finish(self, near: FlowReport) -> FlowReport:
        """Wait for packets still on their way and for the own streams' end; report both directions."""
        spec = self._spec
        self._finishing = True
        self._thread.join(spec.deadline_s)
        if self._trouble:
            raise LabError(self._trouble)
        if self._link is None or self._thread.is_alive():
            raise LabError(f"the end at {spec.address} has not sent its packets of this run, as it could not keep up")
        if near.sender_clock is None:
            raise LabError("the report of the near end has no clock, so that arrivals have no time")
        self._link.drain(int(near.facts["up_sent"]), spec.deadline_s)
        self._link.close()
        self._link.check()
        self._link.check_clock()
        counts = FarCounts(self._sent, self._link.arrivals, self._link.drops(), self._link.cpu_s)
        clock = ClockMap(near.sender_clock.clock_marks)
        return far_report(spec, self._model, near, counts, clock=clock, began_ns=near.sender_clock.began_ns)

    def close(self) -> None:
        """Stop all threads."""
        self._open = False
        self._thread.join()
        if self._link is not None:
            self._link.close()
        self._stack.close()

    def _work(self) -> None:
        try:
            with low_jitter():
                self._run()
        except LabError as error:
            self._trouble = str(error)
        except OSError as error:
            self._trouble = f"the end at {self._spec.address} broke off: {error.strerror or error}"

    def _run(self) -> None:
        link = self._accept_streams() if self._spec.factors.get("carrier") == TCP else self._accept_datagrams()
        while link is not None and self._open and not link.arrivals.begun.wait(_TICK_S):
            link.check()
            if link.arrivals.hello.is_set():  # it came again, so the answer was lost
                link.arrivals.hello.clear()
                link.control(ACCEPT)
        if link is not None and self._open:
            self._send(link)

    def _send(self, link: Link) -> None:
        spec = self._spec
        schedule = packets(
            self._model, DOWN, spec.connections, spec.pattern,
            least_bytes=link.least_bytes, until_s=spec.warmup_s + spec.run_s,
        )  # fmt: skip
        begin_ns = time.monotonic_ns() + round(LEAD_S * 1e9)

        def idle() -> None:
            link.flush()
            if not self._open:
                raise LabError("the run was given up")

        self._sent = send_schedule(schedule, link.send, begin_ns=begin_ns, warmup_s=spec.warmup_s, idle=idle)
        link.over = True
        while self._open and not (link.flush() and self._finishing):
            link.control(END, self._sent.sent)  # again and again, as it may be lost
            time.sleep(_TICK_S)

    def _accept_datagrams(self) -> Link | None:
        """Connect to the near end of this run once it says hello; None if this end is closed before."""
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, round(_TICK_S * 1e6)))
        peer = None
        while self._open and peer is None:
            with contextlib.suppress(BlockingIOError):
                data, address = self._sock.recvfrom(HEAD_BYTES)
                if _is_hello(self._form, data, ident_of(self._spec)):
                    peer = address
        if peer is None:
            return None
        self._sock.connect(peer)
        return self._linked(DatagramLink(self._sock, self._form, ident_of(self._spec), f"{peer[0]} port {peer[1]}"))

    def _accept_streams(self) -> Link | None:
        """Accept a connection for each of the workload's; None if this end is closed before."""
        self._sock.settimeout(_TICK_S)
        socks: dict[int, socket.socket] = {}
        greetings = {control_message(ident_of(self._spec), HELLO, each): each for each in range(self._spec.connections)}
        while self._open and len(socks) < self._spec.connections:
            with contextlib.suppress(TimeoutError):
                sock, _ = self._sock.accept()
                self._stack.callback(sock.close)
                sock.settimeout(self._spec.deadline_s)
                place = greetings.get(sock.recv(MESSAGE_BYTES, socket.MSG_WAITALL))
                if place is None:
                    sock.close()  # a stray connection
                else:
                    socks[place] = sock
        if not self._open:
            return None
        ordered = [socks[place] for place in sorted(socks)]
        return self._linked(
            StreamLink(ordered, ident_of(self._spec), f"client of {self._spec.address}", len(self._model.streams))
        )

    def _linked(self, link: Link) -> Link:
        self._link = link
        link.start()
        link.control(ACCEPT)
        return link


def _is_hello(form: PacketFormat, data: bytes, ident: int) -> bool:
    return data == form.control(ident, HELLO)[:HEAD_BYTES]


def _listening(spec: FlowSpec) -> tuple[socket.socket, int]:
    port = free_port([spec.address], *spec.ports, random.Random())  # noqa: S311 - not a secret
    family = socket.AF_INET6 if ":" in spec.address else socket.AF_INET
    try:
        return socket.create_server((spec.address, port), family=family, backlog=_BACKLOG), port
    except OSError as error:
        raise LabError(f"no connections can be accepted on {spec.address} port {port}: {error.strerror}") from error
