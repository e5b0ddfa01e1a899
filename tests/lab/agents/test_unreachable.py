"""A host that was unreachable a moment ago: it is probed briefly, and used again as soon as it is up."""

from __future__ import annotations

import pytest

from pytest_ipperf.core.portable.errors import AgentError
from pytest_ipperf.lab.access import ssh
from pytest_ipperf.lab.access.ssh import Ssh
from pytest_ipperf.lab.agents.unreachable import UnreachableCache
from pytest_ipperf.lab.inventory.model import Host
from tests.support.needs import needs
from tests.support.servers.tcp import silent_listener

ALPHA = Host(name="alpha", way="ssh", settings={"ssh": "ssh://alpha.invalid:22"})
AWAY = "host alpha: no agent could be started by access method ssh: "


class Away:
    """A host that answers when it is up; in made-up time a failed start takes 20 seconds and a probe 4."""

    def __init__(self, monkeypatch):
        self.now, self.up = 0.0, False
        self.tried: list[str] = []
        self.reaching = UnreachableCache(lambda: self.now)
        monkeypatch.setattr(Ssh, "knock", lambda *_: self._try("knock", 4.0))

    def _try(self, how, seconds):
        self.tried.append(how)
        self.now += 0.0 if self.up else seconds
        return "" if self.up else f"{how} in vain"

    def _start(self):
        if why := self._try("start", 20.0):
            raise AgentError(AWAY + why)
        return "an agent"

    def ask(self, host=ALPHA):
        self.tried.clear()
        try:
            return self.reaching.started(host, (), self._start)
        except AgentError as error:
            return str(error)


@pytest.fixture
def away(monkeypatch):
    return Away(monkeypatch)


def test_a_host_that_is_away_is_waited_for_once(away):
    assert away.ask() == f"{AWAY}start in vain"
    for _ in range(30):
        assert (away.ask(), away.tried) == (f"{AWAY}knock in vain", ["knock"])
    assert away.now == 20 + 30 * 4


def test_a_host_that_is_well_again_is_measured_and_not_doubted_any_longer(away):
    away.ask()
    away.up = True
    assert (away.ask(), away.tried) == ("an agent", ["knock", "start"])
    assert (away.ask(), away.tried) == ("an agent", ["start"])


def test_after_a_minute_it_is_waited_for_as_at_first(away):
    away.ask()
    away.now += 61.0
    assert (away.ask(), away.tried) == (f"{AWAY}start in vain", ["start"])


def test_what_is_true_of_one_host_is_not_of_another(away):
    away.ask()
    away.ask(Host(name="beta", way="ssh", settings={"ssh": "ssh://beta.invalid:22"}))
    assert away.tried == ["start"]


def test_hosts_here_are_never_asked_beforehand(away):
    here = Host(name="here", way="local", settings={"node": "client"})
    for _ in range(2):
        away.ask(here)
        assert away.tried == ["start"]


@needs("ssh")
def test_a_knock_tells_in_the_words_of_ssh():
    """Somebody listens at this address and sends nothing."""
    with silent_listener() as port:
        said = ssh.access_method.knock({"ssh": f"ssh://127.0.0.1:{port}"}, ())
    assert said == "Connection timed out during banner exchange (exit status 255)"
