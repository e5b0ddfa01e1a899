"""The last order of an agent, by itself."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_ipperf.agent.host_state.dirty_marks import marked
from pytest_ipperf.agent.load.silence import ALIVE
from pytest_ipperf.agent.rpc.channel import Line
from pytest_ipperf.agent.rpc.handlers import teardown


@pytest.fixture
def here(monkeypatch):
    """What an agent has that is about to leave, and what it says meanwhile."""
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(teardown, "SIGN_S", 0.02)
    said: list[object] = []
    line = Line(said.append)
    watch = line.watch()
    watch._every_s, watch._due = 0.02, 0.0
    monkeypatch.setattr(line, "watch", lambda: watch)
    found: Any = SimpleNamespace(stack=contextlib.ExitStack(), line=line, said=said)
    yield found
    signal.signal(signal.SIGTERM, before)


def test_an_end_that_takes_long_gives_signs_of_life_until_it_is_over(here):
    here.stack.callback(time.sleep, 0.6)
    assert teardown.Leaving(here).leave() == []
    count = len(here.said)
    assert count >= 2
    assert set(here.said) == {ALIVE}
    time.sleep(0.1)
    assert len(here.said) == count


def test_an_end_that_hangs_is_told_and_marked_in_its_place(here, tmp_path, monkeypatch):
    monkeypatch.setenv("IPPERF_RUN", str(tmp_path / "run"))
    monkeypatch.setattr(teardown, "_PATIENCE_S", 0.1)
    gone = Event()

    def ended(status):
        here.said.append(status)
        gone.set()

    monkeypatch.setattr(os, "_exit", ended)
    here.stack.callback(gone.wait, 20.0)
    teardown.Leaving(here).leave()
    said = "the end of its agent has not come in 300 s; what that has made may still be there"
    assert here.said[-2:] == [("ok", [said]), 1]
    assert set(here.said[:-2]) <= {ALIVE}
    assert marked().endswith(f": {said}")


def test_it_is_not_cut_short(here):
    here.stack.callback(signal.raise_signal, signal.SIGTERM)
    done: list[str] = []
    here.stack.callback(done.append, "first")
    assert teardown.Leaving(here).leave() == []
    assert done == ["first"]
