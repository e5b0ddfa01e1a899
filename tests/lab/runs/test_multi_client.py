"""Several clients: one run split up, started together, proven and failing separately, and reported as one."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import statistics
import struct
import subprocess
import threading
from collections import Counter
from ipaddress import IPv4Address
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.agent.load.arrivals import arrivals
from pytest_ipperf.agent.load.spec import LoadSpec
from pytest_ipperf.agent.load.worker import LoadWorker
from pytest_ipperf.agent.paths.clock_sync import ClockState
from pytest_ipperf.core.design.cell import Arm, Workload
from pytest_ipperf.core.portable.errors import AgentError, LabError
from pytest_ipperf.lab.agents import clocks
from pytest_ipperf.lab.agents.client import AgentClient
from pytest_ipperf.lab.agents.clocks import HostClock
from pytest_ipperf.lab.epoch import build
from pytest_ipperf.lab.epoch.live_testbed import live_testbed
from pytest_ipperf.lab.inventory.builtin import lab
from pytest_ipperf.lab.inventory.model import Host
from pytest_ipperf.lab.netns.namespaces import unusable
from pytest_ipperf.lab.runs import multi_client
from pytest_ipperf.lab.runs.multi_client import SKEW, split_spec
from pytest_ipperf.protocols.base import PHASES
from tests.support.attempts import lasting

ARMS = [Arm(4, "native"), Arm(6, "native")]
AHEAD_S = 86400
BURSTS = 9
START, TOTAL = PHASES.index("start"), PHASES.index("total")


def several(count):
    """Make a lab with this number of clients."""
    return lab("crowd", 3, clients=count)


def work(connections, **changed):
    plain = Workload(
        testbed="crowd", protocol="http", client="lean", connections=connections, payload_bytes=1000
    )  # fmt: skip
    return dataclasses.replace(plain, **changed)


@pytest.fixture
def up(processes, tmp_path, monkeypatch):
    """Set up labs with this number of clients until the test ends, and check that nothing is left of them."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with contextlib.ExitStack() as stack:

        def standing_of(count):
            if why := unusable():
                pytest.skip(f"the lab cannot be built here: {why}")
            live = stack.enter_context(live_testbed(several(count), f"test {os.getpid()}", 1.0, lambda _: None))
            for agent in live._agents.values():
                assert agent._process
                processes.below(agent._process.pid)
            return live

        yield standing_of
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def elsewhen(monkeypatch):
    """Set the second client's CLOCK_MONOTONIC a day ahead of all others."""

    def agent(host, entry=(), *, fork=None):
        words = ("unshare", "--time", "--monotonic", str(AHEAD_S), "--fork", "--kill-child")
        if host.name == "client2":  # a new process, as a fork would have the clock of the others
            return AgentClient(host, (*entry, *words))
        return AgentClient(host, entry, fork=fork)

    monkeypatch.setattr(build, "AgentClient", agent)


def spec(**changed):
    settings = {
        "protocol": "smtp", "client": "lean", "payload_bytes": 1000, "connections": 10, "bursts": 3, "ipver": 4,
        "resolver": "", "resolver_port": 0, "name": "127.0.0.1", "port": 9, "source": "", "deadline_s": 10.0,
        "ident": 65530, "first_index": 7,
    }  # fmt: skip
    return LoadSpec(**{**settings, **changed})


# --- shares ---------------------------------------------------------------------------------------------------------


@given(st.integers(1, 40), st.integers(1, 5), st.integers(1, 4), st.integers(0, 2))
def test_shares_are_the_connections_of_one_client_split_up(connections, clients, workers, number):
    """Each query, account and arrival belongs to one connection of one host, as with a single host."""
    whole = spec(connections=connections, resolver="127.0.0.1", name="a.test", rate_per_s=50.0, pattern="p")
    sources = {f"client{number}": f"127.0.0.{number}" for number in range(1, clients + 1)}
    parts = split_spec(whole, sources)
    assert list(parts) == list(sources)[:connections]
    found = []
    for role, part in parts.items():
        assert (part.source, part.connections) == (sources[role], connections)
        several_workers = min(workers, part.connection_count)
        bursts = [LoadWorker(part, worker, several_workers).burst(number) for worker in range(several_workers)]
        assert part.connection_count == sum(len(burst.connections) for burst in bursts)
        found += [_what(burst) for burst in bursts]
    alone = LoadWorker(whole).burst(number)
    assert sorted(each for some in found for each in some) == sorted(_what(alone))
    starts = sorted(start for some in found for *_, start in some)
    assert starts == arrivals(connections, 50.0, f"p/{number}")


