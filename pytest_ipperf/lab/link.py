"""A link: the line to the agent on a host. Orders out, answers back, each with a deadline.

The only module that imports execnet. Its gateways can come up on a dead host and its calls can wait for ever, so
every step here has a deadline and ends in a sentence.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import execnet

from pytest_ipperf.core.errors import AgentError, LabError
from pytest_ipperf.lab.cargo import cargo
from pytest_ipperf.lab.inventory import Host
from pytest_ipperf.lab.ways import WAYS

_START_S = 20.0
_STOP_S = 2.0
# Runs on the host. The code lives in memory: whatever happens there, no file of ours is left.
_BOOT = """
import os, sys
code = channel.receive()
fd = os.memfd_create("pytest-ipperf")
with open(fd, "wb", closefd=False) as file:
    file.write(code)
sys.path.insert(0, f"/proc/self/fd/{fd}")
from pytest_ipperf.agent.main import serve
serve(channel, fd)
"""


class Link:
    """Open from construction to `close`; use as a context manager."""

    def __init__(self, host: Host, entry: Sequence[str] = ()) -> None:
        self.host = host
        self._group = execnet.Group()
        try:
            self._channel = self._started(entry)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Link:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _started(self, entry: Sequence[str]) -> Any:
        way, settings = WAYS[self.host.way], self.host.settings
        opened: list[Any] = []

        def open_gateway() -> None:
            try:
                gateway = self._group.makegateway(way.spec(settings, entry))
                channel = gateway.remote_exec(_BOOT)
                channel.send(cargo())
                opened.append(channel.receive(_START_S) and channel)
            except Exception as error:  # noqa: BLE001 - it crosses a thread and is told below
                opened.append(error)

        # execnet waits for a gateway's first byte without a deadline of its own.
        thread = threading.Thread(target=open_gateway, daemon=True)
        thread.start()
        thread.join(_START_S)
        if opened and not isinstance(opened[0], Exception):
            return opened[0]
        why = way.diagnosis(settings, entry) or (_last_line(opened[0]) if opened else f"no answer in {_START_S:.0f} s")
        raise AgentError(f"host {self.host.name}: no agent could be started by way {self.host.way}: {why}")

    def order(self, name: str, *arguments: Any, deadline_s: float = 30.0) -> Any:
        """Sends one order and waits for its answer.

        Raises the LabError that the agent reports, or an AgentError when it died or the deadline passed.
        """
        try:
            self._channel.send((name, arguments))
            answer = self._channel.receive(deadline_s)
        except self._channel.TimeoutError:
            raise AgentError(
                f"host {self.host.name}: the agent did not answer order {name!r} in {deadline_s:.0f} s"
            ) from None
        except (EOFError, OSError, self._channel.RemoteError) as error:
            raise AgentError(f"host {self.host.name}: the agent died during order {name!r}") from error
        if answer[0] == "ok":
            return answer[1]
        _, kind, sentence = answer
        raise (AgentError if kind == "AgentError" else LabError)(f"host {self.host.name}: {sentence}")

    def close(self) -> None:
        """Ends the agent; one that does not go by itself is killed."""
        self._group.terminate(timeout=_STOP_S)


def _last_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[-1] if lines else type(error).__name__
