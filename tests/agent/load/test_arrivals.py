"""Open-loop bursts of both clients: each connection at its own instant, independent of the others."""

from __future__ import annotations

import contextlib
import random
import statistics
import struct
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
from tests.support.servers.mail import serve_mail
from tests.support.servers.stalling import StallingServer
from tests.support.servers.tcp import StreamServer, silent_listener

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


@both_clients
def test_a_stall_of_the_server_is_in_the_figures_of_all_who_came_in_it(client):
    """Under coordinated omission one figure would be long and the others short."""
    page = b"HTTP/1.1 200 OK\r\n\r\n" + application("http").content(1000)
    with StallingServer("127.0.0.1", page, STALLED, 0.5, others=60) as server:
        told = load(spec(server.port, connections=200, bursts=1, client=client))
    rows = rows_of(told)
    assert told.failed == {}
    assert server.came == 60  # no connection was prevented
    rows.sort(key=lambda row: row["start"] + row["behind"])  # in the order in which they really began
    stalled, came = rows[STALLED - 1], rows[STALLED : STALLED + 60]
    end = stalled["start"] + stalled["behind"] + 0.5  # the stall began when that connection came, or later
    assert all(row["start"] + row["total"] > end for row in came)  # and none was served before its end
    assert statistics.median(row["start"] for row in came) < end


def test_a_stall_of_the_client_is_in_the_figures_too(null, monkeypatch):
    kind = application("http").conversation(ServerState(b"x"), 0, 4).__class__
    begun: Counter[str] = Counter()
    first_bytes = kind.first_bytes

    def stalls(self):
        begun["times"] += 1
        if begun["times"] == 10:
            time.sleep(0.3)
        return first_bytes(self)

    monkeypatch.setattr(kind, "first_bytes", stalls)
    rows = rows_of(load(spec(null["http"], bursts=1, rate_per_s=100.0)))
    behind = [row for row in rows if row["behind"] > 0.1]
    assert behind
    assert all(row["total"] > row["connect"] > row["behind"] for row in behind)


@both_clients
def test_the_deadline_is_each_connections_own(client):
    with silent_listener() as port:
        asked = spec(port, connections=10, bursts=1, rate_per_s=20.0, deadline_s=0.5, client=client)
        begun = time.monotonic()
        told = load(asked)
    assert told.failed == {"talk deadline": 10}
    assert time.monotonic() - begun >= arrivals(10, 20.0, "1/2/3/0")[-1] + 0.5


@both_clients
def test_sessions_are_not_held(client):
    seen: list[tuple[str, int]] = []

    def talk(conn, number):
        def note(line):
            if line == b"QUIT\r\n":
                seen.append(("left", number))

        seen.append(("came", number))
        serve_mail(conn, note=note)

    with StreamServer("127.0.0.1", talk) as server:
        told = load(spec(server.port, protocol="smtp", connections=10, bursts=1, rate_per_s=8.0, client=client))
    assert told.failed == {}
    # On a machine that is held up it is not always the first one that leaves so early.
    assert "left" in [what for what, _ in seen[: seen.index(("came", 9))]]
