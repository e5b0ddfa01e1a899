"""Real agents called by real clients: replies, one sentence for every way to die, and nothing left behind."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import socket
import subprocess
import threading
import time

import pytest

from pytest_ipperf.agent.facts.base import FactsRequest
from pytest_ipperf.agent.facts.leftovers import LeftoverFacts, MarkLeft, NoteLeft
from pytest_ipperf.agent.kernel.processes import tree
from pytest_ipperf.agent.load.spec import LoadSpec
from pytest_ipperf.agent.rpc.messages import ServeRequest
from pytest_ipperf.core.portable.errors import AgentError, LabError
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.lab.access import ACCESS_METHODS, base
from pytest_ipperf.lab.agents import client as client_module
from pytest_ipperf.lab.agents.client import AgentClient
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.lab.netns.namespaces import namespaces, unusable
from tests.support.servers.udp import silent_socket

HOST = BUILTIN["loopback"].server
DIED = "; its host went down, the link broke, or it was killed (by the kernel, when memory runs out)"
SILENT = "; its host hangs or is overloaded, the link is broken, or it was stopped"
SERVED = ServeRequest(
    protocol="smtp", addresses=["127.0.0.1"], ports=(20000, 29999), connections=10, payload_bytes=1000,
    state=ServerState(), data="", zone={"mail.ipperf.test": ["127.0.0.1"]},
)  # fmt: skip


@pytest.fixture(autouse=True)
def _own_tmpdir(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))


@pytest.fixture
def agent_on(processes):
    """Start agents; close them even if the test fails, and check that all their processes are gone then."""
    made = []

    def make(host=HOST, entry=()):
        made.append(AgentClient(host, entry))
        processes.below(pid_of(made[-1]))
        return made[-1]

    yield make
    for agent in made:
        processes.below(pid_of(agent))
        agent.close()


def pid_of(agent):
    """Return the process that was started here."""
    assert agent._process
    return agent._process.pid


def children():
    """Return the children of this process, zombies included."""
    return {process.pid for level in tree(os.getpid())[1:2] for process in level}


def long_call(agent, port, patience_s=30.0, *, bursts=1, deadline_s=30.0):
    """Make a call that waits half a minute, or that long for each burst, for a name server that does not answer."""
    spec = LoadSpec(
        protocol="smtp", client="lean", payload_bytes=1000, connections=1, bursts=bursts, ipver=4, port=9,
        resolver="127.0.0.1", resolver_port=port, name="mail.ipperf.test", source="127.0.0.1", deadline_s=deadline_s,
        ident=0,
    )  # fmt: skip
    return agent.within(patience_s).load(spec)


@pytest.fixture
def silent():
    """Run a name server that does not answer."""
    with silent_socket() as sock:
        yield sock


def refused(*arguments):
    """Return the error of an agent that does not start; it leaves no child of ours."""
    before = children()
    with pytest.raises(AgentError) as caught:
        AgentClient(*arguments)
    assert children() <= before
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


def test_an_order_is_answered(agent_on):
    agent = agent_on()
    hello = agent.hello()
    assert hello.pid == pid_of(agent)
    assert hello.host == socket.gethostname()
    assert agent.hello() == hello


def test_nothing_is_left_after_close(agent_on, tmp_path):
    before = children()
    with agent_on() as agent:
        agent.serve({"nameserver": SERVED})
        assert list(tmp_path.iterdir()) != []
        assert len(tree(pid_of(agent))) > 1
    assert children() <= before
    assert list(tmp_path.iterdir()) == []
    agent.close()  # twice is no error


def test_many_links_stand_at_once_and_leave_no_child(agent_on):
    before = children()
    agents = [agent_on() for _ in range(3)]
    assert len({agent.hello().pid for agent in agents}) == 3
    for agent in agents:
        agent.close()
    assert children() <= before


def test_trouble_there_arrives_as_a_lab_error_with_the_hosts_name(agent_on):
    agent = agent_on()
    with pytest.raises(LabError) as caught:
        agent.serve({"nameserver": dataclasses.replace(SERVED, addresses=["192.0.2.1"])})
    assert type(caught.value) is LabError
    assert str(caught.value).startswith("host server: a server cannot listen on address 192.0.2.1: ")
    assert agent.hello().pid


def test_a_fault_of_the_instrument_arrives_as_an_agent_error_with_its_place(agent_on):
    agent = agent_on()
    with pytest.raises(
        AgentError, match=r"^host server: AttributeError: .*no_such_handler.* \(.*agent/rpc/server.py, line \d+\)$"
    ):
        _ = agent.request("no_such_handler", ()), agent.result()
    assert agent.hello().pid


def test_an_agent_killed_in_the_midst_of_an_order_is_told_at_once(agent_on, silent):
    agent = agent_on()
    pid = pid_of(agent)

    def kill():
        silent.recv(1000)
        os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    with pytest.raises(AgentError) as caught:
        long_call(agent, silent.getsockname()[1])
    killer.join()
    # Only the time-out of half a minute has another sentence.
    assert str(caught.value) == f"host server: the agent died during call 'load'{DIED}"
    with pytest.raises(AgentError, match=r"^host server: the agent died during call 'load'"):
        agent.hello()


def test_an_agent_that_is_stopped_is_told_when_patience_ends_and_does_not_stay(agent_on, monkeypatch):
    monkeypatch.setattr(client_module, "_STOP_S", 0.5)
    before = children()
    agent = agent_on()
    agent.serve({"nameserver": SERVED})
    os.kill(pid_of(agent), signal.SIGSTOP)
    with pytest.raises(AgentError) as caught:
        agent.within(0.3).hello()
    assert str(caught.value) == f"host server: the agent sent no keep-alive for 0.3 s during call 'hello'{SILENT}"
    agent.close()
    assert children() <= before


def test_an_agent_that_takes_no_more_is_told_when_patience_ends(agent_on, monkeypatch):
    """A message larger than a pipe waits for a reader, and a stopped agent never reads."""
    monkeypatch.setattr(client_module, "_STOP_S", 0.5)
    agent = agent_on()
    os.kill(pid_of(agent), signal.SIGSTOP)
    with pytest.raises(AgentError) as caught:
        agent.within(0.3).unpack("0" * 64, bytes(3_000_000), [])
    assert str(caught.value) == f"host server: the agent sent no keep-alive for 0.3 s during call 'unpack'{SILENT}"
    assert agent.lost


def test_after_a_late_answer_no_order_can_be_mistaken_for_another(agent_on, silent):
    agent = agent_on()
    with pytest.raises(AgentError, match=r"no keep-alive for 0\.2 s during call 'load'"):
        long_call(agent, silent.getsockname()[1], patience_s=0.2)
    with pytest.raises(AgentError) as caught:
        agent.hello()
    assert str(caught.value) == f"host server: the agent sent no keep-alive for 0.2 s during call 'load'{SILENT}"


def test_patience_begins_anew_with_each_sign_of_life(agent_on, silent, monkeypatch):
    """The call takes longer than its time-out; it is given up only once the keep-alives stop."""
    monkeypatch.setattr(client_module, "_STOP_S", 0.5)
    agent = agent_on()
    began = time.monotonic()
    result = long_call(agent, silent.getsockname()[1], 3.0, bursts=3, deadline_s=1.05)
    assert time.monotonic() - began > 3.0
    assert result.failed == {"dns deadline": 3}
    silent.settimeout(0.0)
    with contextlib.suppress(BlockingIOError):
        while True:
            silent.recv(1000)
    silent.settimeout(None)

    def stop():
        """Stop the agent in its second burst, whose query comes from another socket than those of the first."""
        _, first = silent.recvfrom(1000)
        while silent.recvfrom(1000)[1] == first:
            pass
        os.kill(pid_of(agent), signal.SIGSTOP)

    stopping = threading.Thread(target=stop, daemon=True)
    stopping.start()
    began = time.monotonic()
    with pytest.raises(AgentError, match=r"no keep-alive for 3 s during call 'load'"):
        long_call(agent, silent.getsockname()[1], 3.0, bursts=3, deadline_s=1.05)
    assert time.monotonic() - began > 1.05 + 3.0  # a burst, and patience
    stopping.join()


PAUSED = """
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.lab.agents.client import AgentClient
with AgentClient(BUILTIN["loopback"].server) as agent:
    print(flush=True)
    for _ in range(3000):
        agent.within(1.0).hello()
