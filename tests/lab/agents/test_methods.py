"""The client's RPC methods and the agent's handlers are the same, and both check what they are given."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import pytest_ipperf
from pytest_ipperf.agent.facts import FACTS
from pytest_ipperf.agent.facts.base import FactsRequest
from pytest_ipperf.agent.facts.limits import LimitFacts
from pytest_ipperf.agent.facts.ports import PortFacts
from pytest_ipperf.agent.paths.routes import Route
from pytest_ipperf.agent.rpc.codec import Decoder, encoded, encoder
from pytest_ipperf.agent.rpc.handlers import HANDLERS
from pytest_ipperf.agent.rpc.messages import CollectedFacts
from pytest_ipperf.core.portable.errors import AgentError
from pytest_ipperf.lab.agents.methods import AgentMethods
from pytest_ipperf.lab.agents.rpc_method import RpcMethod, Terms

LAB = Path(pytest_ipperf.__file__).parent / "lab"
DECLARED: Mapping[str, RpcMethod[..., Any]] = {
    name: method for name, method in vars(AgentMethods).items() if isinstance(method, RpcMethod)
}
HANDLED: Mapping[str, Callable[..., Any]] = {
    name: method for group in HANDLERS for name, method in vars(HANDLERS[group]).items() if name[0] != "_"
}


class Line:
    """A connection on which one reply waits."""

    host: Any = SimpleNamespace(name="far")
    ended = False

    def __init__(self, reply=None):
        self.sent, self._reply = [], reply

    def request(self, name, arguments, patience_s=30.0):
        self.sent.append((name, arguments, patience_s))

    def result(self, patience_s=30.0, beside=()):
        self.sent.append((patience_s, beside))
        return self._reply


def over(line):
    agent = AgentMethods()
    agent.terms = Terms(line)
    return agent


def test_each_method_has_a_handler_and_each_handler_a_method():
    assert sorted(DECLARED) == sorted(HANDLED)


@pytest.mark.parametrize("name", sorted(HANDLED))
def test_a_method_and_its_handler_have_the_same_parameters_types_and_defaults(name):
    handler = inspect.signature(HANDLED[name], eval_str=True)
    expected = handler.replace(parameters=list(handler.parameters.values())[1:])
    assert DECLARED[name].signature == expected
    assert expected.return_annotation is not inspect.Signature.empty


@pytest.mark.parametrize("name", sorted(HANDLED))
def test_each_type_can_be_sent(name):
    decoder = Decoder()
    for of in typing.get_type_hints(HANDLED[name]).values():
        encoder(of)
        decoder.decoder(of)


@pytest.mark.parametrize("name", FACTS)
def test_all_facts_can_be_sent(name):
    encoder(FACTS[name])
    Decoder().decoder(FACTS[name])


def test_facts_are_decoded_by_the_type_of_their_name():
    plain = encoded(CollectedFacts, CollectedFacts(found={"ports": PortFacts(taken=[7])}, troubles={"load": "no"}))
    assert plain == {"found": {"ports": {"taken": [7]}}, "troubles": {"load": "no"}}
    collected = over(Line(plain)).collect_facts(["ports", "load"], FactsRequest())
    assert collected.of(PortFacts) == PortFacts(taken=[7])
    assert collected.of(LimitFacts) is None
    assert collected.troubles == {"load": "no"}


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        ({"ports": {"taken": ["7"]}}, r"found\['ports'\]\.taken\[0\]: expected int, got '7'"),
        ({"ports": {"free": []}}, r"found\['ports'\]: PortFacts lacks 'taken' and has no field 'free'"),
        ({"weather": {}}, r"found: has no key 'weather'"),
        ([], r"found: expected dict, got \[\]"),
    ],
)
def test_facts_of_another_form_are_an_agent_error(found, problem):
    with pytest.raises(AgentError, match=rf"^reply to call 'collect_facts': {problem}$"):
        over(Line({"found": found, "troubles": {}})).collect_facts(["ports"], FactsRequest())


def test_arguments_are_sent_by_position_and_defaults_are_the_handlers():
    line = Line(encoded(Route, Route(error="no")))
    assert over(line).route("192.0.2.1").error == "no"
    assert over(line).route("192.0.2.1", arrives="eth0").error == "no"
    assert [each[1] for each in line.sent if each[0] == "route"] == [("192.0.2.1",), ("192.0.2.1", "", "eth0")]


@pytest.mark.parametrize(
    ("arguments", "options", "sentence"),
    [
        (("192.0.2.1", "", "", "more"), {}, r"^call 'route' takes 3 arguments, and 4 were given$"),
        (("192.0.2.1",), {"hop": "eth0"}, "unexpected keyword argument 'hop'"),
    ],
)
def test_arguments_that_no_handler_has_are_an_error_and_not_left_out(arguments, options, sentence):
    line = Line()
    with pytest.raises(TypeError, match=sentence):
        over(line).route(*arguments, **options)
    assert line.sent == []


def test_a_call_has_its_own_terms():
    line, other = Line(""), Line()
    assert over(line).within(7.0, [other]).boot_id() == ""
    assert line.sent == [("boot_id", (), 7.0), (7.0, [other])]


def test_several_agents_are_called_side_by_side():
    lines = [Line("a"), Line("b")]
    pending = [over(line).boot_id.request() for line in lines]
    assert [len(line.sent) for line in lines] == [1, 1]
    assert [reply.result(3.0) for reply in pending] == ["a", "b"]


def test_a_reply_of_another_type_is_an_agent_error_that_names_method_and_field():
    reply = {"python": "3.12", "host": "far", "pid": "seven", "started_ticks": 1}
    with pytest.raises(AgentError, match=r"^reply to call 'hello': pid: expected int, got 'seven'$"):
        over(Line(reply)).hello()


def test_nobody_calls_a_method_by_a_text():
    strings = re.compile(r"""\.(call|request)\(\s*f?["']""")
    assert [str(path) for path in LAB.rglob("*.py") if strings.search(path.read_text())] == []
