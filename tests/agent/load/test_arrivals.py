"""Open-loop bursts of both clients: each connection at its own instant, independent of the others."""

from __future__ import annotations

import contextlib
import random
import socket
import statistics
import struct
import threading
import time
from collections import Counter

import pytest

from pytest_ipperf.agent.host_state.private_dir import private_folder
from pytest_ipperf.agent.load.arrivals import arrivals
from pytest_ipperf.agent.load.runner import load
from pytest_ipperf.agent.load.spec import LoadSpec
from pytest_ipperf.agent.servers.server_process import ServerProcess
from pytest_ipperf.agent.sockets.ports import free_port
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.protocols import application
from pytest_ipperf.protocols.base import PHASES
from pytest_ipperf.servers import SERVERS
from pytest_ipperf.servers.base import Site

ADDRESSES = ("127.0.0.1", "::1")
STALLED = 20

both_families = pytest.mark.parametrize("address", ADDRESSES)
both_clients = pytest.mark.parametrize("client", ["lean", "library"])


@pytest.fixture(scope="module")
def null():
    """Return the ports of null servers, by protocol."""
    with contextlib.ExitStack() as stack:
        ports = {}
        for name in ("http", "smtp"):
            folder = stack.enter_context(private_folder())
            ports[name] = free_port(ADDRESSES, 20000, 29999, random.Random())
            replies = application(name).canned_replies(application(name).filled(ServerState(), 1000))
            instance = ServerProcess(
                SERVERS["null"], Site(str(folder / "null"), ADDRESSES, ports[name], 100, canned_replies=replies)
            )
            stack.callback(instance.stop)
            instance.start()
        yield ports


def spec(port, address="127.0.0.1", protocol="http", **changed):
    settings = {
        "protocol": protocol, "client": "lean", "payload_bytes": 1000, "connections": 50, "bursts": 2,
        "ipver": 6 if ":" in address else 4, "resolver": "", "resolver_port": 0, "name": address, "port": port,
        "source": address, "deadline_s": 10.0, "ident": 0, "rate_per_s": 400.0, "pattern": "1/2/3",
    }  # fmt: skip
    return LoadSpec(**{**settings, **changed})


def rows_of(told):
    return [dict(zip(PHASES, row, strict=True)) for row in struct.iter_unpack(f"{len(PHASES)}d", told.rows)]


def test_a_pattern_is_one_for_ever_and_another_one_for_another():
    assert arrivals(3, 100.0, "7/0/1") == arrivals(5, 100.0, "7/0/1")[:3]
    assert arrivals(3, 100.0, "7/0/1") != arrivals(3, 100.0, "7/0/2")
    assert arrivals(3, 100.0, "7/0/1") == [2 * each for each in arrivals(3, 200.0, "7/0/1")]


def test_gaps_are_exponential_and_of_the_rate():
    instants = arrivals(20_000, 50.0, "a fixed seed")
    gaps = [after - before for before, after in zip([0.0, *instants], instants, strict=False)]
    assert min(gaps) > 0
    assert statistics.fmean(gaps) == pytest.approx(1 / 50, rel=0.02)
    assert statistics.pstdev(gaps) == pytest.approx(1 / 50, rel=0.03)
    assert sum(gap > 1 / 50 for gap in gaps) / len(gaps) == pytest.approx(0.368, abs=0.01)


@both_clients
@both_families
@pytest.mark.parametrize("protocol", ["http", "smtp"])
def test_each_begins_at_its_instant(client, address, protocol, null):
    asked = spec(null[protocol], address, protocol, client=client)
    told = load(asked)
    assert told.failed == {}
    rows = rows_of(told)
    intended = [instant for number in range(2) for instant in arrivals(50, 400.0, f"1/2/3/{number}")]
    assert [row["start"] for row in rows] == pytest.approx(intended, abs=1e-9)
    assert all(0 <= row["behind"] < row["total"] < 10 for row in rows)
    assert told.wall_s >= sum(arrivals(50, 400.0, f"1/2/3/{number}")[-1] for number in range(2))


def test_both_arms_of_a_block_have_the_same_pattern(null):
    starts = [[row["start"] for row in rows_of(load(spec(null["http"], address, ident=7)))] for address in ADDRESSES]
    assert starts[0] == pytest.approx(starts[1], abs=1e-9)


def test_a_closed_burst_is_never_behind(null):
    told = load(spec(null["http"], rate_per_s=0.0))
    assert {row["behind"] for row in rows_of(told)} == {0.0}
    assert len(rows_of(told)) == 100


