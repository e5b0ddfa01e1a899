"""The end of an epoch that leaves something behind: an error, a mark, and no further epoch on that host."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from concurrent.futures import Future
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_ipperf.agent.host_state.dirty_marks import all_marks, mark_leftovers
from pytest_ipperf.core.portable.errors import AgentError, LabError, RestoreError
from pytest_ipperf.lab.agents.shutdown import shut_down
from pytest_ipperf.lab.epoch import build
from pytest_ipperf.lab.epoch.live_testbed import live_testbed
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.lab.netns.namespaces import unusable
from pytest_ipperf.lab.tunnels import setup

root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")


def busy(tmp):
    """Make all private folders impossible to remove."""
    folders = sorted(tmp.glob("ipperf-*"))
    for folder in folders:
        (folder / "mounted").mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "none", folder / "mounted"], check=True)
    return folders


def live_lab(name):
    return live_testbed(BUILTIN[name], f"test {os.getpid()}", 10.0, lambda _: None)


@root
def test_an_epoch_whose_folders_stay_is_an_error_and_the_next_is_none(tmp, processes):
    with pytest.raises(RestoreError) as caught, live_lab("loopback"):
        folders = busy(tmp)
    said = str(caught.value)
    for host in ("client", "server"):
        assert f"host {host}: private folder " in said
    assert said.startswith("not everything could be removed: host ")
    assert said.endswith("; put it in order, then clear the mark: pytest-ipperf doctor --testbed=loopback --clear")
    (mark,) = all_marks()
    assert sorted(note["folder"] for note in mark.notes) == list(map(str, folders))
    with pytest.raises(LabError) as refused, live_lab("loopback"):
        pass
    assert "an earlier measurement has not restored it: private folder " in str(refused.value)
    assert str(refused.value).endswith("clear the mark: pytest-ipperf doctor --testbed=loopback --clear")
    assert processes.left() == []


@root
def test_what_an_epoch_broke_off_for_is_still_known(tmp):
    def broken_off():
        with live_lab("loopback"):
            busy(tmp)
            raise LabError("the server died")

    with pytest.raises(RestoreError) as caught:
        broken_off()
    assert str(caught.value).startswith("the server died; and not everything could be removed: host ")
    assert str(caught.value.__context__) == "the server died"


class Leaves:
    """An agent whose host could not be restored, and which cannot remove its folder."""

    def __init__(self, name):
        self.host = SimpleNamespace(name=name)

    def within(self, _):
        return self

    def restore(self):
        return ["a is missing"]

    def shut_down(self):
        return ["b stays"]

    def close(self):
        pass


class Slow:
    """An agent that takes time to shut down, perhaps with a Ctrl-C meanwhile."""

    def __init__(self, name, done, slow_s=0.0, raises=None):
        self.host, self._done = SimpleNamespace(name=name), done
        self._slow_s, self._raises = slow_s, raises

    def within(self, _):
        return self

    def shut_down(self):
        if self._raises:
            raise self._raises
        time.sleep(self._slow_s)
        self._done.append(f"{self.host.name} left")
        return []

    def close(self):
        self._done.append(f"{self.host.name} closed")


def test_no_line_is_closed_before_all_agents_have_left():
    """One of them may hold the lease for two hosts."""
    done: list[str] = []
    agents: Any = [Slow("a", done), Slow("b", done, 0.2)]
    assert shut_down(agents) == []
    assert (sorted(done[:2]), sorted(done[2:])) == (["a left", "b left"], ["a closed", "b closed"])


def test_an_end_that_is_broken_off_lets_all_others_leave_first():
    done: list[str] = []
    agents: Any = [Slow("a", done, raises=KeyboardInterrupt()), Slow("b", done, 0.2)]
    with pytest.raises(KeyboardInterrupt):
        shut_down(agents)
    assert (done[0], sorted(done[1:])) == ("b left", ["a closed", "b closed"])


END = "; put it in order, then clear the mark: pytest-ipperf doctor --testbed=office --clear"
NETWORK, FOLDERS = (
    "not everything is as it was: host x: a is missing",
    "not everything could be removed: host x: b stays",
)


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (None, f"{NETWORK}; and {FOLDERS}{END}"),
        (LabError("dovecot died: gone"), f"dovecot died: gone; and {NETWORK}; and {FOLDERS}{END}"),
        (ValueError("odd"), f"ValueError: odd; and {NETWORK}; and {FOLDERS}{END}"),
    ],
)
def test_all_that_ends_an_epoch_is_told_once_and_in_order(raised, said, monkeypatch):
    monkeypatch.setattr(setup, "_set_up", lambda *_: "existing")
    agent: Any = Leaves("x")
    path: Any = SimpleNamespace(ends={"client": None})
    testbed: Any = SimpleNamespace(name="office", is_lab=False, paths={"6in4": path})
    start: Future[Any] = Future()
    start.set_result(agent)

    def ended():
        with contextlib.ExitStack() as stack:
            stack.push(partial(build._shut_down, testbed, [start]))
            stack.enter_context(setup.set_up_tunnels(testbed, {"client": agent}, ["6in4"], "auto"))
            if raised:
                raise raised

    with pytest.raises(RestoreError) as caught:
        ended()
    assert str(caught.value) == said


@root
def test_a_ctrl_c_goes_on_and_the_host_is_marked(tmp):
    def interrupted():
        with live_lab("loopback"):
            busy(tmp)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert all_marks()


@pytest.mark.skipif(bool(unusable()), reason=f"the lab cannot be built: {unusable()}")
def test_no_lab_is_built_on_a_marked_machine(tmp):
    mark_leftovers([{"said": "process 7 cannot be killed"}])
    with pytest.raises(LabError) as refused, build.build_testbed(BUILTIN["pair"]):
        pass
    assert str(refused.value) == (
        "this machine: an earlier measurement has not restored it: process 7 cannot be killed; put it in order, "
        "then clear the mark: pytest-ipperf doctor --testbed=pair --clear"
    )


def test_an_agent_that_is_not_heard_is_closed_and_says_nothing():
    """It then ends by itself, and marks its host."""
    closed = []

    def agent(name, said) -> Any:
        def shut_down():
            if said is None:
                raise AgentError("it died")
            return said

        host, methods = SimpleNamespace(name=name), SimpleNamespace(shut_down=shut_down)
        return SimpleNamespace(host=host, within=lambda _: methods, close=lambda: closed.append(name))

    assert shut_down([agent("a", ["x stays", "y stays"]), agent("b", None), agent("c", [])]) == [
        "host a: x stays",
        "host a: y stays",
    ]
    assert sorted(closed) == ["a", "b", "c"]