def _what(burst):
    burst.epoll.close()
    texts = [each.query for each in burst.connections]
    return list(zip(texts, burst._timers._starts, strict=True))


# --- runs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("client", ["lean", "library"])
def test_what_several_did_is_told_as_what_one_would_have(up, client):
    live = up(3)
    for connections, expected in ((7, [3, 2, 2]), (2, [1, 1]), (1, [1])):
        job = work(connections, client=client)
        service = live.serve(job, "embedded")
        for arm in ARMS:
            assert live.prove(arm, service, job)["contradictions"] == []
            run_result = live.run(arm, service, job, bursts=2, deadline_s=10.0)
            assert (run_result.data.attempted, run_result.data.failed, run_result.data.row_count) == (
                2 * connections,
                {},
                2 * connections,
            )
            assert run_result.violations == ()
            assert not [note for note in run_result.notes if "began a burst" not in note]  # as it may on a busy machine
            reported = run_result.proof
            roles = list(live._testbed.clients)[: len(expected)]
            own = [live._testbed.roles[role].address(arm.ipver) for role in roles]
            assert reported["sources"] == sorted(own)
            assert reported["peers"] == {live._testbed.server.address(arm.ipver): 2 * connections}
            assert list(reported["protocol41"]) == [*roles, "server", "router"]
            if connections == 1:
                assert "clients" not in reported
                assert run_result.data.facts == {}
                continue
            each = reported["clients"]
            assert [each[role]["attempted"] for role in roles] == [2 * count for count in expected]
            assert [each[role]["sources"] for role in roles] == [[address] for address in own]
            assert reported["packets"] == {
                name: sum(one["packets"][name] for one in each.values()) for name in ("ipv4", "ipv6")
            }
            assert reported["lag_s"] == max(one["lag_s"] for one in each.values())
            assert run_result.client
            assert run_result.client.connections in {one["attempted"] for one in each.values()}
            assert run_result.data.facts["start_skew_error_s"] == 0  # all clocks are one
            assert not set(SKEW) & set(reported)
            rows = list(run_result.data.rows())
            for burst in (rows[:connections], rows[connections:]):
                assert [row[START] for row in burst] == sorted(row[START] for row in burst)
            assert reported["wall_s"] >= max(row[START] + row[TOTAL] for row in rows)


def test_workers_and_arrivals_are_spread_too(up):
    live, job = up(2), work(9, rate_per_s=200.0, workers=2)
    service = live.serve(job, "embedded")
    run_result = live.run(ARMS[0], service, job, bursts=2, deadline_s=10.0, pattern="5/6/7")
    assert (run_result.data.attempted, run_result.data.failed, run_result.violations) == (18, {}, ())
    assert run_result.proof["processors"] <= 4
    rows = list(run_result.data.rows())
    for number in range(2):
        found = [row[START] for row in rows[9 * number : 9 * (number + 1)]]
        assert found == pytest.approx(arrivals(9, 200.0, f"5/6/7/{number}"), abs=1e-6)


def test_accounts_are_verified_and_the_floor_is_found(up):
    live, job = up(2), work(5, protocol="smtp")
    service = live.serve(job, "embedded", dataclasses.replace(live._servers.state, users=11, password="secret"))
    assert " holds its 11 accounts" in live.verify(ARMS[0], service, job, 10.0)
    run_result = live.baseline_cost(ARMS[0], service, job, bursts=3, deadline_s=10.0)
    assert (run_result.data.attempted, run_result.data.failed, run_result.violations) == (15, {}, ())


def test_one_client_gets_a_single_load_call(monkeypatch):
    said = []

    class Only:
        def within(self, *_):
            return self

        def load(self, spec):
            said.append(spec)
            return "its result"

    only = split_spec(spec(source="127.0.0.1"), {"client": "127.0.0.1"})
    found: Any = multi_client.run_load(only, {"client": Only()}, Only())  # type: ignore[dict-item, arg-type]
    assert (found.total, found.by_role) == ("its result", {"client": "its result"})
    assert said == [spec(source="127.0.0.1")]


