"""Sessions of pytest in forks of a process that has imported the modules that all of them need.

The imports, listed in `session_preload`, take longer than most sessions.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import multiprocessing
import os
import runpy
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path

_TOP = Path(__file__).parents[3]
_LOADED = "tests.support.sessions.session_preload"
# Variables that a starting Python reads and a fork does not; two others are applied by hand.
_AT_START = ("PYTHON", "LC_", "LANG")
_TOLD = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")


class Forked:
    """A session with the part of `Popen`'s interface that `Pytester.run` uses."""

    stdin = None

    def __init__(self, process: BaseProcess) -> None:
        self._process = process

    def wait(self, timeout: float | None = None) -> int:
        """Return the status at the end, negative for a signal; raise TimeoutExpired after `timeout` seconds."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("pytest", timeout or 0.0)
        return self._process.exitcode

    def kill(self) -> None:
        """Kill it by SIGKILL."""
        self._process.kill()


def _at_start(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(_AT_START) and name not in _TOLD}


_FIRST = _at_start(os.environ)


def can_fork(env: Mapping[str, str]) -> bool:
    """Return whether a fork would behave like a new Python with this environment."""
    return _at_start(env) == _FIRST


def fork(arguments: Sequence[str], env: Mapping[str, str], out: str, err: str) -> Forked:
    """Start `python -m pytest` with these arguments in a fork that writes to these files."""
    session = _Session(list(arguments), str(Path.cwd()), dict(env), (out, err), _path())
    process = _server().Process(target=session.run)
    process.start()
    return Forked(process)


@cache
def _server() -> multiprocessing.context.ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([_LOADED])
    with contextlib.chdir(_TOP):  # the search path of modules
        forkserver.ensure_running()
    return context


@cache
def _path() -> list[str]:
    """Return the search path of a new Python, without PYTHONPATH and its current folder."""
    code = "import json, sys; print(json.dumps(sys.path[1:]))"
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    reported = subprocess.run([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, check=True).stdout
    path: list[str] = json.loads(reported)
    return path


@dataclass(frozen=True)
class _Session:
    arguments: list[str]
    folder: str
    env: dict[str, str]
    files: tuple[str, str]
    path: list[str]

    def run(self) -> None:
        """Act as `python -m pytest` in the forked process."""
        for number, name in enumerate(self.files, start=1):
            file = os.open(name, os.O_WRONLY | os.O_APPEND)
            os.dup2(file, number)
            os.close(file)
        os.chdir(self.folder)
        os.environ.clear()
        os.environ.update(self.env)
        sys.dont_write_bytecode = bool(self.env.get("PYTHONDONTWRITEBYTECODE"))
        sys.path[:] = [self.folder, *filter(None, self.env.get("PYTHONPATH", "").split(os.pathsep)), *self.path]
        sys.argv[:] = ["pytest", *self.arguments]
        # A folder of an inner suite may have the same name.
        for name in [name for name in sys.modules if name.split(".")[0] == "tests"]:
            del sys.modules[name]
        importlib.invalidate_caches()
        try:
            runpy.run_module("pytest", run_name="__main__", alter_sys=True)
        finally:
            atexit._run_exitfuncs()
