"""TCP throughput by streams between two agents, one of which sends as fast as they accept data.

Facts of the receiver, whose clock is the run's: `seconds`, `payload_bytes`, `receive_buffer_bytes`, `receiver_cpu_s`
(processor time in the run). Facts of the sender, by TCP_INFO: `rtt_s`, `cwnd_bytes` and `delivery_rate_bit_s` in the
run, `sent_bytes`, `retransmitted_bytes` and `retransmits` of the whole connections, warm-up and end included,
`base_rtt_s` (the smallest known, the time to connect included), `mss_bytes`; `send_buffer_bytes`, `sender_cpu_s`.

The near end connects, and identifies itself on each stream; once the far end has all, the sender begins.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import socket
import struct
import threading
import time
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from pytest_ipperf.agent.flows.engines.base import NO_BACKGROUND, Engine, FarEnd
from pytest_ipperf.agent.flows.spec import Delivered, FarListening, FlowReport, FlowSpec
from pytest_ipperf.agent.flows.tcp.receiver import StreamReceiver
from pytest_ipperf.agent.flows.tcp.sender import StreamSender
from pytest_ipperf.agent.flows.tcp.socket_options import check_congestion, configure, congestion, effective_bytes, notes
from pytest_ipperf.agent.flows.tcp.streams import Streams, limit_blocking, readable
from pytest_ipperf.agent.sockets.ports import free_port
from pytest_ipperf.agent.sockets.target import connect_kind, failure_kind
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.protocols.base import IP_BIND_ADDRESS_NO_PORT

_HELLO = struct.Struct("!QI")  # identifier of the run, and number of the stream
_READY = b"!"
_HELLO_S = 2.0
_ACCEPT_S = 0.2
_FINISH_S = 10.0
_STRANGERS = 64  # most other connections that may wait before the streams of the run


class Tcp(Engine):
    """TCP engine; its far end has a thread of its own, which ends with the run or when it is closed."""

    def far(self, spec: FlowSpec) -> FarEnd:
        """Return the far end, listening."""
        return TcpFarEnd(spec)

    def near(
        self, spec: FlowSpec, alive: Callable[[], None], background: AbstractContextManager[None] = NO_BACKGROUND
    ) -> FlowReport:
        """Connect all streams and run."""
        socks: list[socket.socket] = []
        try:
            connect_s = [_connect(spec, place, socks) for place in range(spec.connections)]
            check_congestion(socks, spec.factors)
            sends = spec.factors["direction"] == "up"
            peer = f"the {'receiver' if sends else 'sender'} at {spec.address} port {spec.far.port}"
            streams = _streams(socks, peer, spec, sends=sends)
            path = _path(socks, peer)
            with background, contextlib.closing(streams):
                if sends:
                    _wait_ready(socks, peer, spec, alive)
                report = streams.run(alive)
                _add_socket_facts(report, socks, spec, "client")
        finally:
            for sock in socks:
                sock.close()
        report.facts["base_rtt_s"] = min(report.facts.get("base_rtt_s", connect_s[0]), *connect_s)
        return dataclasses.replace(report, attempted=spec.connections, **path)

    def delivered(self, spec: FlowSpec, report: FlowReport, direction: str, during_s: tuple[float, float]) -> Delivered:
        """Return the bytes that the receiver's streams had at the last reading before an instant, less those before."""
        del spec, direction
        from_s, until_s = during_s
        rows = array("d", report.samples)
        at_from: dict[float, float] = {}
        at_until: dict[float, float] = {}
        for stream, at_s, received_bytes in zip(rows[::3], rows[1::3], rows[2::3], strict=True):
            if at_s <= from_s:
                at_from[stream] = received_bytes
            if at_s <= until_s:
                at_until[stream] = received_bytes
        return Delivered(payload_bytes=sum(at_until.values()) - sum(at_from.values()))


class TcpFarEnd(FarEnd):
    """Far end that listens on a free port for the streams of one run."""

    def __init__(self, spec: FlowSpec) -> None:
        self._spec = spec
        self._listener = _listener(spec)
        self.listening = FarListening(port=self._listener.getsockname()[1])
        self._closed = False
        self._socks: dict[int, socket.socket] = {}
        self._streams: Streams | None = None
        self._report: FlowReport | None = None
        self._trouble: BaseException | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def finish(self, near: FlowReport) -> FlowReport:
        """End the run; the smallest round-trip time is taken over both ends."""
        self._thread.join(self._spec.deadline_s + _FINISH_S)
        self.close()
        if self._trouble is not None:
            raise self._trouble
        if self._report is None:
            raise LabError(f"the server's end of the TCP run on port {self.listening.port} has not ended in time")
        if "base_rtt_s" in near.facts:
            here = self._report.facts.get("base_rtt_s", near.facts["base_rtt_s"])
            self._report.facts["base_rtt_s"] = min(here, near.facts["base_rtt_s"])
        return self._report

    def close(self) -> None:
        """End the thread and all sockets."""
        self._closed = True
        for sock in list(self._socks.values()):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(_FINISH_S)
        self._listener.close()
        for sock in self._socks.values():
            sock.close()

    def _work(self) -> None:
        try:
            if self._accept():
                self._report = self._run()
        except OSError as error:
            message = f"the client of the TCP run on port {self.listening.port} is gone: {failure_kind(error)}"
            self._trouble = LabError(message)
        except BaseException as error:  # noqa: BLE001 - `finish` raises it
            self._trouble = error
        finally:
            self._listener.close()
            if self._streams is not None:
                self._streams.close()

    def _run(self) -> FlowReport:
        spec, socks = self._spec, [sock for _, sock in sorted(self._socks.items())]
        check_congestion(socks, spec.factors)
        sends = spec.factors["direction"] == "down"
        peer = f"the {'receiver' if sends else 'sender'} at {socks[0].getpeername()[0]}"
        self._streams = streams = _streams(socks, peer, spec, sends=sends)
        if not sends:
            for sock in socks:
                sock.send(_READY)
        report = streams.run(self._alive)
        _add_socket_facts(report, socks, spec, "server")
        return report

    def _alive(self) -> None:
        if self._closed:
            raise LabError("the server's end of the TCP run was closed before its end")

    def _accept(self) -> bool:
        """Accept all streams of the run, and no others; return False if closed before they came."""
        while len(self._socks) < self._spec.connections and not self._closed:
            with contextlib.suppress(TimeoutError):
                sock, _ = self._listener.accept()
                if (place := self._place(sock)) is None:
                    sock.close()
                else:
                    self._socks[place] = sock
        return not self._closed

    def _place(self, sock: socket.socket) -> int | None:
        """Return the number of this run's stream on a connection, None for any other connection."""
        limit_blocking(sock, _HELLO_S)
        try:
            hello = sock.recv(_HELLO.size, socket.MSG_WAITALL)
        except OSError:
            return None
        ident, place = _HELLO.unpack(hello) if len(hello) == _HELLO.size else (0, 0)
        known = ident == self._spec.ident and place < self._spec.connections and place not in self._socks
        return place if known else None