# --- by hosts made up -----------------------------------------------------------------------------------------------


class Made:
    """A host's agent: each of its bursts completes, and takes a fixed time on a made-up clock."""

    now_ns = 10**12

    def __init__(self, *, stamp_s=0.0, burst_s=0.001):
        self.host = Host(name="made", way="local", settings={"node": "client"})
        self.begun, self.ahead_s = [], []
        self._stamp_s, self._burst_s = stamp_s, burst_s

    def clock(self):
        return ClockState({"boot": "another"}, 5.0, 7.0)

    def stamp(self):
        half_ns = int(self._stamp_s * 1e9) // 2
        Made.now_ns += 2 * half_ns
        return Made.now_ns - half_ns, Made.now_ns - half_ns

    @property
    def load_ready(self):
        return self._asking(lambda _: None)

    @property
    def load_start(self):
        return self._asking(self._start)

    def _asking(self, answer):
        reply = SimpleNamespace
        return SimpleNamespace(request=lambda *asked: reply(connection=self, result=lambda *_: answer(*asked)))

    def _start(self, number, instants_ns):
        self.begun.append((number, len(instants_ns)))
        self.ahead_s.append((instants_ns[0] - Made.now_ns) * 1e-9)
        return [(True, self._burst_s) for _ in instants_ns]


@pytest.fixture
def made_up(monkeypatch):
    """Make a run of such hosts, ready for its bursts."""
    clock = SimpleNamespace(monotonic_ns=lambda: Made.now_ns)
    monkeypatch.setattr(multi_client, "time", clock)
    monkeypatch.setattr(clocks, "time", clock)

    def run(bursts, *hosts):
        agents = {f"client{number}": host for number, host in enumerate(hosts)}
        each = {role: spec(bursts=bursts) for role in agents}
        clocks_of = {role: HostClock(agent) for role, agent in agents.items()}
        return multi_client.SynchronisedRun(each, agents, Made(), clocks_of)  # type: ignore[arg-type]

    return run


def test_the_instant_lies_ahead_also_where_clocks_had_to_be_looked_at_first(made_up):
    """The connections are so slow that sampling a clock takes longer than the time until the start."""
    slow, slower = Made(stamp_s=0.01), Made(stamp_s=0.02)
    run = made_up(1, slow, slower)
    Made.now_ns += 2 * 10**9
    run._make()
    assert [len(clock.samples) for clock in run.clocks.values()] == [2, 2]
    assert [slow.ahead_s, slower.ahead_s] == [[pytest.approx(0.01 + 2 * 0.02, abs=1e-6)]] * 2


def test_short_bursts_follow_each_other_without_a_word_in_between(made_up):
    """Half a second holds as many bursts as twice the slowest host's time plus 5 ms allow; the first one is alone."""
    slow, slower = Made(burst_s=0.01), Made(burst_s=0.02)
    made_up(30, slow, slower)._make()
    assert slow.begun == slower.begun == [(0, 1), (1, 11), (12, 11), (23, 7)]


# --- the common start -----------------------------------------------------------------------------------------------


def first_packets(pcap, port):
    """Return, by source, when the first query of each burst reached the name server."""
    found: dict[str, list[float]] = {}
    at = 24
    while at < len(pcap):
        seconds, nanoseconds, kept, _ = struct.unpack_from("=IIII", pcap, at)
        frame, at = pcap[at + 16 : at + 16 + kept], at + 16 + kept
        if frame[12:14] == b"\x08\x00" and frame[23] == 17 and frame[36:38] == port.to_bytes(2, "big"):
            found.setdefault(str(IPv4Address(frame[26:30])), []).append(seconds + nanoseconds * 1e-9)
    return found


