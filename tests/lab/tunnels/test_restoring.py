"""Hosts that cannot be restored after their tunnels: the error, and their marks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_ipperf.core.portable.errors import RestoreError
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.lab.tunnels import setup


class Returned:
    """An agent whose host could not be restored."""

    def __init__(self, name):
        self.host = SimpleNamespace(name=name)

    def restore(self):
        return ["device ipperf-6in4 is still there"]


def test_what_is_left_of_tunnels_is_told_with_how_the_marks_are_cleared():
    agents: Any = {role: Returned(role) for role in ("client", "server")}
    with pytest.raises(RestoreError) as raised:
        setup.restore_hosts(BUILTIN["pair"], agents)
    left = "device ipperf-6in4 is still there"
    assert str(raised.value) == (
        f"not everything is as it was: host client: {left}; host server: {left}; "
        "put it in order, then clear the mark: pytest-ipperf doctor --testbed=pair --clear"
    )
