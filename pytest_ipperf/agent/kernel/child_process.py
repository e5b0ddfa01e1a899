"""Child process: a fork of the agent that does one thing, talks to it by a pipe and ends with it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import warnings
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, NoReturn

from pytest_ipperf.core.portable.errors import AgentError

_PR_SET_PDEATHSIG = 1


class ChildProcess:
    """Process that calls `work` with its end of the pipe; `name` is its name in messages.

    If `work` raises an exception, its sentence is sent in place of a message.
    """

    def __init__(self, name: str, work: Callable[[Connection], None]) -> None:
        self._name = name
        self.pipe, child_end = Pipe()
        self._status: int | None = None
        agent = os.getpid()
        with warnings.catch_warnings():
            # The agent has a thread that reads its channel. The child uses nothing that this thread may hold.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._pid = os.fork()
        if not self._pid:
            self.pipe.close()
            _child_main(child_end, work, agent)
        child_end.close()

    def send(self, message: object) -> None:
        """Send a message; raise AgentError if the process is gone."""
        try:
            self.pipe.send(message)
        except OSError:
            raise AgentError(self._exit_message()) from None

    def receive(self) -> Any:
        """Return the next message; raise AgentError if the process is gone or broke."""
        try:
            message = self.pipe.recv()
        except (EOFError, OSError):
            raise AgentError(self._exit_message()) from None
        if isinstance(message, str):
            raise AgentError(f"{self._name} broke: {message}")
        return message

    def is_alive(self) -> bool:
        """Return whether the process still runs."""
        if self._status is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            self._status = status if pid else None
        return self._status is None

    def kill(self) -> None:
        """Kill the process, if it still runs."""
        self.pipe.close()
        if self.is_alive():
            os.kill(self._pid, signal.SIGKILL)
            self._status = os.waitpid(self._pid, 0)[1]

    def _exit_message(self) -> str:
        if self.is_alive():  # its pipe is closed, and it is about to exit
            self._status = os.waitpid(self._pid, 0)[1]
        code = os.waitstatus_to_exitcode(self._status or 0)
        how = f"was killed by signal {-code}" if code < 0 else f"exited with status {code}"
        return f"{self._name} {how} during a run"


def _child_main(pipe: Connection, work: Callable[[Connection], None], agent: int) -> NoReturn:
    """Run the process; it exits without the agent's clean-up."""
    status = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the agent receives it too, and this process ends with the agent
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == agent:  # or the agent died before the signal was set
            work(pipe)
            status = 0
    except EOFError:
        pass
    except Exception as error:  # noqa: BLE001 - whatever it is has to be reported there
        with contextlib.suppress(OSError):
            pipe.send(f"{type(error).__name__}: {error}")
    finally:
        os._exit(status)
