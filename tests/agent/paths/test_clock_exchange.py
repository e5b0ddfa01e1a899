"""Offset of two clocks: from synthetic timestamps, and with a server whose clock is another."""

from __future__ import annotations

import ast
import math
import os
import random
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.agent.paths import clock_exchange
from pytest_ipperf.agent.paths.clock_exchange import OffsetServer, clock_of_host, estimate, exchange
from pytest_ipperf.core.portable.errors import LabError
from tests.support.needs import require
from tests.support.servers.udp import DatagramServer, silent_socket

ROOT = str(Path(__file__).parents[3])
PORTS = (21000, 21999)
SERVER = """
import sys
from pytest_ipperf.agent.paths import clock_exchange as offset
from pytest_ipperf.agent.paths.clock_exchange import OffsetServer, clock_of_host
server = OffsetServer(sys.argv[1], (21000, 21999))
print((server.port, clock_of_host()), flush=True)
sys.stdin.read()
server.close()
"""


@given(st.integers(-(10**15), 10**15), st.integers(1, 10**6), st.integers(0, 2**32), st.integers(1, 300))
def test_an_offset_is_found_however_the_other_delays_lie(offset_ns, fastest_ns, seed, count):
    """Each direction takes half the fastest exchange or longer; a tenth of them was delayed in neither."""
    drawn = random.Random(seed)
    exchanges = []
    for number in range(count):
        there, back = (drawn.randrange(10 * fastest_ns) if number % 10 else 0 for _ in range(2))
        sent = drawn.randrange(10**12)
        came = sent + offset_ns + fastest_ns + there
        answered = came + drawn.randrange(10**6)
        exchanges.append((sent, came, answered, answered - offset_ns + fastest_ns + back))
    offset_s, error_s = estimate(exchanges)
    assert offset_s == pytest.approx(offset_ns * 1e-9, abs=1e-9)
    assert error_s == pytest.approx(fastest_ns * 1e-9)


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1, max_size=50))
def test_whatever_the_delays_are_the_error_covers_them(delays):
    result = [(0, 5000 + there, 6000 + there, 1000 + there + back) for there, back in delays]
    offset_s, error_s = estimate(result)
    assert abs(offset_s - 5e-6) <= error_s + 1e-12


def test_of_nothing_there_is_no_offset():
    assert estimate([]) == (0.0, math.inf)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_host_has_no_offset_to_itself(address, monkeypatch):
    monkeypatch.setattr(clock_exchange, "_MOST_NS", 60 * 10**9)  # both ends are threads of one process, and take turns
    server = OffsetServer(address, PORTS)
    began = time.process_time()
    time.sleep(0.2)
    assert time.process_time() - began < 0.1
    exchanges = exchange(address, address, server.port, 100)
    server.close()
    server.close()
    offset_s, error_s = estimate(exchanges)
    assert len(exchanges) > 90
    assert abs(offset_s) <= error_s + 1e-9
    assert all(t1 <= t2 <= t3 <= t4 for t1, t2, t3, t4 in exchanges)
    assert exchange(address, address, server.port, 100) == []


def test_the_offset_of_a_time_namespace_is_found(own_network):
    """Its clock differs, and so does its identity."""
    other = ["unshare", "--time", "--monotonic", "1234", "--fork"]
    tried = subprocess.run([*other, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"no rights for a time namespace: {tried.stderr.strip()}")
    near = """
import ast, subprocess, sys
from pytest_ipperf.agent.paths.clock_exchange import clock_of_host, estimate, exchange
server = subprocess.Popen(sys.argv[1:], stdin=-1, stdout=-1)
port, clock = ast.literal_eval(server.stdout.readline().decode())
result = estimate(exchange("127.0.0.1", "127.0.0.1", port, 500))
server.communicate()
print((result, clock, clock_of_host()))
"""
    require("ip")
    up = 'PATH=$PATH:/usr/sbin:/sbin; ip link set lo up; exec "$@"'
    words = [*own_network, "sh", "-c", up, "sh", sys.executable, "-c", near]
    argv = [*words, *other, sys.executable, "-c", SERVER, "127.0.0.1"]
    env = {**os.environ, "PYTHONPATH": ROOT}
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300, env=env)
    assert done.returncode == 0, done.stderr
    (offset_s, error_s), far, here = ast.literal_eval(done.stdout)
    assert abs(offset_s - 1234) <= error_s + 1e-9
    assert error_s < 0.1
    assert far["boot"] == here["boot"] == clock_of_host()["boot"]
    assert far["time"] != here["time"] == clock_of_host()["time"]


def test_what_is_lost_is_left_out_and_late_answers_are_told_apart():
    """A server that ignores request 3 and answers 5 and 6 with the reply to the request before.

    A machine that is held up may lose others too, so they are all made again then.
    """
    right = set()

    def answer(query, _):
        number = int.from_bytes(query[:8], "big")
        for each in {3: [], 5: [4], 6: [5, 6]}.get(number, [number]):
            stamp_ns = time.monotonic_ns()
            if each == number:
                right.add(stamp_ns)
            yield each.to_bytes(8, "big") + 2 * stamp_ns.to_bytes(8, "big") + bytes(8)

    for _ in range(20):
        with DatagramServer("127.0.0.1", answer) as server:
            exchanges = exchange("127.0.0.1", "127.0.0.1", server.port, 10)
        assert {t2 for _, t2, _, _ in exchanges} <= right
        assert all(t1 <= t2 == t3 <= t4 for t1, t2, t3, t4 in exchanges)
        if len(exchanges) >= 8:
            break
    assert len(exchanges) == 8


def test_silence_ends_it_soon(monkeypatch):
    monkeypatch.setattr(clock_exchange, "_LATEST_NS", 100_000_000)
    with silent_socket() as sock:
        began = time.monotonic()
        assert exchange("", "127.0.0.1", sock.getsockname()[1], 500) == []
        assert time.monotonic() - began >= 0.2
        sock.settimeout(0)
        assert [len(sock.recv(100)) for _ in range(2)] == [32, 32]
        with pytest.raises(BlockingIOError):
            sock.recv(100)


def test_no_answer_is_answered():
    server = OffsetServer("127.0.0.1", PORTS)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(("127.0.0.1", server.port))
        for wrong in (b"", bytes(31), bytes(33), bytes(31) + b"x"):
            sock.send(wrong)
        sock.send(b"\7" + bytes(31))
        assert sock.recv(100)[:1] == b"\7"
        sock.settimeout(0.05)
        with pytest.raises(TimeoutError):
            sock.recv(100)
    server.close()


def test_an_address_that_is_not_this_hosts_is_told():
    with pytest.raises(LabError, match=r"^no clocks can be compared on 198\.18\.0\.77: Cannot assign"):
        exchange("198.18.0.77", "198.18.0.78", 21000, 1)
    with pytest.raises(LabError, match=r"address 198\.18\.0\.77: Cannot assign"):
        OffsetServer("198.18.0.77", PORTS)