"""


def test_a_pause_of_the_one_who_holds_the_link_is_not_held_against_the_agent(me):
    """Ctrl-Z at the terminal, or a debugger: all calls are answered, however often they were interrupted."""
    with subprocess.Popen(me.argv(PAUSED), env=me.env, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout
        owner.stdout.readline()
        for _ in range(3):
            owner.send_signal(signal.SIGSTOP)
            time.sleep(1.3)
            owner.send_signal(signal.SIGCONT)
            time.sleep(0.05)
    assert owner.returncode == 0


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (["/nowhere/nsenter"], "[Errno 2] No such file or directory: '/nowhere/nsenter'"),
        (["sh", "-c", "echo no such node >&2; exit 3"], "no such node (exit status 3)"),
        (["sh", "-c", "exit 3"], "no message (exit status 3)"),
        (["true"], "what was started there ended before it answered; it must be a Python"),
        (["cat"], "Try 'cat --help' for more information. (exit status 1)"),
    ],
)
def test_what_is_no_python_is_told_in_the_hosts_words(entry, words):
    begun = time.monotonic()
    assert refused(HOST, entry) == f"host server: no agent could be started by access method local: {words}"
    assert time.monotonic() - begun < client_module._START_HERE_S  # the deadline was not waited for


def test_what_a_host_says_is_told_without_what_a_terminal_would_obey():
    with pytest.raises(AgentError) as caught:
        AgentClient(HOST, ["sh", "-c", "printf '\\033[2J\\033]0;owned\\007gone\\n' >&2; exit 3"])
    assert str(caught.value).endswith(": ?[2J?]0;owned?gone (exit status 3)")


def test_what_an_agent_says_is_told_without_what_a_terminal_would_obey(agent_on, monkeypatch):
    """An agent may quote the log of a server, which may quote any client."""
    agent = agent_on()
    monkeypatch.setattr(agent, "_reply", lambda *_: ("error", "LabError", "its log ends: \x1b[2Jbye\r"))
    with pytest.raises(LabError) as caught:
        agent.hello()
    assert str(caught.value) == f"host {HOST.name}: its log ends: ?[2Jbye?"


def test_what_an_agent_answers_is_told_without_what_a_terminal_would_obey_but_for_logs(agent_on, monkeypatch):
    agent = agent_on(HOST)
    marks = [{"user": 1, "notes": [{"said": "a\r\tb\n", "holds": None}]}]
    leftovers = {"holder": "me\x1b[2J", "marks": marks, "folders": [], "undo_logs": []}
    reported = {"found": {"leftovers": leftovers}, "troubles": {"\x07": "no\x1b"}}
    monkeypatch.setattr(agent, "_reply", lambda *_: ("ok", reported))
    collected = agent.collect_facts(["leftovers"], FactsRequest())
    assert collected.of(LeftoverFacts) == LeftoverFacts(
        holder="me?[2J",
        marks=[MarkLeft(user=1, notes=[NoteLeft(said="a?\tb\n", holds=None)])],
        folders=[],
        undo_logs=[],
    )
    assert collected.troubles == {"?": "no?"}
    monkeypatch.setattr(agent, "_reply", lambda *_: ("ok", {"apache\r": "\x1b[2Jbye"}))
    assert agent.unusable() == {"apache?": "?[2Jbye"}
    assert agent.logs() == {"apache\r": "\x1b[2Jbye"}


@pytest.mark.parametrize("script", ["exec sleep 1000", "sleep 1000; true", "exec cat", "exec yes"])
def test_what_never_becomes_an_agent_is_told_at_the_deadline_and_does_not_stay(monkeypatch, processes, script):
    monkeypatch.setattr(client_module, "_START_HERE_S", 0.5)
    monkeypatch.setattr(client_module, "_STOP_S", 0.5)
    monkeypatch.setattr(base, "_PATIENCE_S", 0.5)
    close, diagnosis = AgentClient.close, ACCESS_METHODS["local"].diagnosis
    asked: list[int] = []

    def seen(*arguments):
        watcher = threading.Timer(0.2, lambda: asked.extend(processes.below(os.getpid(), itself=False)))
        watcher.start()
        found = diagnosis(*arguments)
        watcher.join()
        return found

    monkeypatch.setattr(ACCESS_METHODS["local"], "diagnosis", seen)
    monkeypatch.setattr(AgentClient, "close", lambda self: (processes.below(pid_of(self)), close(self)))
    sentence = refused(HOST, ["sh", "-c", script])
    assert sentence.startswith("host server: no agent could be started by access method local: ")
    assert processes.left() == []


def test_an_agent_that_cannot_begin_says_why(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "nowhere"))
    assert refused(HOST) == (
        "host server: no agent could be started by access method local: "
        f"no private folder below {tmp_path}/nowhere: No such file or directory; set TMPDIR to a writable one"
    )


@pytest.fixture
def lab():
    if why := unusable():
        pytest.skip(f"the lab cannot be built here: {why}")
    with namespaces(BUILTIN["pair"]) as entries:
        yield entries


def test_an_agent_of_the_lab_lives_in_its_node(lab, agent_on):
    host = BUILTIN["pair"].server
    agent = agent_on(host, lab["server"])
    assert agent.hello().host == "server"
    assert agent.route("198.18.0.1").device == "eth0"


def test_an_agent_of_the_lab_that_is_stopped_does_not_stay(lab, agent_on, monkeypatch):
    """The process started here is the command that entered the node; the agent is its child."""
    monkeypatch.setattr(client_module, "_STOP_S", 0.5)
    before = children()
    agent = agent_on(BUILTIN["pair"].server, lab["server"])
    (process,) = tree(pid_of(agent))[1]
    os.kill(process.pid, signal.SIGSTOP)
    with pytest.raises(AgentError, match=r"no keep-alive for 0\.3 s during call 'hello'"):
        agent.within(0.3).hello()
    agent.close()
    assert children() <= before


INTERRUPTED = """
import os, signal, time
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.lab.agents.client import AgentClient
with AgentClient(BUILTIN["loopback"].server) as agent:
    try:
        os.killpg(0, signal.SIGINT)
        time.sleep(60)
    except KeyboardInterrupt:
        pass
    print(agent.hello().pid == agent._process.pid)
