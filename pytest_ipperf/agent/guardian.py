"""The guardian: the process that changes a host for an agent, and puts all of it back when the agent's line ends.

It lives in a session of its own and belongs to nobody, so that it outlives the agent however that ends. It makes the
changes itself: what an agent that is killed has just started would else be done when it has been undone.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

_COMMAND_S = 10.0
_PACKAGES = {"ip": "iproute2", "tc": "iproute2", "modprobe": "kmod", "ethtool": "ethtool", "nft": "nftables"}
SETTINGS = "/proc/sys"
WRITE = ":write"
"""In place of a program: a file and what is to be written to it."""

Note = dict[str, Any]
"""`do`, a command, and `undo`, the commands that take it back."""


def run(argv: Sequence[str]) -> str:
    """Runs a command, or writes a file; what went wrong, as a sentence, empty where nothing did."""
    if argv[0] == WRITE:
        try:
            Path(argv[1]).write_text(argv[2], encoding="ascii")
        except OSError as error:
            return f"{argv[1]} cannot be set to {argv[2]}: {error.strerror}"
        return ""
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_COMMAND_S, check=False
        )
    except FileNotFoundError:
        package = _PACKAGES.get(argv[0])
        return f"program {argv[0]!r} is not installed" + (f" (Debian: apt-get install {package})" if package else "")
    except (OSError, subprocess.SubprocessError) as error:
        return f"{' '.join(argv)}: {error}"
    if not done.returncode:
        return ""
    said = (done.stderr.strip() or done.stdout.strip()).splitlines() or [f"exit status {done.returncode}"]
    return f"{' '.join(argv)}: {' '.join(said)}"


def written(path: str, value: str) -> Note | str:
    """The note of a setting that is to have that value; a sentence where it cannot be read."""
    file = Path(path)
    if not file.is_absolute():
        file = Path(SETTINGS, path)
    try:
        return {"do": [WRITE, str(file), value], "undo": [[WRITE, str(file), file.read_text("ascii").strip()]]}
    except OSError as error:
        return f"{file} cannot be read: {error.strerror}"


def undo(notes: Iterable[Note]) -> list[str]:
    """Undoes all, the last first; what went wrong."""
    steps = [step for note in reversed(list(notes)) for step in note["undo"]]
    return [said for step in steps if (said := run(step))]


class Guardian:
    """What has been changed here so far, and what was before."""

    def __init__(self) -> None:
        self._notes: list[Note] = []

    def start(self, order: dict[str, Any]) -> dict[str, Any]:
        """Takes over what an earlier guardian was told that was killed."""
        self._notes = list(order["notes"])
        return {"before": {}}

    def make(self, order: dict[str, Any]) -> dict[str, Any]:
        """Makes one change."""
        note: Note | str = order
        if "path" in order:
            note = written(order["path"], order["value"])
            if isinstance(note, str):
                return {"error": note}
            if note["do"][2] == note["undo"][0][2]:
                return {"noted": []}
        assert isinstance(note, dict)  # noqa: S101 - see above
        note = {"do": note["do"], "undo": note["undo"]}
        self._notes.append(note)
        said = run(note["do"])
        if said:
            self._notes.pop()
            return {"error": said}
        return {"noted": [note]}

    def undo(self, _: object = None) -> dict[str, Any]:
        """Undoes all of it."""
        notes, self._notes = self._notes, []
        return {"said": undo(notes)}


def main() -> None:
    """Takes orders from standard input until it ends, then undoes what is left."""
    if os.fork():
        os._exit(0)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    guardian = Guardian()
    try:
        for line in sys.stdin:
            order = json.loads(line)
            answer = getattr(guardian, order["order"])(order)
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
    finally:
        guardian.undo()
