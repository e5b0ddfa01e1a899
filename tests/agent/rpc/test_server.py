"""A real agent at the end of a real execnet channel: it replies, survives bad calls, and leaves nothing."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import platform
import queue
import re
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import execnet
import pytest

from pytest_ipperf.agent.kernel.processes import survivors, tree
from pytest_ipperf.agent.load.silence import PROGRESS, PROGRESS_S
from pytest_ipperf.agent.load.spec import LoadSpec
from pytest_ipperf.agent.rpc import server
from pytest_ipperf.agent.rpc.codec import encoded
from pytest_ipperf.agent.rpc.handlers import HANDLERS
from pytest_ipperf.agent.rpc.messages import RunEnd, ServeRequest
from pytest_ipperf.agent.servers.containment import containment
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.lab.access import ACCESS_METHODS
from pytest_ipperf.lab.agents.bootstrap import BOOT, start_agent
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from tests.support.servers.udp import silent_socket

SERVED = encoded(
    ServeRequest,
    ServeRequest(
        protocol="smtp", addresses=["127.0.0.1", "::1"], ports=(20000, 29999), connections=10, payload_bytes=1000,
        zone={"mail.ipperf.test": ["127.0.0.1", "::1"]}, state=ServerState(), data="",
    ),
)  # fmt: skip


class Agent:
    """A lab's agent client with all its inside accessible."""

    def __init__(self, entry=()):
        self.group = execnet.Group()
        way = ACCESS_METHODS["local"].spec(BUILTIN["loopback"].client.settings, entry)
        gateway = self.group.makegateway(f"popen//python={way['python']}")
        self.channel = gateway.remote_exec(BOOT)
        self.hello = dataclasses.asdict(start_agent(self.channel, 20))
        line: Any = gateway._io
        self.line = line
        self.pid = line.popen.pid

    def call(self, name, *arguments):
        self.channel.send((name, arguments))
        return self.channel.receive(30)

    def processes(self):
        return [process for level in tree(self.pid) for process in level]


@pytest.fixture(autouse=True)
def _own_tmpdir(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))


@pytest.fixture
def agent():
    made = Agent()
    everything = made.processes()
    yield made
    everything += made.processes()
    made.group.terminate(timeout=5)
    assert gone(everything)


@pytest.fixture
def silent():
    """Return the port of a name server that sends nothing."""
    with silent_socket() as sock:
        yield sock.getsockname()[1]


def gone(processes):
    return becomes(lambda: not survivors(processes))


def becomes(true):
    end = time.monotonic() + 20
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def silent_load(port):
    """Return a load that would take half a minute."""
    spec = LoadSpec(
        protocol="smtp", client="lean", payload_bytes=1000, connections=3, bursts=1, ipver=4, resolver="127.0.0.1",
        resolver_port=port, name="mail.ipperf.test", port=9, source="127.0.0.1", deadline_s=30.0, ident=0,
    )  # fmt: skip
    return encoded(LoadSpec, spec)


def ended(agent, **asked):
    """Return the agent's report after a run."""
    word, report = agent.call("finish_run", encoded(RunEnd, RunEnd(**asked)))
    assert word == "ok"
    return report


def test_it_says_who_it_is(agent):
    ticks = agent.processes()[0].started_ticks
    who = {"pid": agent.pid, "started_ticks": ticks}
    assert agent.hello == {"python": platform.python_version(), "host": socket.gethostname(), **who}
    assert agent.call("hello") == ("ok", agent.hello)


@pytest.mark.parametrize("name", ["no_such_order", "_stack", "__class__"])
def test_an_unknown_order_is_answered_and_survived(agent, name):
    word, kind, sentence = agent.call(name)
    assert (word, kind) == ("error", "AgentError")
    assert name in sentence
    assert agent.call("hello") == ("ok", agent.hello)


def test_each_order_is_that_of_one_part():
    methods = [name for group in HANDLERS for name in vars(HANDLERS[group]) if name[0] != "_"]
    assert len(methods) == len(set(methods))


def test_an_order_that_breaks_is_told_with_its_place(agent):
    word, kind, sentence = agent.call("finish_run", encoded(RunEnd, RunEnd(captured=True)))  # of a run without captures
    assert (word, kind) == ("error", "AgentError")
    assert sentence.startswith("AttributeError: 'RunHandlers' object has no attribute '_capture' (")
    assert re.search(r"agent/rpc/handlers/runs\.py, line \d+\)$", sentence)
    assert agent.call("hello") == ("ok", agent.hello)


