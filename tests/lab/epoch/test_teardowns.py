"""A testbed is taken down in the background, and its trouble is never lost."""

import contextlib
import os
import threading
import time

import pytest

from pytest_ipperf.agent.kernel import processes
from pytest_ipperf.core.portable.errors import RestoreError
from pytest_ipperf.lab.epoch import build
from pytest_ipperf.lab.epoch.live_testbed import live_testbed
from pytest_ipperf.lab.epoch.teardowns import Teardowns
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.lab.netns.namespaces import unusable


def undoing(action):
    stack = contextlib.ExitStack()
    stack.callback(action)
    return stack


def fails():
    raise RestoreError("not everything could be removed")


def process_of(agent):
    assert agent._process
    return agent._process.pid


def runs(pid):
    """Return whether a process has not ended; the kernel tells of its end just before it forgets it."""
    found = processes.process_of(pid)
    return found is not None and found.alive


def failing_beside(error):
    with Teardowns() as teardowns:
        teardowns.begin(undoing(fails))
        raise error


def test_the_end_waits_for_the_teardown():
    going_on, done = threading.Event(), []
    with Teardowns() as teardowns:
        teardowns.begin(undoing(lambda: done.append(going_on.wait(10))))
        assert done == []
        going_on.set()
    assert done == [True]


def test_another_teardown_waits_for_the_one_before():
    done = []
    with Teardowns() as teardowns:
        teardowns.begin(undoing(lambda: done.append(1)))
        teardowns.begin(undoing(lambda: done.append(2)))
    assert done == [1, 2]


def test_a_postponed_teardown_begins_when_it_is_told_to_or_at_the_end():
    done = []
    with Teardowns() as teardowns:
        teardowns.begin_postponed()
        teardowns.postpone(undoing(lambda: done.append(1)))
        assert done == []
        teardowns.begin_postponed()
        teardowns.postpone(undoing(lambda: done.append(2)))
        assert done == [1]
    assert done == [1, 2]


def test_trouble_is_raised_once_by_whoever_waits():
    with Teardowns() as teardowns:
        teardowns.begin(undoing(fails))
        with pytest.raises(RestoreError, match="not everything could be removed"):
            teardowns.finish()
        teardowns.finish()


def test_trouble_is_raised_at_the_end_with_an_earlier_error_as_its_context():
    with pytest.raises(RestoreError) as raised:
        failing_beside(ValueError("earlier"))
    assert isinstance(raised.value.__context__, ValueError)


def test_a_ctrl_c_is_not_replaced_by_trouble():
    with pytest.raises(KeyboardInterrupt):
        failing_beside(KeyboardInterrupt())


@pytest.mark.parametrize("name", ["pair", "loopback"])
def test_nothing_is_left_of_a_testbed_once_the_next_epoch_is_up(name):
    if name == "pair" and (why := unusable()):
        pytest.skip(f"the lab cannot be built here: {why}")
    pids: list[int] = []
    with Teardowns() as teardowns:
        for _ in range(2):
            owner = f"test {os.getpid()}"
            with live_testbed(BUILTIN[name], owner, 1.0, lambda _: None, teardowns=teardowns) as live:
                earlier, pids = pids, [process_of(agent) for agent in live._agents.values()]
                assert not any(map(runs, earlier))
            assert all(map(runs, pids))
    assert not any(map(runs, pids))


def test_agents_of_hosts_get_nothing_to_do_before_the_earlier_ones_have_ended(monkeypatch):
    order: list[str] = []

    def prepared(*arguments):
        order.append("prepared")
        return prepare(*arguments)

    def takes_long():
        time.sleep(0.2)
        order.append("ended")

    prepare = build._prepare_hosts
    monkeypatch.setattr(build, "_prepare_hosts", prepared)
    with Teardowns() as teardowns:
        teardowns.postpone(undoing(takes_long))
        with live_testbed(BUILTIN["loopback"], "test", 1.0, lambda _: None, teardowns=teardowns):
            assert order == ["ended", "prepared"]
