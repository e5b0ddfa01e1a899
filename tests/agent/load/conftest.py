"""Patience of both clients with a name server, for tests on a busy machine."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.fixture
def repeat_after(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that sets after how many seconds an unanswered query is repeated, then again, and so on.

    A machine that is held up for a second answers late, and a query is repeated that was not lost.
    """

    def set_to(*delays_s: float) -> None:
        for client in ("lean.timers", "library_client"):
            monkeypatch.setattr(f"pytest_ipperf.agent.load.{client}.RETRY_S", delays_s)

    return set_to
