"""Runs by several worker processes: one result, a common start, and no process left."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import signal
import struct
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from pytest_ipperf.agent.host_state.private_dir import private_folder
from pytest_ipperf.agent.load.arrivals import arrivals
from pytest_ipperf.agent.load.results import peak_concurrency
from pytest_ipperf.agent.load.runner import load
from pytest_ipperf.agent.load.spec import LoadSpec
from pytest_ipperf.agent.load.worker_pool import WorkerPool
from pytest_ipperf.agent.servers.server_process import ServerProcess
from pytest_ipperf.agent.sockets.ports import free_port
from pytest_ipperf.core.portable.errors import AgentError
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.protocols import application
from pytest_ipperf.protocols.base import PHASES
from pytest_ipperf.servers import SERVERS
from pytest_ipperf.servers.base import Site
from tests.support.servers.tcp import refusing_port, silent_listener
from tests.support.servers.udp import silent_socket

ADDRESSES = ("127.0.0.1", "::1")

both_families = pytest.mark.parametrize("address", ADDRESSES)
both_clients = pytest.mark.parametrize("client", ["lean", "library"])


@pytest.fixture(scope="module")
def port():
    """Return the port of a null server that speaks SMTP."""
    with private_folder() as folder:
        found = free_port(ADDRESSES, 20000, 29999, random.Random())
        replies = application("smtp").canned_replies(application("smtp").filled(ServerState(), 1000))
        instance = ServerProcess(
            SERVERS["null"], Site(str(folder / "null"), ADDRESSES, found, 100, canned_replies=replies)
        )
        instance.start()
        try:
            yield found
        finally:
            instance.stop()


def spec(port, address="127.0.0.1", **changed):
    settings = {
        "protocol": "smtp", "client": "lean", "payload_bytes": 1000, "connections": 41, "bursts": 3,
        "ipver": 6 if ":" in address else 4, "resolver": "", "resolver_port": 0, "name": address, "port": port,
        "source": address, "deadline_s": 10.0, "ident": 0, "workers": 2,
    }  # fmt: skip
    return LoadSpec(**{**settings, **changed})


def rows_of(told):
    return [dict(zip(PHASES, row, strict=True)) for row in struct.iter_unpack(f"{len(PHASES)}d", told.rows)]


def children():
    return {int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}


def gone(pids):
    """Return whether none of them runs any more, at once or soon."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if not any(_runs(pid) for pid in pids):
            return True
        time.sleep(0.01)
    return False


def _runs(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.fixture(autouse=True)
def _no_child_is_left(port):
    before = children()
    yield
    assert children() <= before


@both_clients
@both_families
@pytest.mark.parametrize("workers", [2, 3])
def test_what_several_did_is_told_as_what_one_would_have(client, address, workers, port):
    told = load(spec(port, address, client=client, workers=workers))
    rows = rows_of(told)
    assert told.failed == {}
    assert len(rows) == told.attempted == 123
    for number in range(3):
        starts = [row["start"] for row in rows[41 * number : 41 * (number + 1)]]
        assert starts == sorted(starts)
        assert starts[0] >= 0
    assert all(0 < row["connect"] <= row["first_byte"] <= row["total"] < 10 for row in rows)
    assert told.families == ["AF_INET6" if ":" in address else "AF_INET"]
    assert told.peers == {address: 123}
    assert told.sources == [address]
    assert 0 < told.burst_cpu_s < told.cpu_s
    assert told.wall_s == pytest.approx(
        sum(max(row["start"] + row["total"] for row in rows[41 * at : 41 * (at + 1)]) for at in range(3))
    )
    assert 1 <= told.peak <= 41
    assert told.lag_s > 0


@pytest.mark.parametrize(("connections", "processors", "used"), [(4, 1, 1), (4, 8, 3), (2, 8, 2)])
def test_of_processors_it_uses_no_more_than_there_are(connections, processors, used, port, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(processors)))
    assert load(spec(port, connections=connections, workers=3, bursts=1)).processors == used


def test_there_are_no_more_workers_than_connections(port):
    told = load(spec(port, connections=1, workers=8))
    assert told.failed == {}
    assert told.attempted == 3
    assert told.peak == 1


@both_clients
def test_the_arrivals_of_an_open_burst_are_shared(client, port):
    told = load(spec(port, client=client, rate_per_s=500.0, pattern="5/6/7", bursts=1))
    assert told.failed == {}
    rows = rows_of(told)
    assert [row["start"] for row in rows] == pytest.approx(arrivals(41, 500.0, "5/6/7/0"), abs=1e-9)
    assert all(row["behind"] >= 0 for row in rows)