def _listener(spec: FlowSpec) -> socket.socket:
    port = free_port((spec.address,), *spec.ports, random.Random(spec.ident))  # noqa: S311 - no secret
    sock = _socket(spec)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        configure(sock, spec.factors)
        sock.bind((spec.address, port))
        sock.listen(spec.connections + _STRANGERS)
        sock.settimeout(_ACCEPT_S)
    except OSError as error:
        sock.close()
        raise LabError(f"no TCP stream can be received on {spec.address} port {port}: {error.strerror}") from error
    except BaseException:
        sock.close()
        raise
    return sock


def _socket(spec: FlowSpec) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if spec.ipver == 6 else socket.AF_INET, socket.SOCK_STREAM)
    if spec.ipver == 6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    return sock


def _connect(spec: FlowSpec, place: int, socks: list[socket.socket]) -> float:
    """Add a stream that identifies itself to the far end; return the seconds that its opening took."""
    port = spec.far.port
    socks.append(sock := _socket(spec))
    configure(sock, spec.factors)
    limit_blocking(sock, spec.deadline_s)
    if spec.source:
        _bind(sock, spec.source)
    try:
        began = time.perf_counter()
        sock.connect((spec.address, port))
        took_s = time.perf_counter() - began
        sock.sendall(_HELLO.pack(spec.ident, place))
    except BlockingIOError:  # the kernel's error after SO_SNDTIMEO
        raise LabError(f"no TCP stream to {spec.address} port {port}: no answer within {spec.deadline_s:g} s") from None
    except OSError as error:
        kind = connect_kind(error.errno or 0)
        raise LabError(
            f"no TCP stream to {spec.address} port {port}: {kind}; the server's agent must listen there"
        ) from error
    return took_s


def _bind(sock: socket.socket, source: str) -> None:
    sock.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
    try:
        sock.bind((source, 0))
    except OSError as error:
        raise LabError(
            f"no TCP stream can leave from {source}: {error.strerror}; it has to be an address of this host"
        ) from error


def _streams(
    socks: Sequence[socket.socket], peer: str, spec: FlowSpec, *, sends: bool
) -> StreamSender | StreamReceiver:
    return StreamSender(socks, peer, spec) if sends else StreamReceiver(socks, peer, spec)


def _wait_ready(socks: Sequence[socket.socket], peer: str, spec: FlowSpec, alive: Callable[[], None]) -> None:
    """Wait until the far end has all streams."""
    for sock in socks:
        if not readable([sock], spec.deadline_s, alive):
            raise LabError(f"{peer} accepted all streams and did not answer within {spec.deadline_s:g} s")
        try:
            if sock.recv(len(_READY)) == _READY:
                continue
            raise LabError(f"{peer} ended a stream before it began")
        except OSError as error:
            raise LabError(f"{peer} ended a stream before it began ({failure_kind(error)})") from error


def _add_socket_facts(report: FlowReport, socks: Sequence[socket.socket], spec: FlowSpec, whose: str) -> None:
    """Add to the report the socket options that this end requested, and those in force."""
    report.notes.extend(notes(socks[0], spec.factors, whose))
    report.detail[whose] = {
        "congestion": congestion(socks[0]),
        "window": spec.factors["window"],
        "send_buffer_bytes": effective_bytes(socks, socket.SO_SNDBUF),
        "receive_buffer_bytes": effective_bytes(socks, socket.SO_RCVBUF),
    }


def _path(socks: Sequence[socket.socket], peer: str) -> dict[str, Any]:
    """Return families, peers and sources of the streams, as the kernel reports them."""
    try:
        peers = Counter(sock.getpeername()[0] for sock in socks)
    except OSError as error:
        raise LabError(f"{peer} ended a stream before it began ({failure_kind(error)})") from error
    return {
        "families": sorted({socket.AddressFamily(sock.family).name for sock in socks}),
        "peers": dict(peers),
        "sources": sorted({sock.getsockname()[0] for sock in socks}),
    }


engine = Tcp()
