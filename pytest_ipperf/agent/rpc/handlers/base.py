"""Base class of the RPC handlers, and the context of the agent that they share."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from pathlib import Path

from pytest_ipperf.agent.kernel.processors import Processors
from pytest_ipperf.agent.packages.installed import Packages
from pytest_ipperf.agent.paths.packet_counters import RunCounters
from pytest_ipperf.agent.rpc.channel import Channel
from pytest_ipperf.agent.servers.server_process import ServerProcess


@dataclass(frozen=True)
class AgentContext:
    """Resources of an agent from its start on.

    `stack` is undone at its end. `code_fd` is an open file with its packed code. `folder` is its private folder, and
    `removed_folders` the number of folders of killed agents that it has removed.
    """

    stack: contextlib.ExitStack
    code_fd: int
    channel: Channel
    folder: Path
    packages: Packages
    counters: RunCounters
    removed_folders: int
    servers: dict[str, ServerProcess] = field(default_factory=dict)
    processors: Processors = field(default_factory=Processors)


class Handlers:
    """Group of RPC methods: each public method is one, called with arguments of the types that it declares.

    `lab/agents/methods.py` declares the same methods for the controller. Whatever has to be undone is put on the stack
    of the context.
    """

    def __init__(self, context: AgentContext) -> None:
        self._context = context
