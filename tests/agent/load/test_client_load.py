"""Figures of a run about the client itself: read delay, loop lag, and simultaneous connections."""

from __future__ import annotations

import contextlib
import gc
import math
import os
import random
import socket
import struct
import threading
import time
import weakref
from pathlib import Path

import pytest

from pytest_ipperf.agent.host_state.private_dir import private_folder
from pytest_ipperf.agent.kernel.counters import ERROR_COUNTERS, cpu_times_s, deltas, tcp_error_counters
from pytest_ipperf.agent.load.lean.epoll_client import Burst
from pytest_ipperf.agent.load.runner import load
from pytest_ipperf.agent.load.spec import LoadSpec
from pytest_ipperf.agent.load.worker import LoadWorker
from pytest_ipperf.agent.servers.server_process import ServerProcess
from pytest_ipperf.agent.sockets.ports import free_port
from pytest_ipperf.agent.sockets.receive_timestamps import rx_timestamping, wall_clock_lead_ns
from pytest_ipperf.agent.sockets.target import Target
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.protocols import application
from pytest_ipperf.protocols.base import PHASES
from pytest_ipperf.servers import SERVERS
from pytest_ipperf.servers.base import Site
from tests.support.receive_timestamps import wait_until_stamped
from tests.support.servers.tcp import StreamServer, family_of, silent_listener

both_families = pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
ACCOUNTS = ServerState(users=200, password="secret")
each_protocol = pytest.mark.parametrize("protocol", ["http", "smtp"])


@pytest.fixture
def null():
    """Start null servers for a protocol; return the port."""
    with contextlib.ExitStack() as stack:

        def start(protocol, payload_bytes=1000):
            folder = stack.enter_context(private_folder())
            addresses = ("127.0.0.1", "::1")
            port = free_port(addresses, 20000, 29999, random.Random())
            state = application(protocol).filled(ACCOUNTS, payload_bytes)
            replies = application(protocol).canned_replies(state)
            instance = ServerProcess(
                SERVERS["null"], Site(str(folder / "null"), addresses, port, 100, canned_replies=replies)
            )
            stack.callback(instance.stop)
            instance.start()
            return port

        yield start


def spec(protocol, address, port, **changed):
    settings = {
        "protocol": protocol, "client": "lean", "payload_bytes": 1000, "connections": 20, "bursts": 3,
        "ipver": 6 if ":" in address else 4, "resolver": "", "resolver_port": 0, "name": address, "port": port,
        "source": "", "deadline_s": 10.0, "ident": 0,
    }  # fmt: skip
    return LoadSpec(**{**settings, **changed})


def rows_of(result):
    values = struct.iter_unpack(f"{len(PHASES)}d", result.rows)
    return [dict(zip(PHASES, row, strict=True)) for row in values]


PARTLY = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n<html>"


def burst(address, port, n=1, payload=1000, protocol="http", **settings):
    kind = application(protocol)
    talks = [kind.conversation(kind.filled(ServerState(), payload), index, 4) for index in range(n)]
    made = Burst(Target(family_of(address), None, address, port, ""), talks, 5.0, 0, **settings)
    made.run()
    return made


def answering(address, answer):
    """Return a server whose connections `answer` handles; they are closed then."""

    def talk(conn, _):
        with conn:
            answer(conn)

    return StreamServer(address, talk)


@both_families
@each_protocol
@pytest.mark.parametrize("hold", [True, False])
def test_without_a_resolver_it_goes_straight_to_the_address(protocol, address, null, hold):
    result = load(spec(protocol, address, null(protocol), hold=hold))
    rows = rows_of(result)
    assert result.failed == {}
    assert len(rows) == result.attempted == 60
    assert {row["dns"] for row in rows} == {0.0}
    assert result.peers == {address: 60}
    assert result.sources == [address]
    assert result.families == ["AF_INET6" if ":" in address else "AF_INET"]


@both_families
def test_held_sessions_stay_open_until_the_last_has_its_figure(address, null):
    port = null("smtp")
    before = set(os.listdir("/proc/self/fd"))  # noqa: PTH208 - Path would open one more
    kept = {True: 0, False: 0}
    for hold in kept:

        class Watched(Burst):
            def close(self, hold=hold):
                kept[hold] = sum(each.sock.fileno() >= 0 for each in self.connections)
                super().close()

        kind = application("smtp")
        talks = [kind.conversation(kind.filled(ServerState(), 1000), index, 4) for index in range(10)]
        Watched(Target(family_of(address), None, address, port, ""), talks, 5.0, 0, hold=hold).run()
    assert kept == {True: 10, False: 0}
    gc.collect()
    assert set(os.listdir("/proc/self/fd")) <= before  # noqa: PTH208 - as above


