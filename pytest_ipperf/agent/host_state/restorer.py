"""Rollback helper: a process that changes a host for an agent, and rolls back when the agent's pipe closes.

It has a session of its own and no parent, so that it outlives the agent however that ends. It makes the changes itself:
a command just started by an agent that is killed could otherwise finish after the rollback.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pytest_ipperf.agent.host_state.dirty_marks import mark_dirty, unmark_dirty
from pytest_ipperf.agent.host_state.snapshot import (
    SETTINGS,
    Snapshot,
    device_features,
    differences,
    setting,
    snapshot,
)
from pytest_ipperf.agent.host_state.undo_log import UndoLog, abandoned_undo_log, claim_undo_log, remove_stale
from pytest_ipperf.agent.kernel.ethtool import set_features
from pytest_ipperf.core.portable.errors import LabError

_COMMAND_S = 10.0
# How long a reverted change may take to show.
_SETTLED_S, _POLL_S = 0.3, 0.05
PATIENCE_S = 25.0
SILENT = (
    f"process pytest-ipperf-rollback, which restores this host, gave no answer in {PATIENCE_S:g} s "
    "(if it is stopped: kill -CONT)"
)
"""Dirty mark of a host with a silent rollback helper, until the helper has restored the host after all."""
_PACKAGES = {"ip": "iproute2", "tc": "iproute2", "modprobe": "kmod", "ethtool": "ethtool"}
_WRITE = ":write"  # in place of a program: a file and the text to write to it
FEATURES = ":features"
"""In place of a program: sets the wanted features of a device, a bit mask in hexadecimal digits."""
# The snapshot shows their effects; of other programs only the exit status is known.
_VERIFIED = {"ip", "tc", _WRITE, FEATURES}
_EVERYWHERE = ("/net/ipv4/ip_forward", "/conf/all/forwarding")

Note = dict[str, Any]
"""`do`, a command; `undo`, the commands that revert it; `made`, the numbers of the devices that it made."""


class RollbackHelper:
    """Changes made to this host so far, and its state before; each public method serves a request."""

    def __init__(self) -> None:
        self._undo_log: UndoLog | None = None
        self._before: Snapshot = {}
        self._notes: list[Note] = []
        self._left: list[str] = []

    def start(self, request: dict[str, Any]) -> dict[str, Any]:
        """Start the undo log and take a snapshot, after undoing what a killed rollback helper has left.

        Its changes are known from its undo log, or from the request of its agent.
        """
        remove_stale()
        undo_log = claim_undo_log()
        known = (
            [{"before": request["before"]}, *({"note": note} for note in request["notes"])] if request["before"] else []
        )
        records, torn = undo_log.records() if undo_log else ([], [])
        self._left = roll_back(records or known, torn)
        self._undo_log = undo_log  # it is kept if the host should be marked and cannot be
        if self._undo_log:
            self._undo_log.clear()
        self._note(before=snapshot())
        return {"before": self._before}

    def make(self, request: dict[str, Any]) -> dict[str, Any]:
        """Make one change, given as `do` and `undo`, or as `path` and `value`."""
        note = _written(request["path"], request["value"]) if "path" in request else {**request, "made": []}
        if not note["do"]:
            return {"noted": []}
        if note["do"][0] == _WRITE:
            self._note(also=dict(setting(note["do"][1])))
        if note["do"][0] == FEATURES:
            self._note(also=dict(device_features(note["do"][1])))
        devices = {name for _, name in socket.if_nameindex()}
        self._note(note=note)
        trouble = run(note["do"])
        if trouble:
            self._notes.pop()
            if self._undo_log:
                self._undo_log.take_back()
            raise LabError(trouble)
        new = [(number, name) for number, name in socket.if_nameindex() if name not in devices]
        note["made"] = [number for number, name in new if name in note["do"]]
        self._note_done(made=note["made"])
        return {"noted": [note]}

    def back(self, request: dict[str, Any]) -> dict[str, Any]:
        """Undo the changes after the first `keep`; verification follows at the end."""
        failed = _undo_notes(self._notes[request["keep"] :])
        self._note_done(back=request["keep"])
        sentences = [each for program, each in failed.items() if program not in _VERIFIED]
        self._left += sentences
        mark_dirty(sentences)
        return {}

    def undo(self, _: object = None) -> dict[str, Any]:
        """Undo all changes, and mark the host with every fact that is not as it was; return these sentences."""
        left = self._left + roll_back([{"before": self._before}, *({"note": note} for note in self._notes)])
        self._left, self._notes = [], []
        if self._undo_log:
            self._undo_log.close()
            self._undo_log = None
        unmark_dirty(SILENT)
        return {"said": left}

    def _note(self, **record: Any) -> None:
        if self._undo_log:
            self._undo_log.add(record)
        self._apply(record)

    def _note_done(self, **record: Any) -> None:
        """Log a completed step if possible; without it fewer differences are attributed to this helper's changes."""
        with contextlib.suppress(LabError):
            if self._undo_log:
                self._undo_log.add(record)
        self._apply(record)

    def _apply(self, record: dict[str, Any]) -> None:
        self._before, self._notes = _read([{"before": self._before}, *({"note": n} for n in self._notes), record])