@pytest.mark.usefixtures("elsewhen")
@pytest.mark.parametrize("apart_s", [0.0, 0.05])
def test_what_is_told_of_the_start_is_what_the_servers_device_sees(up, monkeypatch, apart_s):
    """The clients have clocks of their own, and one is made to start late."""
    live, job = up(2), work(2)
    service = live.serve(job, "embedded")
    there = HostClock.to_remote

    def later(self, here_ns):
        return there(self, here_ns) + (0 if self.is_local else int(apart_s * 1e9))

    monkeypatch.setattr(HostClock, "to_remote", later)

    def attempt():
        run_result = live.run(ARMS[0], service, job, bursts=BURSTS, deadline_s=10.0, capture=1000)
        assert (run_result.data.failed, run_result.violations) == ({}, ())
        seen = first_packets(run_result.captures["server"], service.resolver_port)
        asked = [len(each) for each in seen.values()]
        if max(asked) > BURSTS:  # a name server that was held up for a second is asked again
            return None
        assert asked == [BURSTS, BURSTS]
        clients = run_result.proof["clients"]
        reported = [two - one for one, two in zip(*(each["began_s"] for each in clients.values()), strict=True)]
        truth = [two - one for one, two in zip(seen["198.18.0.1"], seen["198.18.2.1"], strict=True)]
        assert run_result.data.facts["start_skew_s"] == pytest.approx(max(map(abs, reported)))
        error_s = run_result.data.facts["start_skew_error_s"]
        assert error_s > 0
        # Between the clock's word and the packet lies what the host was doing, now and then for long.
        off_s = statistics.median(abs(one - other) for one, other in zip(reported, truth, strict=True))
        median_s = statistics.median(reported)
        bounds = {"clocks": (error_s, 0.05), "packets": (off_s, error_s + 0.005),
                  "apart": (abs(median_s - apart_s), error_s + 0.01)}  # fmt: skip
        return {name: pair for name, pair in bounds.items() if not pair[0] < pair[1]}

    # What else goes on in a machine passes; what a clock has wrong stays.
    assert not lasting(found for _ in range(5) if (found := attempt()) is not None)


def test_who_began_late_is_told(up, monkeypatch):
    live, job = up(2), work(4)
    service = live.serve(job, "embedded")
    there = HostClock.to_remote

    def later(self, here_ns):
        return there(self, here_ns) + (5 * 10**8 if self._host == "client2" else 0)

    monkeypatch.setattr(HostClock, "to_remote", later)
    run_result = live.run(ARMS[0], service, job, bursts=1, deadline_s=10.0)
    assert (run_result.data.failed, run_result.violations) == ({}, ())
    words = [note.split() for note in run_result.notes if note.startswith("host client2 began a burst ")]
    assert [each[6:] for each in words] == [["ms", "after", "the", "first", "host"]]
    assert float(words[0][5]) > 100  # where the other one is held up itself, on a busy machine


# --- trouble --------------------------------------------------------------------------------------------------------


def agent_of(live, role):
    """Return the last process that its connection leads to, as seen here."""
    last, children = 0, [live._agents[role]._process.pid]
    while children:
        last = children[0]
        children = [int(each) for each in Path(f"/proc/{last}/task/{last}/children").read_text().split()]
    return last


def inside(live, role, words):
    pid = str(agent_of(live, role))
    subprocess.run(["nsenter", "--target", pid, "--net", "--mount", "sh", "-ec", words], check=True)


def test_failures_of_one_clients_share_are_counted(up):
    live, job = up(2), work(7)
    service = live.serve(job, "embedded")
    inside(live, "client2", "ip route replace unreachable 198.18.1.0/24")
    run_result = live.run(ARMS[0], service, job, bursts=2, deadline_s=10.0)
    assert (run_result.data.attempted, run_result.data.row_count) == (14, 8)
    assert sum(run_result.data.failed.values()) == 6
    assert run_result.proof["clients"]["client"]["failed"] == {}
    assert run_result.proof["clients"]["client2"]["failed"] == run_result.data.failed
    # One that reaches nothing ends no run early, as long as the others do.
    assert live.run(ARMS[0], service, job, bursts=5, deadline_s=10.0).data.attempted == 35


def test_a_run_of_which_nobody_completes_anything_ends_early(up):
    live, job = up(2), work(4)
    service = dataclasses.replace(live.serve(job, "embedded"), port=9)
    run_result = live.run(ARMS[0], service, job, bursts=20, deadline_s=10.0)
    assert (run_result.data.attempted, dict(run_result.data.failed), run_result.data.row_count) == (
        12,
        {"connect refused": 12},
        0,
    )


