"""RPC server of an agent: handle the controller's calls one by one, and clean up when the channel closes.

A call is `(name, arguments)`, its arguments decoded by the annotations of the handler. A reply is `("ok", result)`,
encoded likewise, or `("error", kind, sentence)`; kind tells the controller whether the testbed is in trouble or the
instrument itself broke. Before its reply a long call sends keep-alives.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import sys
import threading
import traceback
import typing
from collections.abc import Callable
from functools import partial
from typing import Any

from pytest_ipperf.agent.host_state.private_dir import private_folder, remove_stale
from pytest_ipperf.agent.host_state.teardown import teardown
from pytest_ipperf.agent.packages.installed import Packages
from pytest_ipperf.agent.paths.packet_counters import RunCounters
from pytest_ipperf.agent.rpc.channel import HEARTBEAT, Channel
from pytest_ipperf.agent.rpc.codec import Decoder, MismatchError, encoder
from pytest_ipperf.agent.rpc.handlers import HANDLERS
from pytest_ipperf.agent.rpc.handlers.base import AgentContext
from pytest_ipperf.core.portable.errors import AgentError, IpperfError

_Call = tuple[str, tuple[Any, ...]]
_BLOCKS_S = 2.0


class Agent:
    """Agent: the handlers of all RPC methods by name, from the classes in `agent/rpc/handlers/`."""

    def __init__(self, stack: contextlib.ExitStack, code_fd: int, channel: Channel) -> None:
        removed_folders = remove_stale()  # leftovers of agents that were killed
        folder = stack.enter_context(private_folder())
        counters = stack.enter_context(contextlib.closing(RunCounters()))
        context = AgentContext(stack, code_fd, channel, folder, Packages(folder), counters, removed_folders)
        groups = [HANDLERS[name](context) for name in HANDLERS]
        self._handlers = {
            name: getattr(group, name) for group in groups for name in vars(type(group)) if name[0] != "_"
        }
        self._methods: dict[str, _Method] = {}

    def call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        """Decode the arguments of a call, call the handler, and return its result as plain data."""
        if name not in self._methods:
            if name not in self._handlers:
                raise AttributeError(f"no method {name!r}")
            self._methods[name] = _Method(name, self._handlers[name])
        return self._methods[name].call(arguments)


class _Method:
    """RPC method with the codec of its parameters and its result, made at its first call."""

    def __init__(self, name: str, handler: Callable[..., Any]) -> None:
        hints = typing.get_type_hints(handler)
        self._name, self._handler = name, handler
        self._encode = encoder(hints.pop("return"))
        decoder = Decoder()
        self._parameters = [(parameter, decoder.decoder(of)) for parameter, of in hints.items()]

    def call(self, arguments: tuple[Any, ...]) -> Any:
        if len(arguments) > len(self._parameters):
            expected = f"expected at most {len(self._parameters)}"
            raise AgentError(f"call {self._name!r} has {len(arguments)} arguments, {expected}")
        given, parameter = [], ""
        try:
            for (parameter, decode), plain in zip(self._parameters, arguments, strict=False):  # noqa: B007 - for errors
                given.append(decode(plain))
        except MismatchError as error:
            raise AgentError(error.sentence(f"call {self._name!r}: {parameter}")) from None
        result = self._handler(*given)
        return self._encode(result) if self._encode else result


def serve(gateway_channel: Any, code_fd: int, watchdog_s: float = 0.0) -> None:
    """Serve calls until the controller closes `gateway_channel`, which is execnet's; a call is `(name, arguments)`.

    If the channel is over a network, `watchdog_s` are the seconds for which the controller may be silent.
    """
    calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
    channel, over = Channel(gateway_channel.send), threading.Event()

    def receive(message: Any) -> None:  # in execnet's receiver thread, where nothing may be raised
        heartbeat = message is not None and message[0] == HEARTBEAT
        channel.received(message[1] if heartbeat else None)
        if not heartbeat:
            calls.put(message)
        if message is None:
            over.set()
            os.kill(os.getpid(), signal.SIGTERM)  # interrupts a running call, as nobody waits for its reply any more

    def exit_cleanly(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second signal must not interrupt the clean-up
        sys.exit(0)

    signal.signal(signal.SIGTERM, exit_cleanly)
    with contextlib.suppress(SystemExit), contextlib.ExitStack() as shutdown:
        stack = contextlib.ExitStack()
        shutdown.callback(teardown, stack)
        agent = Agent(stack, code_fd, channel)
        gateway_channel.setcallback(receive, endmarker=None)
        gateway_channel.send(("ok", agent.call("hello", ())))
        if watchdog_s:
            channel.arm_watchdog(watchdog_s)
        try:
            for call in iter(partial(_next_call, calls), None):
                with channel.handling_call():
                    reply = _reply(agent, *call)
                gateway_channel.send(reply)
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the signal of `receive` may come late, during the clean-up
    if not over.is_set():
        os._exit(0)  # or execnet would wait here for an end of the channel that may never come


def _next_call(calls: queue.SimpleQueue[_Call | None]) -> _Call | None:
    """Return the next call, None at the end of the channel.

    Python runs the handler of a signal that comes just before it blocks only when it wakes up, so it never blocks long.
    """
    while True:
        with contextlib.suppress(queue.Empty):
            return calls.get(timeout=_BLOCKS_S)


def _reply(agent: Agent, name: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    try:
        return "ok", agent.call(name, arguments)
    except IpperfError as error:
        return "error", type(error).__name__, str(error)
    except Exception as error:  # noqa: BLE001 - whatever broke here has to be reported there, with its place
        place = traceback.extract_tb(error.__traceback__)[-1]
        return "error", "AgentError", f"{type(error).__name__}: {error} ({place.filename}, line {place.lineno})"
