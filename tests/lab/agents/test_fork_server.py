"""Fork servers: agents in the nodes of a lab, a memory layout of their own for each, and nothing that stays."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path

import pytest

from pytest_ipperf.agent.kernel.processes import process_of
from pytest_ipperf.core.portable.errors import AgentError
from pytest_ipperf.lab.agents.client import AgentClient
from pytest_ipperf.lab.agents.fork_server import ForkServer
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.lab.netns.namespaces import namespaces, node_of, unusable

PAIR = BUILTIN["pair"]
GOES_S = 60.0


@pytest.fixture(scope="module")
def lab():
    if why := unusable():
        pytest.skip(f"the lab cannot be built here: {why}")
    with namespaces(PAIR) as entries:
        yield entries


@pytest.fixture
def forks(lab):
    with ForkServer() as made:
        yield made


@pytest.fixture
def agent_on(lab, forks):
    made = []

    def start(name):
        entry = lab[name]
        host = next(each for each in PAIR.hosts if each.name == name)
        made.append(AgentClient(host, entry, fork=partial(forks.fork, node_of(entry))))
        return made[-1]

    yield start
    for each in made:
        each.close()


def pid_of(agent):
    return agent._process.pid


def ended(agent):
    """Return whether its process runs no more; the kernel tells of its end just before it forgets it."""
    found = process_of(pid_of(agent))
    return found is None or not found.alive


def test_forked_agents_live_in_their_nodes_and_end_when_they_are_closed(agent_on):
    client, server = agent_on("client"), agent_on("server")
    assert (client.hello().host, server.hello().host) == ("client", "server")
    assert client.route("198.18.0.2").source == "198.18.0.1"
    assert server.route("198.18.0.1").source == "198.18.0.2"
    assert len({each.parent for each in map(process_of, (pid_of(client), pid_of(server))) if each}) == 1
    client.close()
    assert ended(client)
    assert not server.ended
    assert server.hello().host == "server"


def test_a_forked_agent_that_is_killed_is_gone(agent_on):
    agent = agent_on("server")
    os.kill(pid_of(agent), signal.SIGKILL)
    assert agent._process.wait(GOES_S) == 0
    assert (agent.ended, agent.lost) == (True, True)
    with pytest.raises(AgentError, match=r"^host server: the agent died during call 'hello'"):
        agent.hello()


def test_a_forked_agent_that_does_not_answer_is_killed(agent_on, monkeypatch):
    monkeypatch.setattr("pytest_ipperf.lab.agents.client._STOP_S", 0.5)
    agent = agent_on("server")
    os.kill(pid_of(agent), signal.SIGSTOP)
    with pytest.raises(AgentError, match=r"no keep-alive for 0\.3 s during call 'hello'"):
        agent.within(0.3).hello()
    agent.close()
    assert ended(agent)


def test_each_fork_server_has_a_memory_layout_of_its_own(forks):
    if Path("/proc/sys/kernel/randomize_va_space").read_text().strip() == "0":
        pytest.skip("this kernel does not randomise memory layouts")
    with ForkServer() as other:
        maps = [Path(f"/proc/{each._process.pid}/maps").read_text().splitlines() for each in (forks, other)]
    # Debian's Python itself is always at the same place.
    stacks = {line.partition("-")[0] for lines in maps for line in lines if line.endswith("[stack]")}
    assert len(stacks) == 2


def test_a_fork_server_that_has_ended_is_told(lab):
    with ForkServer() as forks:
        forks._process.kill()
        forks._process.wait()
        with pytest.raises(AgentError, match=r"^no agent could be forked: "):
            forks.fork(node_of(lab["client"]))


def test_a_node_that_is_gone_is_told(forks):
    with namespaces(PAIR, linked=False) as entries:
        node = node_of(entries["client"])
    with pytest.raises(AgentError, match=r"^no agent could be forked: No such file or directory$"):
        forks.fork(node)
