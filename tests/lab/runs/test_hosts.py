"""Check what hosts are asked before and after a run, and what is said where the run before does not end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_ipperf.agent.flows.spec import FlowReport
from pytest_ipperf.agent.paths.packet_counters import RunPackets
from pytest_ipperf.agent.rpc.messages import CaptureRequest, DrainRequest, HostReport, RunReady
from pytest_ipperf.agent.servers.accepted_mail import ExpectedMail
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.lab.agents.rpc_method import PATIENCE_S
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.lab.runs.hosts import start_hosts, weaker_proof
from pytest_ipperf.transports.base import CLIENT, ROUTER, SERVER

LAB, PAIR, HERE = (BUILTIN[name] for name in ("lab", "pair", "loopback"))


class Agent:
    """Answers as an agent whose network has drained or not."""

    def __init__(self, *, drained=True, broken=()):
        self.host, self.ended = SimpleNamespace(name="made"), False
        self.drained, self.broken, self.asked, self.unread, self.patience_s = drained, [*broken], [], 0, 0.0
        self.start_run, self.finish_run = (self._method(answer) for answer in (self._ready, self._report))

    def _method(self, answer):
        def request(asked):
            self.asked.append(asked)
            self.unread += 1
            return SimpleNamespace(connection=self, result=lambda *_: (self._read(), answer(asked))[1])

        def call(asked):
            return request(asked).result()

        call.request = request  # type: ignore[attr-defined]
        return call

    def _read(self):
        self.unread -= 1

    def _ready(self, asked):
        return RunReady(drained=bool(asked.drain) and self.drained, captured=bool(asked.capture), far=None)

    def _report(self, asked):
        return HostReport(
            busy=[], broken=self.broken, traffic=RunPackets(), tcp={}, cpu_s=0.0, accepted=None, far=None,
            capture=b"pcap" if asked.captured else b"", drained=bool(asked.drain) and self.drained,
        )  # fmt: skip

    def within(self, patience_s, *_):
        self.patience_s = patience_s
        return self


def made(**agents) -> Any:
    return agents


@pytest.mark.parametrize("drained", [True, False])
def test_a_client_whose_connections_are_not_over_has_not_drained(drained):
    agents = made(client=Agent(drained=drained), server=Agent())
    assert PAIR.exclusive
    assert start_hosts(PAIR, agents).drained is drained
    (start,) = agents[CLIENT].asked
    assert start.drain.closed_s > 0


@pytest.mark.parametrize("drained", [True, False])
def test_the_other_hosts_forget_the_previous_run_also_where_a_client_has_not_drained(drained):
    agents = made(client=Agent(drained=drained), server=Agent(), router=Agent())
    assert start_hosts(LAB, agents).drained is drained
    for role in (SERVER, ROUTER):
        (start,) = agents[role].asked
        assert (start.drain is not None, start.drain == DrainRequest()) == (True, not drained)


def test_one_host_that_has_not_drained_is_enough():
    agents = made(client=Agent(), server=Agent(), router=Agent(drained=False))
    assert not start_hosts(LAB, agents).drained


def test_each_host_is_asked_once_before_and_once_after_and_clients_only_where_there_is_something():
    agents = made(client=Agent(), server=Agent(), router=Agent())
    hosts = start_hosts(LAB, agents, mail=ExpectedMail("postfix", 10))
    assert list(hosts.finish()) == [SERVER, ROUTER]
    assert [len(agents[role].asked) for role in (CLIENT, SERVER, ROUTER)] == [1, 2, 2]
    assert [agents[role].asked[0].mail for role in (CLIENT, SERVER, ROUTER)] == [
        None,
        ExpectedMail("postfix", 10),
        None,
    ]
    # This machine has a network of its own only in a lab: others may hold connections here.
    agents = made(client=Agent(), server=Agent())
    start_hosts(HERE, agents).finish()
    assert [len(agents[role].asked) for role in (CLIENT, SERVER)] == [0, 2]


def test_a_server_that_died_is_told_before_another_host_can_be_in_trouble():
    agents = made(client=Agent(), server=Agent(broken=["apache has died", "bind too"]), router=Agent())
    hosts = start_hosts(LAB, agents)
    with pytest.raises(LabError, match=r"^host made: apache has died$"):
        hosts.finish()
    assert [len(agents[role].asked) for role in (SERVER, ROUTER)] == [2, 1]
    # The far end of a flow is not a server.
    assert list(hosts.finish(flow=FlowReport())) == [SERVER, ROUTER]


@pytest.mark.parametrize(("flow_s", "patience_s"), [(0.0, PATIENCE_S), (PATIENCE_S + 1, PATIENCE_S + 1)])
def test_a_server_may_take_as_long_as_its_flow_and_no_less_than_any_other_call(flow_s, patience_s):
    agents = made(client=Agent(), server=Agent())
    start_hosts(HERE, agents).finish(flow=FlowReport(), flow_s=flow_s)
    assert agents[SERVER].patience_s == patience_s


@pytest.mark.parametrize("drained", [True, False])
def test_clients_that_drain_in_the_finish_are_not_asked_before_the_next_run(drained):
    agents = made(client=Agent(drained=drained), server=Agent(), router=Agent())
    hosts = start_hosts(LAB, agents)
    reports = hosts.finish(drains=True)
    assert (set(reports), hosts.clients_drained) == ({CLIENT, SERVER, ROUTER}, drained)
    assert [agents[role].asked[-1].drain is not None for role in (CLIENT, SERVER, ROUTER)] == [True, False, False]
    assert start_hosts(LAB, agents, clients_drained=hosts.clients_drained).drained is drained
    assert len(agents[CLIENT].asked) == 2 + (not drained)
    # A capture has to begin in any case.
    start_hosts(LAB, agents, clients_drained=True, capture={CLIENT: CaptureRequest(device="eth0", packets=5)})
    assert agents[CLIENT].asked[-1].capture


def test_a_server_that_died_leaves_no_reply_of_a_client_unread():
    agents = made(client=Agent(), server=Agent(broken=["apache has died"]))
    with pytest.raises(LabError, match=r"^host made: apache has died$"):
        start_hosts(PAIR, agents).finish(drains=True)
    assert agents[CLIENT].unread == 0


def test_who_captures_is_asked_for_it_afterwards():
    agents = made(client=Agent(), server=Agent())
    hosts = start_hosts(HERE, agents, capture={CLIENT: CaptureRequest(device="eth0", packets=5)})
    reports = hosts.finish()
    assert hosts.captures(reports) == {CLIENT: b"pcap"}
    assert [each.captured for each in (agents[CLIENT].asked[1], agents[SERVER].asked[1])] == [True, False]


def test_only_a_weaker_proof_is_told():
    (note,) = weaker_proof(PAIR, settled=False)
    assert note.startswith("the run before had not ended on the network")
    assert weaker_proof(PAIR, settled=True) == ()