"""


def test_a_ctrl_c_at_the_terminal_leaves_the_agent_to_the_one_who_holds_the_link(me):
    """The terminal sends it to the whole process group, and a dying agent would look broken."""
    done = subprocess.run(
        me.argv(INTERRUPTED), env=me.env, capture_output=True, text=True, start_new_session=True, check=False
    )
    assert (done.stdout, done.stderr) == ("True\n", "")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_an_agent_does_not_outlive_the_one_who_holds_the_link(me, processes, number):
    code = f"""
import time
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.lab.agents.client import AgentClient
from pytest_ipperf.agent.load.spec import LoadSpec
from pytest_ipperf.agent.rpc.messages import ServeRequest
from pytest_ipperf.core.portable.server_state import ServerState
agent = AgentClient(BUILTIN["loopback"].server)
agent.serve({{"nameserver": {SERVED!r}}})
print(flush=True)
time.sleep(100)
"""
    with subprocess.Popen(me.argv(code), env=me.env, stdout=subprocess.PIPE) as owner:
        assert owner.stdout
        owner.stdout.readline()
        assert len(processes.below(owner.pid)) > 2
        owner.send_signal(number)
    assert processes.left() == []


def test_a_module_beside_the_tests_is_not_taken_for_the_librarys(agent_on, tmp_path, monkeypatch):
    (tmp_path / "socket.py").write_text("raise SystemExit('not this one')")
    monkeypatch.chdir(tmp_path)
    assert agent_on().hello().pid


def test_a_python_whose_path_has_a_space_or_two_slashes_is_started(agent_on, tmp_path):
    folder = tmp_path / "a b"
    folder.mkdir()
    (folder / "enter").write_text('#!/bin/sh\nexec "$@"\n')
    (folder / "enter").chmod(0o755)
    assert agent_on(HOST, [f"{folder}//enter"]).hello().pid
