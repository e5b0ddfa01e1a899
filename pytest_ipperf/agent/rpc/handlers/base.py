"""What the parts of an agent share, and what a part is."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from pytest_ipperf.agent.packages.installed import Packages
from pytest_ipperf.agent.paths.packet_counters import RunCounters
from pytest_ipperf.agent.rpc.channel import Line


@dataclass(frozen=True)
class Here:
    """What an agent has from its first moment on.

    `stack` is undone when it ends. `code_fd` is an open file with its packed code. `folder` is its private one, and
    `swept` how many of agents that were killed it has removed.
    """

    stack: contextlib.ExitStack
    code_fd: int
    line: Line
    folder: Path
    packages: Packages
    counters: RunCounters
    swept: int


class Part:
    """Some of the orders: each public method is one, and takes and gives plain data only.

    What it has to undo it puts on the stack of `here`.
    """

    def __init__(self, here: Here) -> None:
        self._here = here
