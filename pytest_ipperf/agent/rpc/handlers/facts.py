"""Orders that find out whether a host is fit for measurements, and put in order what can be."""

from __future__ import annotations

import contextlib
from typing import Any

from pytest_ipperf.agent.facts import FACTS
from pytest_ipperf.agent.host_state.repair import tended
from pytest_ipperf.agent.paths.reachability import Door, unanswered
from pytest_ipperf.agent.rpc.handlers.base import Here, Part
from pytest_ipperf.core.portable.errors import IpperfError


class Examining(Part):
    """Nothing is measured meanwhile."""

    def __init__(self, here: Here) -> None:
        super().__init__(here)
        self._doors = here.stack.enter_context(contextlib.ExitStack())

    def examine(self, names: list[str], asked: dict[str, Any]) -> dict[str, Any]:
        """By name the facts; of those that cannot be had only `trouble`, a sentence."""
        return {name: _facts(name, asked) for name in names}

    def tend(self, everything: bool) -> list[str]:  # noqa: FBT001 - orders have no names for what they are given
        """Puts in order what earlier measurements have left; what was done, in sentences."""
        return tended(self._here.swept, everything=everything)

    def door(self, address: str, ports: tuple[int, int]) -> int:
        """Answers who knocks from now on, on a free port; gives the port."""
        door = Door(address, ports)
        self._doors.callback(door.close)
        return door.port

    def knock(self, source: str, address: str, port: int) -> dict[str, str]:
        """By `tcp` and `udp`, why nobody answers there; empty where somebody does."""
        return unanswered(source, address, port)

    def shut(self) -> None:
        """Closes all doors."""
        self._doors.close()


def _facts(name: str, asked: dict[str, Any]) -> dict[str, Any]:
    try:
        return FACTS[name](asked)
    except (IpperfError, OSError, ValueError, KeyError) as error:
        return {"trouble": f"{type(error).__name__}: {error}"}


part = Examining
