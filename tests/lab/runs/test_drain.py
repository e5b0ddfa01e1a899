"""Check the wait for what a run left on the network, and what is said where it does not end."""

from typing import Any

import pytest

from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.lab.runs.drain import drained, weaker_proof
from pytest_ipperf.transports.base import CLIENT, SERVER

LAB = BUILTIN["pair"]


class Agent:
    """Answers as an agent whose connections are over or not."""

    def __init__(self, *, over):
        self.over, self.called = over, []

    def connections_over(self, _):
        self.called.append("connections_over")
        return self.over

    def quiet(self, _):
        self.called.append("quiet")
        return {"protocol41": {}, "bare_ipv6": {}}


@pytest.mark.parametrize("over", [True, False])
def test_a_client_whose_connections_are_not_over_has_not_drained(over):
    client: Any = Agent(over=over)
    server: Any = Agent(over=True)
    assert LAB.exclusive
    assert drained(LAB, {CLIENT: client, SERVER: server}) is over
    # The counters are reset only where what they count from now on is the next run's.
    assert server.called == (["quiet"] if over else [])


def test_only_a_weaker_proof_is_told():
    (note,) = weaker_proof(LAB, settled=False)
    assert note.startswith("the run before had not ended on the network")
    assert weaker_proof(LAB, settled=True) == ()