class Stalling:
    """A server of one thread that stalls once, until `others` more connections have come."""

    def __init__(self, stall_s, others):
        self._stall_s, self._others = stall_s, others
        self._waiting: list[socket.socket] = []
        self._sock = socket.create_server(("127.0.0.1", 0), backlog=1000)
        self._sock.settimeout(0.05)
        self.port = self._sock.getsockname()[1]
        self._ended = False
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended = True
        self._thread.join(10)
        self._sock.close()

    def _serve(self):
        served = 0
        while not self._ended:
            with contextlib.suppress(TimeoutError, OSError):
                conn = self._waiting.pop(0) if self._waiting else self._sock.accept()[0]
                with conn:
                    served += 1
                    if served == STALLED:
                        self._stall()
                    conn.settimeout(5)
                    conn.recv(4096)
                    conn.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + application("http").content(1000))

    def _stall(self):
        time.sleep(self._stall_s)
        end = time.monotonic() + 20
        while len(self._waiting) < self._others and time.monotonic() < end:
            with contextlib.suppress(TimeoutError):
                self._waiting.append(self._sock.accept()[0])
        self.came = len(self._waiting)


@both_clients
def test_a_stall_of_the_server_is_in_the_figures_of_all_who_came_in_it(client):
    """Under coordinated omission one figure would be long and the others short."""
    with Stalling(0.5, others=60) as server:
        told = load(spec(server.port, connections=200, bursts=1, client=client))
    rows = rows_of(told)
    assert told.failed == {}
    assert server.came == 60  # no connection was prevented
    stalled, came = rows[STALLED - 1], rows[STALLED : STALLED + 60]
    end = stalled["start"] + stalled["behind"] + 0.5  # the stall began when that connection came, or later
    assert all(row["start"] + row["total"] > end for row in came)  # and none was served before its end
    assert statistics.median(row["start"] for row in came) < end


def test_a_stall_of_the_client_is_in_the_figures_too(null, monkeypatch):
    kind = application("http").conversation(ServerState(b"x"), 0, 4).__class__
    fed: Counter[str] = Counter()
    receive_data = kind.receive_data

    def stalls(self, data):
        fed["times"] += 1
        if fed["times"] == 10:
            time.sleep(0.3)
        return receive_data(self, data)

    monkeypatch.setattr(kind, "receive_data", stalls)
    rows = rows_of(load(spec(null["http"], bursts=1, rate_per_s=100.0)))
    behind = [row for row in rows if row["behind"] > 0.1]
    assert behind
    assert all(row["total"] > row["connect"] > row["behind"] for row in behind)


@both_clients
def test_the_deadline_is_each_connections_own(client):
    with socket.create_server(("127.0.0.1", 0), backlog=100) as deaf:
        asked = spec(deaf.getsockname()[1], connections=10, bursts=1, rate_per_s=20.0, deadline_s=0.5, client=client)
        begun = time.monotonic()
        told = load(asked)
    assert told.failed == {"talk deadline": 10}
    last = arrivals(10, 20.0, "1/2/3/0")[-1]
    assert last + 0.5 <= time.monotonic() - begun < last + 4


def _mail(conn, number, seen):
    """Serve as a mail server that records when sessions begin and end."""
    seen.append(("came", number))
    conn.sendall(b"220 hello\r\n")
    with conn.makefile("rb") as lines:
        while line := lines.readline():
            if line == b"QUIT\r\n":
                seen.append(("left", number))
                conn.sendall(b"221 Bye\r\n")
                return
            if line == b"DATA\r\n":
                conn.sendall(b"354 go on\r\n")
                while lines.readline() != b".\r\n":
                    pass
            conn.sendall(b"250 2.0.0 Ok: queued as 1\r\n")


@both_clients
def test_sessions_are_not_held(client):
    seen: list[tuple[str, int]] = []
    threads = []
    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:

        def serve():
            for number in range(10):
                conn = server.accept()[0]
                held.enter_context(conn)
                threads.append(threading.Thread(target=_mail, args=(conn, number, seen)))
                threads[-1].start()

        with contextlib.ExitStack() as held:
            threads.append(threading.Thread(target=serve))
            threads[0].start()
            port = server.getsockname()[1]
            told = load(spec(port, protocol="smtp", connections=10, bursts=1, rate_per_s=8.0, client=client))
            for thread in threads:
                thread.join(10)
    assert told.failed == {}
    assert seen.index(("left", 0)) < seen.index(("came", 9))
