"""Hosts that are not as they were after their tunnels: what the error says of them, and of the mark on each."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_ipperf.core.errors import RestoreError
from pytest_ipperf.lab import tunnelling


class Returned:
    """An agent whose host is not as it was, and marked."""

    def __init__(self, name, mark):
        self.host = SimpleNamespace(name=name)
        self._told = {"left": ["device ipperf-6in4 is still there"], "mark": mark}

    def order(self, name):
        assert name == "restore"
        return self._told


@pytest.mark.parametrize(
    ("marks", "remedy"),
    [
        (
            ["/run/own/unrestored-7.4", "/run/own/unrestored-7.4"],
            ", then remove the mark there (/run/own/unrestored-7.4)",
        ),
        (["/run/a", "/run/b"], ", then remove the mark there (/run/a or /run/b)"),
        (["", ""], ""),
    ],
)
def test_the_marks_of_hosts_that_are_not_as_they_were_are_named(marks, remedy):
    links: Any = {role: Returned(role, mark) for role, mark in zip(("client", "server"), marks, strict=True)}
    with pytest.raises(RestoreError) as raised:
        tunnelling._restore(links)
    left = "device ipperf-6in4 is still there"
    said = f"not everything is as it was: host client: {left}; host server: {left}; put it in order"
    assert str(raised.value) == said + remedy
