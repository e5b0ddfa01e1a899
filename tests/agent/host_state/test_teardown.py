"""Teardown, the last call of an agent."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_ipperf.agent.host_state.dirty_marks import dirty_reason
from pytest_ipperf.agent.load.silence import PROGRESS
from pytest_ipperf.agent.rpc import channel as channel_module
from pytest_ipperf.agent.rpc.channel import Channel
from pytest_ipperf.agent.rpc.handlers import teardown


@pytest.fixture
def context(monkeypatch):
    """Return the context of an agent that is about to end, and its messages."""
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(channel_module, "PROGRESS_S", 0.02)
    said: list[object] = []
    channel = Channel(said.append)
    reporter = channel.progress_reporter()
    reporter._every_s, reporter._due = 0.02, 0.0
    monkeypatch.setattr(channel, "progress_reporter", lambda: reporter)
    found: Any = SimpleNamespace(stack=contextlib.ExitStack(), channel=channel, said=said)
    yield found
    signal.signal(signal.SIGTERM, before)


def test_an_end_that_takes_long_sends_keep_alives_until_it_is_over(context):
    context.stack.callback(time.sleep, 0.6)
    assert teardown.TeardownHandlers(context).shut_down() == []
    count = len(context.said)
    assert count >= 2
    assert set(context.said) == {PROGRESS}
    time.sleep(0.1)
    assert len(context.said) == count


def test_an_end_that_hangs_is_told_and_marked_in_its_place(context, tmp_path, monkeypatch):
    monkeypatch.setenv("IPPERF_RUN", str(tmp_path / "run"))
    monkeypatch.setattr(teardown, "_PATIENCE_S", 0.1)
    gone = Event()

    def ended(status):
        context.said.append(status)
        gone.set()

    monkeypatch.setattr(os, "_exit", ended)
    context.stack.callback(gone.wait, 20.0)
    teardown.TeardownHandlers(context).shut_down()
    said = "the end of its agent has not come in 300 s; what that has made may still be there"
    assert context.said[-2:] == [("ok", [said]), 1]
    assert set(context.said[:-2]) <= {PROGRESS}
    assert dirty_reason().endswith(f": {said}")


def test_it_is_not_cut_short(context):
    context.stack.callback(signal.raise_signal, signal.SIGTERM)
    done: list[str] = []
    context.stack.callback(done.append, "first")
    assert teardown.TeardownHandlers(context).shut_down() == []
    assert done == ["first"]