@both_families
def test_the_kernel_tells_how_late_the_client_was(address):
    """The answer arrives while the client's loop is blocked, for as long as the test says."""
    page = ServerState(application("http").content(1000))
    sent = threading.Event()

    def answer(conn):
        conn.recv(4096)
        conn.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + page.content)
        sent.set()

    class Kept(Burst):
        def _receive(self, connection, event):
            sent.wait(5)
            time.sleep(0.05)
            super()._receive(connection, event)

    with answering(address, answer) as server, rx_timestamping():
        wait_until_stamped()
        kind = application("http")
        made = Kept(Target(family_of(address), None, address, server.port, ""), [kind.conversation(page, 0, 4)], 5.0, 0)
        made.run()
    (connection,) = made.connections
    assert connection.failure == ""
    assert 0.05 <= connection.rx_delay_s < connection.done - connection.opened
    assert made.lag_s >= 0.05


@pytest.mark.parametrize("step_s", [3600, -3600])
def test_a_stepped_wall_clock_leaves_the_times_and_takes_the_lateness(step_s, null, monkeypatch):
    port, true_ns = null("http"), time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: true_ns() + step_s * 10**9)
    rows = rows_of(load(spec("http", "127.0.0.1", port)))
    assert len(rows) == 60
    assert all(math.isnan(row["late"]) for row in rows)
    assert all(0 < row["total"] < 10 for row in rows)


@both_families
@pytest.mark.parametrize("set_s", [0.02, 0.0002])
def test_a_wall_clock_that_is_set_during_a_burst_takes_its_lateness(address, set_s, monkeypatch):
    """It is set forward before the answer comes, so that the delay would be too small, and yet possible."""
    true_ns, behind_s = time.time_ns, 0.0
    page = ServerState(application("http").content(1000))

    class Kept(Burst):
        def _receive(self, connection, event):
            nonlocal behind_s
            behind_s = 0.0
            time.sleep(0.05)
            super()._receive(connection, event)

    def answer(conn):
        conn.recv(4096)
        conn.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + page.content)

    with answering(address, answer) as server, rx_timestamping():
        wait_until_stamped()
        monkeypatch.setattr(time, "time_ns", lambda: true_ns() - int(behind_s * 1e9))
        talk, behind_s = application("http").conversation(page, 0, 4), set_s
        made = Kept(Target(family_of(address), None, address, server.port, ""), [talk], 5.0, 0)
        made.run()
    (connection,) = made.connections
    assert connection.failure == ""
    assert connection.stamps
    assert math.isnan(connection.rx_delay_s)


@pytest.mark.parametrize("disturbed", range(3))
def test_the_lead_of_the_wall_clock_is_the_reading_that_was_disturbed_least(disturbed, monkeypatch):
    """A disturbed reading takes 40 ms, and the others 6 us; between the clocks are 7 s."""
    at_ns, readings = 0, iter(range(3))

    def perf_counter_ns():
        return at_ns

    def time_ns():
        nonlocal at_ns
        seen_ns = at_ns + 7 * 10**9 + 3000
        at_ns += 40_000_000 if next(readings) == disturbed else 6000
        return seen_ns

    monkeypatch.setattr(time, "perf_counter_ns", perf_counter_ns)
    monkeypatch.setattr(time, "time_ns", time_ns)
    assert wall_clock_lead_ns() == 7 * 10**9


def test_a_burst_is_freed_without_the_garbage_collector(null):
    """The collector is disabled during a run, whose bursts would be kept until its end."""
    worker = LoadWorker(spec("http", "127.0.0.1", null("http")))
    gc.disable()
    try:
        worker.prepare(0)
        burst = weakref.ref(worker._prepared)
        worker.run()
        worker.prepare(1)
        assert burst() is None
    finally:
        gc.enable()


