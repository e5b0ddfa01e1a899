"""The agent's life: it takes orders off its line one by one, answers each, and cleans up when the line ends.

An answer is `("ok", plain data)` or `("error", kind, sentence)`; kind tells the controller whether the testbed is in
trouble or the instrument itself broke. On its way to an answer a long order gives signs of life.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, cast

from pytest_ipperf.agent.host_state.private_dir import private_folder, sweep
from pytest_ipperf.agent.host_state.teardown import undone
from pytest_ipperf.agent.packages.installed import Packages
from pytest_ipperf.agent.paths.packet_counters import RunCounters
from pytest_ipperf.agent.rpc.channel import PULSE, Line
from pytest_ipperf.agent.rpc.handlers import PARTS
from pytest_ipperf.agent.rpc.handlers.base import Here
from pytest_ipperf.core.portable.errors import IpperfError


class Agent:
    """All orders, by name, of the parts in `agent/rpc/handlers/`."""

    def __init__(self, stack: contextlib.ExitStack, code_fd: int, line: Line) -> None:
        swept = sweep()  # what earlier agents left that were killed
        folder = stack.enter_context(private_folder())
        counters = stack.enter_context(contextlib.closing(RunCounters()))
        here = Here(stack, code_fd, line, folder, Packages(folder), counters, swept)
        parts = [PARTS[name](here) for name in PARTS]
        self._orders = {name: getattr(part, name) for part in parts for name in vars(type(part)) if name[0] != "_"}

    def order(self, name: str) -> Callable[..., Any]:
        """What carries it out."""
        if name not in self._orders:
            raise AttributeError(f"no order {name!r}")
        return cast("Callable[..., Any]", self._orders[name])


def serve(channel: Any, code_fd: int) -> None:
    """Runs until the controller goes. `channel` is execnet's; orders are `(name, arguments)`."""
    orders: queue.SimpleQueue[tuple[str, tuple[Any, ...]] | None] = queue.SimpleQueue()
    line, over = Line(channel.send), threading.Event()

    def heard(message: Any) -> None:  # in execnet's receiver thread, where nothing may be raised
        word = message is not None and message[0] == PULSE
        line.heard(message[1] if word else None)
        if not word:
            orders.put(message)
        if message is None:
            over.set()
            os.kill(os.getpid(), signal.SIGTERM)  # an order may be under way: nobody waits for it any more

    def leave(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one must not cut the clean-up short
        sys.exit(0)

    signal.signal(signal.SIGTERM, leave)
    with contextlib.suppress(SystemExit), contextlib.ExitStack() as ending:
        stack = contextlib.ExitStack()
        ending.callback(undone, stack)
        agent = Agent(stack, code_fd, line)
        channel.setcallback(heard, endmarker=None)
        channel.send(("ok", agent.order("hello")()))
        try:
            while (order := orders.get()) is not None:
                with line.busy():
                    answer = _answer(agent, *order)
                channel.send(answer)
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # that of `heard` may be late, in the midst of the clean-up
    if not over.is_set():
        os._exit(0)  # or execnet would wait here for an end of the line that may never come


def _answer(agent: Agent, name: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    try:
        return "ok", agent.order(name)(*arguments)
    except IpperfError as error:
        return "error", type(error).__name__, str(error)
    except Exception as error:  # noqa: BLE001 - whatever broke here has to be told there, with its place
        place = traceback.extract_tb(error.__traceback__)[-1]
        return "error", "AgentError", f"{type(error).__name__}: {error} ({place.filename}, line {place.lineno})"
