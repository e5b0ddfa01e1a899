"""Users that run the project in tests: the current one, and one without rights."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
_NOBODY = "65534"
# By `env`, as setpriv may still start programs that this user may not.
_AS_NOBODY = ("setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", "--", "env")
_PACKAGES = ("pytest_ipperf", "execnet", "packaging")


@dataclass(frozen=True)
class User:
    """How to run Python as a user: the preceding words, the interpreter, and the environment that finds the package."""

    words: tuple[str, ...]
    python: str
    env: Mapping[str, str]

    def argv(self, code: str, *arguments: str) -> list[str]:
        """Return the command that runs Python code."""
        return [*self.words, self.python, "-c", code, *arguments]


@pytest.fixture(scope="session")
def me() -> User:
    """The user who runs the tests."""
    found = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return User((), sys.executable, {**os.environ, "PYTHONPATH": found})


@contextlib.contextmanager
def _folder_of_this_process(prefix: str) -> Iterator[str]:
    """A temporary folder that everybody may read, and that no fork of this process removes when it ends."""
    folder, owner = tempfile.mkdtemp(prefix=prefix), os.getpid()
    try:
        Path(folder).chmod(0o755)
        yield folder
    finally:
        if os.getpid() == owner:
            shutil.rmtree(folder)


@pytest.fixture(scope="session")
def nobody(me: User) -> Iterator[User]:
    """A user without rights: for root another user, with a copy of the files that this one could not read."""
    if os.geteuid() != 0:
        yield me
        return
    for python in (sys.executable, "/usr/bin/python3"):
        asked = [*_AS_NOBODY, python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
        if not subprocess.run(asked, capture_output=True, check=False, cwd="/").returncode:
            break
    else:
        pytest.skip("there is no Python >= 3.11 here that a user without rights may run")
    # Not below pytest's own folder, which only its owner may enter.
    with _folder_of_this_process("pytest-ipperf-copy-") as folder:
        for name in _PACKAGES:
            # Other workers compile modules meanwhile; an unfinished file has a temporary name.
            half = shutil.ignore_patterns("*.pyc.*")
            shutil.copytree(Path(str(import_module(name).__file__)).parent, Path(folder, name), ignore=half)
        env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        yield User(_AS_NOBODY, python, env)
