"""TCP_INFO compared with `ss`, and from kernels that have less of it; small writes in batches."""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.agent.flows.spec import FlowSpec
from pytest_ipperf.agent.flows.tcp.receiver import StreamReceiver
from pytest_ipperf.agent.flows.tcp.streams import Streams
from pytest_ipperf.agent.sockets.batch_io import WriteBatch
from pytest_ipperf.agent.sockets.tcp_info import TcpInfo, TcpInfoSampler, parsed, tcp_info
from pytest_ipperf.core.portable.errors import LabError
from tests.support.needs import needs

FACTORS = {"window": "auto", "direction": "up", "congestion": "auto"}
SPEC = FlowSpec(
    engine="tcp", ipver=4, source="", address="127.0.0.1", ports=(20000, 20999), connections=2, payload_bytes=1000,
    factors=FACTORS, warmup_s=0.1, run_s=0.3, deadline_s=10.0, ident=1,
)  # fmt: skip


@pytest.fixture
def ends():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    with near, far:
        yield near, far


@needs("ss")
def test_it_is_what_ss_says(ends):
    near, far = ends
    near.sendall(bytes(500_000))
    left = 500_000
    while left:
        left -= len(far.recv(left))
    local, peer = near.getsockname()[1], near.getpeername()[1]
    words = ["ss", "-tin", f"sport = :{local} and dport = :{peer}"]
    for _ in range(20):  # until no acknowledgement comes between the two samples of it
        before = tcp_info(near)
        said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        if before == tcp_info(near) and "bytes_acked:500001" in said:
            break
    found = dict(re.findall(r"(\w+):(\S+)", said))
    rtt_ms, rttvar_ms = map(float, found["rtt"].split("/"))
    assert (before.rtt_us, before.rttvar_us) == (round(rtt_ms * 1000), round(rttvar_ms * 1000))
    assert before.min_rtt_us == round(float(found["minrtt"]) * 1000)
    assert before.mss_bytes == int(found["mss"])
    assert before.cwnd_segments == int(found["cwnd"])
    assert before.bytes_sent == int(found["bytes_sent"]) == 500_000 + before.bytes_retrans
    assert before.bytes_acked == int(found["bytes_acked"]) == 500_001  # the SYN is one
    assert before.delivery_rate_bytes_s * 8 == int(re.findall(r"delivery_rate (\d+)bps", said)[0])
    assert (before.retransmits, before.bytes_retrans) == (0, 0)
    assert before.busy_us // 1000 == int(found.get("busy", "0ms").removesuffix("ms"))


@given(st.binary(max_size=512))
def test_an_older_kernel_tells_less(data):
    whole = parsed(data.ljust(512, b"\0"))
    assert parsed(data) == whole
    assert len(data) > 148 or whole.min_rtt_us == whole.bytes_sent == 0


def test_no_round_trip_yet_is_none():
    assert parsed(b"\xff" * 232).min_rtt_us == 0
    with socket.socket() as sock:
        assert tcp_info(sock).min_rtt_us == 0


def info(**known):
    return TcpInfo(**dict.fromkeys(TcpInfo._fields, 0) | known)