def run(argv: Sequence[str]) -> str:
    """Run a command, write a file or set features; return what went wrong as a sentence, empty if nothing did."""
    if argv[0] in {_WRITE, FEATURES}:
        return _set(*argv)
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
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines() or [f"exit status {done.returncode}"]
    return f"{' '.join(argv)}: {' '.join(lines)}{_hint(done.stderr)}"


def _set(kind: str, name: str, value: str) -> str:
    try:
        if kind == FEATURES:
            set_features(name, int(value, 16))
        else:
            Path(name).write_text(value, encoding="ascii")
    except OSError as error:
        what = (
            f"the offloads of device {name} cannot be set" if kind == FEATURES else f"{name} cannot be set to {value}"
        )
        return f"{what}: {error.strerror}{_hint(str(error))}"
    return ""


def _hint(text: str) -> str:
    return "; it takes root" if os.geteuid() and re.search("not permitted|Permission denied", text) else ""


def roll_back(records: Iterable[dict[str, Any]], torn: Iterable[str] = ()) -> list[str]:
    """Undo the changes of an undo log, the last first; mark the host with what is not as it was, and return it.

    `torn` says which part of the undo log could not be read. Raise LabError if the host cannot be marked.
    """
    before, notes = _read(records)
    left = [*torn, *(_undo_and_verify(before, notes) if notes else ())]
    mark_dirty(left)
    return left


def _undo_and_verify(before: Snapshot, notes: Sequence[Note]) -> list[str]:
    failed = _undo_notes(notes)
    end = time.monotonic() + _SETTLED_S
    while (left := _differences(before, notes)) and time.monotonic() < end:
        time.sleep(_POLL_S)
    # A step may fail because someone else has done it.
    left += [trouble for program, trouble in failed.items() if left or program not in _VERIFIED]
    return left


def _undo_notes(notes: Sequence[Note]) -> dict[str, str]:
    """Undo the changes, the last first; return what each failed program said."""
    return {step[0]: trouble for note in reversed(notes) for step in note["undo"] if (trouble := run(step))}


def roll_back_abandoned() -> list[str]:
    """Undo what a killed rollback helper has left here; return sentences on what is not as it was."""
    try:
        undo_log = abandoned_undo_log()
    except LabError as error:
        return roll_back([], [str(error)])
    if undo_log is None:
        return []
    try:
        left = roll_back(*undo_log.records())
    except LabError:
        undo_log.release()
        raise
    undo_log.close()
    unmark_dirty(SILENT)  # that helper was silent, and killed later
    return left


def _differences(before: Snapshot, notes: Sequence[Note]) -> list[str]:
    if not before:
        return []  # its undo log is torn, which is reported
    commands = [command for note in notes for command in (note["do"], *note["undo"])]
    made = {number for note in notes for number in note["made"]}
    files, devices = (
        [fact["name"] for fact in before.values() if fact["kind"] == kind] for kind in ("setting", "features")
    )
    try:
        return differences(before, snapshot(files, devices), commands, made)
    except LabError as error:
        return [f"it is unknown whether all is restored: {error}"]


def _read(records: Iterable[dict[str, Any]]) -> tuple[Snapshot, list[Note]]:
    before: Snapshot = {}
    notes: list[Note] = []
    for record in records:
        before = {**record.get("also", {}), **record.get("before", before)}
        if "note" in record:
            notes.append(record["note"])
        elif "made" in record:
            notes[-1] = {**notes[-1], "made": record["made"]}
        elif "back" in record:
            notes[record["back"] :] = [{**note, "undo": []} for note in notes[record["back"] :]]
    return before, notes


def _written(path: str, value: str) -> Note:
    """Return the note of a setting and its new value; `do` is empty if it has the value already."""
    file = SETTINGS / path
    try:
        was = file.read_text(encoding="ascii").strip()
        undo = [[_WRITE, str(file), was]]
        if str(file).endswith(_EVERYWHERE):  # writing this file writes the setting of every device and the default
            every = sorted(SETTINGS.glob(f"net/{file.relative_to(SETTINGS / 'net').parts[0]}/conf/*/forwarding"))
            values = [(str(each), each.read_text(encoding="ascii").strip()) for each in every]
            undo += [[_WRITE, each, own] for each, own in values if own != was]
    except OSError as error:
        raise LabError(f"{file} cannot be read: {error.strerror}") from None
    return {"do": [_WRITE, str(file), value] if value != was else [], "undo": undo, "made": []}


def _answer(helper: RollbackHelper, request: dict[str, Any]) -> dict[str, Any]:
    number = request.pop("number")
    try:
        answer: dict[str, Any] = getattr(helper, request.pop("request"))(request)
    except LabError as error:
        answer = {"error": str(error)}
    except Exception as error:  # noqa: BLE001 - what broke here is reported there, and what was done is still undone
        place = traceback.extract_tb(error.__traceback__)[-1]
        answer = {"error": f"{type(error).__name__}: {error} ({place.filename}, line {place.lineno})"}
    return {**answer, "number": number}


def main() -> None:
    """Serve requests from standard input, a line of JSON each, until it ends; then undo all remaining changes."""
    if os.fork():
        os._exit(0)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    helper = RollbackHelper()
    try:
        for line in sys.stdin:
            sys.stdout.write(json.dumps(_answer(helper, json.loads(line))) + "\n")
            sys.stdout.flush()
    finally:
        helper.undo()