def test_trouble_of_the_testbed_is_one_sentence(agent):
    answer = agent.call("serve", {"nameserver": {**SERVED, "addresses": ["192.0.2.1"]}})
    assert answer[:2] == ("error", "LabError")
    assert answer[2].startswith("a server cannot listen on address 192.0.2.1: ")
    assert "\n" not in answer[2]
    assert agent.call("serve", {"nowhere": SERVED})[:2] == ("error", "UsageError")
    assert agent.call("hello") == ("ok", agent.hello)


def test_it_serves_measures_and_tells_what_goes_on(agent):
    assert agent.call("unusable")[1]["nameserver"] == ""
    served = agent.call("serve", {"nameserver": SERVED})[1]["nameserver"]
    assert 20000 <= served["port"] <= 29999
    assert platform.python_version() in served["version"]
    _, fits = agent.call("fits", "::1", served["port"], "mail.ipperf.test", (65536, 65537))
    assert fits == {65536: "yes", 65537: "too big"}
    _, route = agent.call("route", "::1")
    assert route["device"] == "lo"
    word, result = agent.call("load", {**silent_load(served["port"]), "deadline_s": 5.0})
    assert word == "ok"
    assert result["failed"] == {"connect refused": 3}
    assert result["traffic"]["packets"]["ipv4"] >= 3
    after = ended(agent)
    assert (after["busy"], after["broken"]) == ([], [])


def test_servers_start_side_by_side(agent):
    requests = {"nameserver": SERVED, "null": {**SERVED, "protocol": "smtp", "zone": {}}}
    served = agent.call("serve", requests)[1]
    assert list(served) == list(requests)
    assert len({each["port"] for each in served.values()}) == 2
    assert ended(agent)["broken"] == []


def test_of_servers_started_side_by_side_one_that_cannot_start_is_named(agent):
    answer = agent.call("serve", {"nameserver": SERVED, "null": {**SERVED, "addresses": ["192.0.2.1"]}})
    assert answer[:2] == ("error", "LabError")
    assert answer[2].startswith("a server cannot listen on address 192.0.2.1: ")


def test_a_dead_server_is_told_in_a_sentence(agent):
    agent.call("serve", {"nameserver": SERVED})
    (server,) = (process for process in tree(agent.pid)[-1] if process.pid != agent.pid)
    os.kill(server.pid, signal.SIGKILL)
    assert gone([server])
    assert becomes(lambda: ended(agent)["broken"])
    assert ended(agent)["broken"] == ["nameserver was killed by signal 9; its log is empty"]


def test_a_server_that_runs_and_does_not_answer_is_told_in_a_sentence(agent):
    served = agent.call("serve", {"nameserver": SERVED})[1]["nameserver"]
    assert ended(agent, doubtful=True)["broken"] == []
    server = [process for process in tree(agent.pid)[-1] if process.pid != agent.pid][-1]
    os.kill(server.pid, signal.SIGSTOP)
    where = f"127.0.0.1 port {served['port']}"
    assert ended(agent, doubtful=True)["broken"] == [
        f"nameserver runs but does not answer on {where}: timed out; its log is empty"
    ]
    os.kill(server.pid, signal.SIGKILL)
    assert gone([server])
    dead = ["nameserver was killed by signal 9; its log is empty"]
    assert becomes(lambda: ended(agent, doubtful=True)["broken"] == dead)


def test_a_long_call_sends_keep_alives_between_its_bursts_and_a_short_one_none(agent, silent):
    def heard(bursts):
        """Return the failures that such a call tells, and how many keep-alives came before, none within a second."""
        load, begun = {**silent_load(silent), "bursts": bursts, "deadline_s": 0.7}, time.monotonic()
        agent.channel.send(("load", (load,)))
        said = [agent.channel.receive(30)]
        while said[-1] == PROGRESS:
            said.append(agent.channel.receive(30))
        assert len(said) - 1 <= (time.monotonic() - begun) / PROGRESS_S  # a machine that is held up makes any call long
        return said[-1][1]["failed"], len(said) - 1

    failed, keep_alives = heard(3)
    assert failed == {"dns deadline": 9}
    assert keep_alives >= 1
    assert heard(1)[0] == {"dns deadline": 3}


def test_it_binds_itself_to_processors_that_it_may_use(agent):
    (first, *_) = allowed = sorted(os.sched_getaffinity(0))
    assert agent.call("pin", [first, 100_000])[1] == [first]
    assert os.sched_getaffinity(agent.pid) == {first}
    assert agent.call("pin", [100_000])[1] == [first]
    assert agent.call("pin", allowed)[1] in (allowed, [first])


