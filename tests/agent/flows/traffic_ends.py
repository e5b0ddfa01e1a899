"""Both ends of modelled traffic on this host's loopback, and a relay between them that spoils datagrams."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import struct
import threading
from array import array
from typing import Any

from pytest_ipperf.agent.flows.engines import ENGINES
from pytest_ipperf.agent.flows.spec import FlowSpec
from pytest_ipperf.core.measurement.run_data import RunData
from pytest_ipperf.core.portable.traffic.distribution import Variable
from pytest_ipperf.core.portable.traffic.model import DOWN, UP, RtpFormat, Speech, Stream, TrafficModel
from pytest_ipperf.protocols import PROTOCOLS

ADDRESSES = {4: "127.0.0.1", 6: "::1"}
PORTS = (21000, 21999)
IDENT = 0x1234
RTP = RtpFormat(payload_type=18, clock_hz=8000)


def stream(direction=UP, interval_s=0.01, size_bytes=60):
    return Stream(direction=direction, interval_s=Variable.of(interval_s), size_bytes=Variable.of(size_bytes))


def model_with(*streams, **more):
    plain = {"name": "m", "title": "m", "source": "here", "streams": streams or (stream(), stream(DOWN)), **more}
    return TrafficModel(**plain)


def voice(**more):
    return model_with(rtp=RTP, speech=Speech(ie=11, bpl=19, delay_s=0.025), **more)


def spec_of(model, ipver=4, carrier="udp", **given):
    plain = {
        "engine": "traffic", "ipver": ipver, "source": ADDRESSES[ipver], "address": ADDRESSES[ipver], "ports": PORTS,
        "connections": 2, "payload_bytes": 100, "warmup_s": 0.1, "run_s": 0.5, "deadline_s": 5.0, "ident": IDENT,
        "pattern": "1/0/0", **given,
    }  # fmt: skip
    return FlowSpec(factors={"carrier": carrier}, model=model, **plain)


def flow(spec, between=None, alive=lambda: None):
    """Run both ends; `between` is a context manager that takes the far end's port and yields the one to send to."""
    engine = ENGINES["traffic"]
    with contextlib.closing(engine.far(spec)) as far, contextlib.ExitStack() as stack:
        port = stack.enter_context(between(far.listening.port)) if between else far.listening.port
        near = engine.near(dataclasses.replace(spec, far=dataclasses.replace(far.listening, port=port)), alive)
        report = far.finish(near)
    return near, report


def data_of(near, far):
    return RunData(
        attempted=far.attempted,
        failed=far.failed,
        columns=PROTOCOLS["traffic"].columns,
        samples=array("d", near.samples + far.samples),
        deadline_s=5.0,
        facts={**near.facts, **far.facts},
    )


def number_of(data):
    """Return the number of a numbered packet of a run that counts; None for others."""
    ident, stream_number, number, _ = struct.unpack_from("!HHIQ", data)
    return number & 0x7FFFFFFF if ident == IDENT and stream_number != 0xFFFF and number >> 31 else None


@contextlib.contextmanager
def relay(port, spoil):
    """Relay datagrams to a port and back; `spoil` returns what is sent on in place of one, as a list."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as front,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as back,
    ):
        front.bind(("127.0.0.1", 0))
        back.connect(("127.0.0.1", port))
        for sock in (front, back):
            sock.settimeout(0.05)
        ended = threading.Event()
        peers: list[Any] = []

        def there():
            while not ended.is_set():
                with contextlib.suppress(TimeoutError, ConnectionRefusedError):
                    data, peer = front.recvfrom(65535)
                    peers[:] = [peer]
                    for each in spoil(data):
                        back.send(each)

        def home():
            while not ended.is_set():
                with contextlib.suppress(TimeoutError, ConnectionRefusedError):
                    data = back.recv(65535)
                    for each in spoil(data):
                        front.sendto(each, peers[0])

        threads = [threading.Thread(target=each) for each in (there, home)]
        for thread in threads:
            thread.start()
        try:
            yield front.getsockname()[1]
        finally:
            ended.set()
            for thread in threads:
                thread.join()
