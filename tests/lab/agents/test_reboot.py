"""Signs that a host goes down; tests/system/far has real ones."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import pytest

from pytest_ipperf.core.portable.errors import AgentError, LabError
from pytest_ipperf.lab.agents import reboot
from pytest_ipperf.lab.agents.reboot import reboot_hosts
from pytest_ipperf.lab.inventory.model import Host, Testbed

FULL = "host far: OSError: [Errno 28] No space left on device ('/tmp/x/reboot') (reboots.py, line 34)"
FAR = Host(name="far", way="ssh", settings={"ssh": "far.invalid"}, reboot="reboot now")


@dataclasses.dataclass
class Answering:
    """A client of the agent on a host whose disk is full, or whose connection broke."""

    host: Host
    lost: bool = False
    breaks = False
    boots = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        pass

    def within(self, _):
        return self

    def boot_id(self):
        Answering.boots += 1
        return str(Answering.boots)

    def reboot(self, _):
        self.lost = self.breaks
        raise AgentError(FULL)

    def stay(self):
        pass

    def lacking(self, _):
        return []


@pytest.fixture
def answering(monkeypatch):
    monkeypatch.setattr(reboot, "AgentClient", Answering)
    monkeypatch.setattr(Answering, "boots", 0)
    return Testbed(name="office", client=FAR, server=FAR)


def test_a_fault_that_an_agent_tells_is_no_host_that_goes_down(answering):
    with pytest.raises(AgentError) as caught:
        reboot_hosts(answering, lambda _: None)
    assert str(caught.value) == FULL
    assert Answering.boots == 1  # nobody asked whether it is back


def test_a_lost_line_is(answering, monkeypatch):
    monkeypatch.setattr(Answering, "breaks", True)
    assert list(reboot_hosts(answering, lambda _: None)) == ["far"]
    assert Answering.boots == 2


class Several(Answering):
    """One host refuses, and another one does not go down."""

    done: ClassVar[list[str]] = []

    def close(self):
        self.done.append(f"{self.host.name} closed")

    def boot_id(self):
        return ""

    def reboot(self, _):
        if self.host.name == "far":
            raise LabError("host far: no")

    def stay(self):
        self.done.append(f"{self.host.name} stays")


def test_where_one_refuses_the_others_are_told_to_stay(monkeypatch):
    near = dataclasses.replace(FAR, name="near", settings={"ssh": "near.invalid"})
    monkeypatch.setattr(reboot, "AgentClient", Several)
    monkeypatch.setattr(Several, "done", [])
    with pytest.raises(LabError, match=r"^host far: no$"):
        reboot_hosts(Testbed(name="office", client=FAR, server=near), lambda _: None, down_s=0.2)
    assert Several.done[0] == "near stays"
    assert sorted(Several.done[1:]) == ["far closed", "near closed"]