@both_families
@pytest.mark.parametrize("hold", [True, False])
def test_what_a_burst_leaves_unfinished_is_not_watched_by_the_next_one(address, hold):
    """All bursts of a run share one epoll set; the server never answers the first five connections."""
    page = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + application("http").content(1000)

    def talk(conn, number):
        with conn:
            conn.recv(4096)
            if number >= 5:
                conn.sendall(page)
            conn.recv(1)

    with StreamServer(address, talk) as server:
        worker = LoadWorker(spec("http", address, server.port, connections=5, deadline_s=2.0, hold=hold))
        outcomes = []
        for number in range(3):
            worker.prepare(number)
            assert isinstance(worker._prepared, Burst)
            assert worker._prepared.epoll is worker._epoll
            result = worker.run()
            outcomes.append((dict(result.failed), len(result.rows) // (8 * len(PHASES)), watched(worker._epoll)))
        worker.close()
    assert outcomes == [({"talk deadline": 5}, 0, 0), ({}, 5, 0), ({}, 5, 0)]
    assert worker._epoll
    assert worker._epoll.closed


@pytest.mark.parametrize("protocol", ["http", "imap", "ftp"])
def test_bursts_share_their_epoll_set_unless_their_sessions_stay(protocol):
    """A session that a server closes would be an event of a later burst, which does not know it."""
    worker = LoadWorker(spec(protocol, "127.0.0.1", 9, state=ACCOUNTS))
    sets = []
    for number in range(2):
        worker.prepare(number)
        assert isinstance(worker._prepared, Burst)
        sets.append(worker._prepared.epoll)
    worker.close()
    assert (sets[0] is sets[1]) == (not application(protocol).stays)


def watched(epoll):
    """Return how many descriptors an epoll set has (proc_pid_fdinfo(5))."""
    return Path(f"/proc/self/fdinfo/{epoll.fileno()}").read_text(encoding="ascii").count("tfd:")


@pytest.mark.parametrize("protocol", ["http", "imap", "smtp"])
def test_the_last_segment_of_each_connection_is_stamped_once_the_kernel_has_begun(protocol, null):
    with rx_timestamping():
        wait_until_stamped()
        rows = rows_of(load(spec(protocol, "127.0.0.1", null(protocol), bursts=10, state=ACCOUNTS)))
    assert len(rows) == 200
    assert all(0 <= row["late"] < row["total"] for row in rows)


@both_families
def test_an_end_that_came_with_the_answer_is_seen_after_it(address):
    """Both make one edge: a client that stops after a short read would wait for the deadline."""
    ended = threading.Event()

    def answer(conn):
        conn.recv(4096)
        conn.sendall(PARTLY)
        conn.shutdown(socket.SHUT_RDWR)
        ended.set()

    class Waits(Burst):
        def _connected(self, connection, event):
            super()._connected(connection, event)
            ended.wait(20)

    with answering(address, answer) as server:
        protocol = application("http")
        talk = protocol.conversation(protocol.filled(ServerState(), 1000), 0, 4)
        made = Waits(Target(family_of(address), None, address, server.port, ""), [talk], 30.0, 0)
        made.run()
    assert [each.failure for each in made.connections] == ["talk closed"]


@both_families
def test_a_page_of_many_reads_is_read_to_its_end(address, null):
    port = null("http", 3_000_000)
    made = burst(address, port, 4, payload=3_000_000)
    assert [each.failure for each in made.connections] == [""] * 4


@both_families
def test_a_message_that_no_buffer_holds_goes_out_as_the_server_reads(address, null):
    port = null("smtp")
    made = burst(address, port, 3, payload=8_000_000, protocol="smtp")
    assert [each.failure for each in made.connections] == [""] * 3


def test_peak_tells_how_many_were_in_their_conversations_at_once(null):
    result = load(spec("smtp", "127.0.0.1", null("smtp"), connections=40))
    assert result.peak == 40
    assert load(spec("smtp", "127.0.0.1", null("smtp"), connections=1, bursts=5)).peak == 1


def test_the_receipt_tells_what_the_run_took_of_the_machine(null):
    begun = time.perf_counter()
    result = load(spec("http", "127.0.0.1", null("http"), connections=100, bursts=10))
    took_s = time.perf_counter() - begun
    assert 0 < result.burst_cpu_s < result.cpu_s < took_s
    assert 0 < result.wall_s < took_s
    assert 0 < result.lag_s < took_s
    assert result.processors == 1
    assert set(result.host_cpu_s) == {"busy", "stolen"}
    assert 0 <= result.host_cpu_s["busy"] <= (took_s + 0.1) * (os.cpu_count() or 1)


def test_an_overflowing_queue_shows_in_the_counters():
    before = tcp_error_counters()
    with silent_listener(backlog=0) as port, contextlib.ExitStack() as stack:
        for _ in range(6):
            sock = stack.enter_context(socket.socket())
            sock.settimeout(0)
            sock.connect_ex(("127.0.0.1", port))
        end = time.monotonic() + 20
        while not (moved := deltas(before, tcp_error_counters())).get("ListenOverflows") and time.monotonic() < end:
            time.sleep(0.01)
    assert moved.get("ListenOverflows", 0) >= 1
    assert set(moved) <= set(ERROR_COUNTERS)


def test_counters_that_rest_are_not_told():
    assert deltas({"a": 1, "b": 2}, {"a": 1, "b": 5, "c": 0}) == {"b": 3}


def busy_s_of(work_s):
    before = cpu_times_s()["busy"]
    end = time.process_time() + work_s
    while time.process_time() < end:
        pass
    return cpu_times_s()["busy"] - before


def test_the_processors_are_busy_when_one_of_them_works():
    """A virtual processor that is taken away misses ticks for which its process is charged, so the best time counts."""
    assert any(busy_s_of(0.2) >= 0.15 for _ in range(20))