def test_facts_are_means_in_the_run_and_sums_at_the_end(monkeypatch):
    samples = {
        1: [info(rtt_us=900, cwnd_segments=1, mss_bytes=1000), info(rtt_us=900, cwnd_segments=1, mss_bytes=1000)],
        2: [
            info(rtt_us=100, cwnd_segments=10, mss_bytes=1000, delivery_rate_bytes_s=10),
            info(rtt_us=300, cwnd_segments=30, mss_bytes=1000, delivery_rate_bytes_s=20),
        ],
        3: [
            info(rtt_us=200, cwnd_segments=20, mss_bytes=1000, delivery_rate_bytes_s=30),
            info(rtt_us=400, cwnd_segments=40, mss_bytes=1000, delivery_rate_bytes_s=40),
        ],
        4: [
            info(mss_bytes=1448, retransmits=2, bytes_sent=700, bytes_retrans=70, min_rtt_us=50),
            info(mss_bytes=1000, retransmits=3, bytes_sent=300, bytes_retrans=30, min_rtt_us=40),
        ],
    }
    answers = iter([each for number in (1, 1, 2, 3, 4) for each in samples[number]])
    monkeypatch.setattr("pytest_ipperf.agent.sockets.tcp_info.tcp_info", lambda _: next(answers))
    socks: list[Any] = [None, None]
    sampler = TcpInfoSampler(socks)
    for at_s, counts in ((0.1, False), (0.2, True), (0.3, True), (0.4, False)):
        sampler.sample(at_s, counts=counts)
    assert sampler.facts() == pytest.approx({
        "retransmits": 5, "rtt_s": 250e-6, "cwnd_bytes": 25000, "delivery_rate_bit_s": 400, "mss_bytes": 1448,
        "base_rtt_s": 40e-6, "sent_bytes": 1000, "retransmitted_bytes": 100,
    })  # fmt: skip
    assert [row[0] for row in sampler.series] == [0.1, 0.2, 0.3, 0.4]
    assert {len(row) for row in sampler.series} == {len(TcpInfoSampler.COLUMNS)}


def until_full(call):
    """Return the results of a call until it would block."""
    found = []
    with contextlib.suppress(BlockingIOError):
        while True:
            found.append(call())
    return found


def test_a_batch_is_writes_of_their_own_and_tells_how_much_was_taken():
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with near, far:
        near.settimeout(0)
        far.settimeout(0)
        sampler = sum(until_full(WriteBatch(near, bytes(range(32)), 64).send))
        came = until_full(lambda: far.recv(4096))
        assert set(came) == {bytes(range(32))}
        assert sampler == 32 * len(came)


def test_a_batch_that_the_stream_takes_in_part_is_counted_to_the_byte(ends):
    near, far = ends
    near.settimeout(0)
    sampler = sum(until_full(WriteBatch(near, bytes(500), 64).send))
    near.shutdown(socket.SHUT_WR)
    came = 0
    while size := len(far.recv(1 << 20)):
        came += size
    assert came == sampler


class Still(Streams):
    def _move(self, sock, place):
        pass


@pytest.mark.parametrize(("streams", "processors", "cpu_s", "busy"), [
    (1, 2, 0.96, True), (1, 2, 0.94, False), (4, 1, 0.96, True), (4, 2, 0.96, False), (4, 2, 1.91, True),
])  # fmt: skip
def test_a_host_is_busy_where_its_threads_have_all_that_they_could(monkeypatch, streams, processors, cpu_s, busy):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(processors)))
    socks: list[Any] = [None] * streams
    still = Still(socks, "", "", 1.0)
    still.cpu_s, still.wall_s = cpu_s, 1.0
    said = ["the sender was on its processor for 95% of the run or more, so its host bounds this figure"]
    assert still.bounds("sender") == (said if busy else [])


def test_a_stream_that_moved_nothing_is_a_note_and_a_run_in_which_none_did_an_error(ends):
    received = StreamReceiver(ends, "the sender", SPEC)
    told = received._report([(0.1, [5, 5]), (0.2, [7, 5]), (0.5, [9, 5])])
    assert told.facts == {"seconds": 0.4, "payload_bytes": 4, "receiver_cpu_s": 0, "idle_streams": 1}
    rows = array("d", told.samples)
    assert [*zip(rows[::3], rows[1::3], rows[2::3], strict=True)] == [
        (0, 0, 0), (1, 0, 0), (0, 0.1, 2), (1, 0.1, 0), (0, 0.4, 4), (1, 0.4, 0),
    ]  # fmt: skip
    assert "1 of 2 streams moved nothing in the run, so the others had the path to themselves" in told.notes
    with pytest.raises(LabError, match=r"^nothing arrived at 127\.0\.0\.1 from the sender in the 0\.4 s of the run$"):
        received._report([(0.1, [5, 5]), (0.5, [5, 5])])