@pytest.mark.parametrize("soon", [False, True])
def test_a_server_that_dies_in_a_series_costs_three_deadlines(up, monkeypatch, soon):
    """If the first client learns of it `soon`, it finishes the whole series before the other makes a burst."""
    live, job = up(2), work(4)
    service = live.serve(job, "embedded")
    monkeypatch.setattr(multi_client, "_SERIES_S", 60.0)  # so that all after the first burst are one series
    begun = multi_client.SynchronisedRun._begun

    def dying(self, roles, number, count, every_s):
        del every_s
        if number == 1:
            inside(live, "server", "ip route add blackhole 198.18.2.1/32; ip route add blackhole 198.18.0.1/32")
            if soon:
                inside(live, "client", "ip route replace unreachable 198.18.1.0/24")
        return begun(self, roles, number, count, 0.05)

    monkeypatch.setattr(multi_client.SynchronisedRun, "_begun", dying)
    run_result = live.run(ARMS[0], service, job, bursts=20, deadline_s=1.0)
    clients = run_result.proof["clients"]
    made = {role: len(each["began_s"]) for role, each in clients.items()}
    assert made["client2"] == 4
    assert made["client"] >= 4 if soon else made["client"] == 4
    assert {role: each["attempted"] for role, each in clients.items()} == {
        role: 2 * each for role, each in made.items()
    }
    assert (run_result.data.attempted, sum(run_result.data.failed.values())) == (
        2 * sum(made.values()),
        2 * sum(made.values()) - 4,
    )
    assert (run_result.data.row_count, run_result.violations) == (4, ())


def test_a_client_that_dies_is_named(up):
    live, job = up(2), work(4)
    service = live.serve(job, "embedded")
    pid = agent_of(live, "client2")
    killing = threading.Timer(0.5, os.kill, (pid, signal.SIGKILL))
    killing.start()
    try:
        # Perhaps before the run is driven: its clocks are compared first.
        with pytest.raises(AgentError, match=r"^host client2: the agent died (during call '|while host client )"):
            live.run(ARMS[0], service, job, bursts=10000, deadline_s=30.0)
    finally:
        killing.cancel()
        killing.join()


def test_a_client_that_cannot_have_its_share_is_named_and_the_next_run_is_well(up):
    live, job = up(2), work(4)
    service = live.serve(job, "embedded")
    inside(live, "client2", "echo 30000 30001 > /proc/sys/net/ipv4/ip_local_port_range")
    sentence = "^host client2: 5 connections at once need as many ports, and there are 2 from 30000 to 30001 "
    pid = agent_of(live, "client")
    with pytest.raises(LabError, match=sentence):
        live.run(ARMS[0], service, work(10, workers=2), bursts=1, deadline_s=10.0)
    assert agent_of(live, "client") == pid  # whose workers are gone
    assert live.run(ARMS[0], service, job, bursts=1, deadline_s=10.0).data.failed == {}


def test_who_sent_from_elsewhere_is_named(up, monkeypatch):
    live, job = up(2), work(4)
    service = live.serve(job, "embedded")
    expected = live._expected

    def other(arm, workload, role="client"):
        found = expected(arm, workload, role)
        return dataclasses.replace(found, client="198.18.2.9") if role == "client2" else found

    monkeypatch.setattr(live, "_expected", other)
    run_result = live.run(ARMS[0], service, job, bursts=1, deadline_s=10.0)
    assert run_result.violations == ("host client2: expected connections from 198.18.2.9, seen from 198.18.2.1",)
    assert Counter(run_result.proof["sources"]) == {"198.18.0.1": 1, "198.18.2.1": 1}


def test_hosts_that_cannot_keep_up_make_what_they_lack_in_the_end(up, monkeypatch):
    """All bursts have the same instant, so each host goes on until it is too late, and is asked again."""
    live, job = up(2), work(4)
    service = live.serve(job, "embedded")
    begun, reported = multi_client.SynchronisedRun._begun, []

    def noted(self, roles, number, count, every_s):
        del every_s
        found = begun(self, roles, number, count, 0.0)
        reported.append((number, count, {role: len(each) for role, each in found.items()}))
        return found

    monkeypatch.setattr(multi_client.SynchronisedRun, "_begun", noted)
    run_result = live.run(ARMS[0], service, job, bursts=60, deadline_s=10.0)
    assert (run_result.data.attempted, run_result.data.failed, run_result.violations) == (240, {}, ())
    assert reported[0] == (0, 1, {"client": 1, "client2": 1})
    assert any(made < count for _, count, each in reported for made in each.values())
    clients = run_result.proof["clients"]
    assert [len(clients[role]["began_s"]) for role in clients] == [60, 60]
    assert run_result.data.row_count == 240
