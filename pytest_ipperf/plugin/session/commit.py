"""Ask git for the commit of the code that a session runs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_TIMEOUT_S = 5.0
"""Seconds after which a slow file system has no commit: it describes a session and must not delay it."""
_OF_A_HOOK = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")
"""Variables of git's hooks, which may name another repository."""


def commit_facts(folder: Path) -> dict[str, str | bool]:
    """Return the `commit` that is checked out in the repository of a folder, and whether tracked files are `dirty`.

    Both are absent where git is not installed or does not know a commit of that folder, and `dirty` where it does not
    answer.
    """
    commit = _git(folder, "rev-parse", "--verify", "HEAD")
    if not commit:
        return {}
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return {"commit": commit, **({} if changes is None else {"dirty": bool(changes)})}


def _git(folder: Path, *words: str) -> str | None:
    """Return what git prints; None if it does not answer. Without locks, as another git may work in the folder."""
    environment = {name: text for name, text in os.environ.items() if name not in _OF_A_HOOK}
    try:
        done = subprocess.run(
            ["git", "--no-optional-locks", "-C", str(folder), *words],
            stdin=subprocess.DEVNULL, capture_output=True, env=environment, timeout=_TIMEOUT_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace").strip() if done.returncode == 0 else None