def test_the_lease_is_held_until_the_agent_ends(own_network):
    """In a separate network, as someone may be measuring on this machine."""
    with contextlib.ExitStack() as stack:
        first = Agent(own_network)
        stack.callback(first.group.terminate, timeout=5)
        assert first.call("lease", "job", 0.0) == ("ok", "")
        assert first.call("lease", "job", 0.0) == ("ok", "")
        user = ["--user", "--preserve-credentials"] if "--user" in own_network else []
        second = Agent(["nsenter", "--target", str(first.pid), *user, "--net"])
        stack.callback(second.group.terminate, timeout=5)
        assert f"process {first.pid} of user" in second.call("lease", "another job", 0.0)[1]
        first.line.popen.kill()
        assert second.call("lease", "another job", 5.0) == ("ok", "")


def test_who_waits_for_the_lease_gets_it_when_all_is_undone_and_what_stays_is_marked(
    own_network, tmp_path, monkeypatch
):
    monkeypatch.setenv("IPPERF_RUN", str(tmp_path / "run"))
    with contextlib.ExitStack() as stack:
        first = Agent(own_network)
        stack.callback(first.group.terminate, timeout=5)
        assert first.call("lease", "job", 0.0) == ("ok", "")
        (folder,) = tmp_path.glob("ipperf-*")
        (folder / "data").mkdir()
        user = ["--user", "--preserve-credentials"] if "--user" in own_network else []
        there = ["nsenter", "--target", str(first.pid), *user, "--net"]
        subprocess.run([*there, "--mount", "mount", "-t", "tmpfs", "none", folder / "data"], check=True)
        second = Agent(there)
        stack.callback(second.group.terminate, timeout=5)
        said = f"private folder {folder} cannot be removed: Device or resource busy: data"
        assert first.call("shut_down") == ("ok", [said])
        assert f"process {first.pid} of user" in second.call("lease", "another job", 0.0)[1]
        first.group.terminate(timeout=5)
        assert second.call("lease", "another job", 5.0) == ("ok", "")
        assert second.call("dirty_reason")[1].endswith(f": {said}")


def test_an_idle_agent_never_blocks_long_as_a_signal_may_come_just_before(monkeypatch):
    """Then Python would run its handler at the next call only. It is met once in some 20,000 signals."""
    monkeypatch.setattr(server, "_BLOCKS_S", 0.01)
    calls: queue.SimpleQueue[Any] = queue.SimpleQueue()
    looks = []

    class Calls:
        def get(self, timeout):
            looks.append(timeout)
            if len(looks) == 3:
                calls.put(("hello", ()))
            return calls.get(timeout=timeout)

    waiting: Any = Calls()
    assert server._next_call(waiting) == ("hello", ())
    assert looks == [0.01] * 3


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "in the midst of a call"])
@pytest.mark.parametrize("how", ["line", "terminate", "SIGTERM", "SIGKILL"])
def test_nothing_is_left_however_it_ends(agent, tmp_path, how, busy):
    with silent_socket() as silent:
        agent.call("serve", {"nameserver": SERVED})
        assert len(list(tmp_path.iterdir())) == 1
        everything = agent.processes()
        assert len(everything) > 1
        if busy:
            agent.channel.send(("load", (silent_load(silent.getsockname()[1]),)))
            assert silent.recv(1000)  # the load has begun
        if how == "line":
            agent.line.close_write()
        elif how == "terminate":
            agent.group.terminate(timeout=5)
        else:
            os.kill(agent.pid, getattr(signal, how))
            if how == "SIGTERM":  # the channel is open; all that the agent started has to be gone
                everything = everything[1:]
        assert gone(everything)
        if how != "SIGKILL":
            assert becomes(lambda: not list(tmp_path.iterdir()))
        elif containment().signal == "KILL":
            (left,) = tmp_path.iterdir()
            assert left.name.startswith("ipperf-")


def test_the_next_agent_removes_what_a_killed_one_has_left_and_tells_who_repairs(agent, tmp_path, monkeypatch):
    monkeypatch.setenv("IPPERF_RUN", str(tmp_path / "run"))
    agent.line.popen.kill()
    agent.line.popen.wait()
    (left,) = tmp_path.iterdir()
    aged = time.time() - 60
    os.utime(Path(left) / ".lock", (aged, aged))
    second = Agent()
    try:
        assert not left.exists()
        said = ["removed 1 private folder, left by agents that are gone"]
        assert second.call("repair", False) == ("ok", said)  # noqa: FBT003 - calls have no keywords
    finally:
        second.group.terminate(timeout=5)