def test_every_account_is_used_and_every_question_numbered_once(port):
    del port
    with silent_socket() as silent:
        asked = spec(9, resolver="127.0.0.1", resolver_port=silent.getsockname()[1], name="a.test", deadline_s=0.3,
                      connections=20, bursts=2, ident=65530, workers=3)  # fmt: skip
        told = load(asked)
        silent.settimeout(0)
        idents = Counter(int.from_bytes(silent.recv(2048)[:2], "big") for _ in range(40))
    assert told.failed == {"dns deadline": 40}
    assert idents == Counter(ident & 0xFFFF for ident in range(65530, 65530 + 40))


def test_failures_of_all_are_counted_together():
    with refusing_port() as refusing:
        told = load(spec(refusing, bursts=10))
    assert (told.attempted, told.failed, told.rows) == (123, {"connect refused": 123}, b"")


@pytest.fixture
def deaf():
    """Return the port of a server that sends nothing."""
    with silent_listener() as port:
        yield port


@both_clients
def test_a_worker_that_dies_is_a_broken_instrument(client, deaf):
    before = children()

    def kill():
        while len(born := children() - before) < 2:
            time.sleep(0.01)
        time.sleep(0.2)
        os.kill(max(born), signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    with pytest.raises(AgentError, match=r"^worker \d of 2 was killed by signal 9 during a run$"):
        load(spec(deaf, client=client, deadline_s=5.0))
    thread.join()


def test_a_worker_that_breaks_says_why(deaf, monkeypatch):
    def breaks(*_):
        raise ValueError("no such thing")

    monkeypatch.setattr("pytest_ipperf.agent.load.worker.LoadWorker.burst", breaks)
    with pytest.raises(AgentError, match=r"^worker [12] of 2 broke: ValueError: no such thing$"):
        load(spec(deaf))


def test_a_signal_to_the_agent_ends_its_workers(deaf):
    ended, here = threading.Event(), children()

    def leave(*_):
        if not ended.is_set():
            raise SystemExit(7)

    def knock():
        # Before there are workers, the signal would prove nothing. Repeated seldom: an exception that is raised in a
        # callback of the interpreter is lost, and a second one would break off the ending of the workers.
        while len(children() - here) < 2:
            time.sleep(0.01)
        while not ended.wait(0.2):
            os.kill(os.getpid(), signal.SIGTERM)
            ended.wait(10)

    # An exception raised in a callback of the garbage collector, as hypothesis has one, is lost, and printed.
    gc.disable()
    before = signal.signal(signal.SIGTERM, leave)
    knocking = threading.Thread(target=knock, daemon=True)
    knocking.start()
    try:
        # Without the signal, the load would go on until its deadline, and return.
        with pytest.raises(SystemExit, match="7"):
            load(spec(deaf, deadline_s=60.0))
    finally:
        ended.set()
        knocking.join()
        signal.signal(signal.SIGTERM, before)
        gc.enable()


@pytest.mark.parametrize("busy", [True, False])
def test_workers_do_not_outlive_an_agent_that_is_killed(busy, deaf):
    there, here = os.pipe()
    agent = os.fork()
    if not agent:
        try:
            pool = WorkerPool(spec(deaf, deadline_s=60.0))
            os.write(here, b"%s\n" % " ".join(map(str, children())).encode())
            if busy:
                pool.prepare(0)
                pool.run()
            time.sleep(60)
        finally:
            os._exit(0)
    os.close(here)
    with os.fdopen(there) as told:
        pids = [int(pid) for pid in told.readline().split()]
        time.sleep(0.2)
        assert len(pids) == 2
        assert all(_runs(pid) for pid in pids)
        os.kill(agent, signal.SIGKILL)
        os.waitpid(agent, 0)
        assert gone(pids)


def test_the_most_at_once_is_found_from_what_overlaps():
    def row(start, connect, total):
        return tuple({"start": start, "connect": connect, "total": total}.get(name, 0.0) for name in PHASES)

    assert peak_concurrency([]) == 0
    assert peak_concurrency([row(0, 1, 2), row(2, 0, 1)]) == 1  # one ends as the other begins
    assert peak_concurrency([row(0, 1, 3), row(0, 2, 4), row(1, 1.5, 3), row(3.5, 1, 2)]) == 3
