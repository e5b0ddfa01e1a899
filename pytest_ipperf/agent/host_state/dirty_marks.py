"""Dirty marks: notes for later jobs that this host has not been restored, until somebody has looked after it.

A mark is a file in one of the folders of `state_dir.py`: `unrestored` for changes to a network, of which each namespace
has its own, and `left` for folders and processes. Its first line names the host's boot, as a reboot ends all that it
reports; each other line is a note.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_ipperf.agent.host_state.state_dir import (
    NO_SPACE_REMEDY,
    append,
    boot_id,
    ensure_user_dir,
    locked,
    netns_suffix,
    user_dir,
    user_dirs,
)
from pytest_ipperf.agent.kernel.processes import lives
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.servers.base import true_root

_LEFT, _UNRESTORED = "left", "unrestored"
_MOST_BYTES = 1 << 16

Note = dict[str, Any]
"""`said`, a sentence; `folder`, the path of a remaining one, or `process`, the number and start of a running one."""


class LeftoverError(LabError):
    """A folder that a measurement has made could not be removed, or a process not be ended."""

    def __init__(self, sentence: str, **what: Any) -> None:
        super().__init__(sentence)
        self.note: Note = {"said": sentence, **what}


@dataclass(frozen=True)
class DirtyMark:
    """Mark of a host that has not been restored: its file, its owner and its notes."""

    path: Path
    user: int
    notes: tuple[Note, ...]


def mark_dirty(sentences: Iterable[str]) -> None:
    """Mark this network as not restored; raise LabError if the mark cannot be written.

    Root of a namespace alone may have no place for a mark, and needs none, as its network ends with it.
    """
    notes: list[Note] = [{"said": each} for each in sentences]
    named = netns_suffix() is not None
    if not notes or (os.geteuid() == 0 and not true_root() and not (named and ensure_user_dir())):
        return
    if not named:
        _fail_unnoted(_text(notes), "nothing identifies this network, which takes Linux 5.14")
    _note(_unrestored(), notes)


def mark_leftovers(notes: Iterable[Note]) -> None:
    """Mark this host with its leftovers; raise LabError if the mark cannot be written."""
    _note(user_dir() / _LEFT, list(notes))


def unmark_dirty(sentence: str) -> None:
    """Remove this network's mark if this is its only note."""
    path, alone = _unrestored(), [{"said": sentence}]
    if _notes(path, os.geteuid()) != alone:
        return
    with contextlib.suppress(OSError), locked(path.parent, os.geteuid()) as place:
        if _notes(path.name, os.geteuid(), place) == alone:
            os.unlink(path.name, dir_fd=place)


def all_marks(*, networks: bool = True) -> list[DirtyMark]:
    """Return all marks of this host that this user may see; without `networks`, none of a network."""
    names = [_LEFT, *([_unrestored().name] if networks else [])]
    found = []
    for user, path in user_dirs():
        for name in names:
            notes = _notes(path / name, user)
            if notes:
                found.append(DirtyMark(path / name, user, tuple(notes)))
            elif notes is None and user == os.geteuid():
                _remove_outdated(path / name)
    return found


def dirty_reason(*, networks: bool = True) -> str:
    """Return a sentence on what an earlier measurement has not restored; empty if all is restored."""
    if not (found := all_marks(networks=networks)):
        return ""
    this_user = os.geteuid()
    sentences = [
        f"{note['said']}{'' if each.user == this_user else f' (so says user {each.user})'}"
        for each in found
        for note in each.notes
    ]
    return f"an earlier measurement has not restored it: {'; '.join(sentences)}"


def still_holds(note: Note) -> bool | None:
    """Return whether a note still holds; None if only a person can judge."""
    if "folder" in note:
        return os.path.lexists(note["folder"])
    if "process" in note:
        return lives(*note["process"])
    return None


def clear_notes(found: DirtyMark, *, everything: bool) -> list[Note]:
    """Remove the notes of a mark that no longer hold, and with `everything` those that only a person can judge.

    Another user's mark is only removed as a whole, with `everything` and if no note of it holds, as a file written
    there has to be that user's. Return the notes that stay. Raise LabError if the file cannot be changed.
    """
    is_own = found.user == os.geteuid()
    gone = [note for note in found.notes if not (still_holds(note) if everything else still_holds(note) is not False)]
    if not gone or (not is_own and (not everything or len(gone) < len(found.notes))):
        return list(found.notes)
    name = found.path.name
    try:
        with locked(found.path.parent, found.user) as place:  # another user may have replaced it by a link meanwhile
            stay = [note for note in _notes(name, found.user, place) or () if note not in gone]
            if not stay:
                _remove(name, place)
            elif is_own:
                _replace(name, place, stay)
    except OSError as error:
        raise LabError(
            f"the mark {found.path} of user {found.user} cannot be removed: {error.strerror}; "
            "have root or that user remove it"
        ) from None
    return stay


def _unrestored() -> Path:
    return user_dir() / f"{_UNRESTORED}{netns_suffix()}"


def _note(path: Path, notes: Sequence[Note]) -> None:
    """Append the new notes to the file."""
    if not notes:
        return
    text, user = _text(notes), os.geteuid()
    if not ensure_user_dir():
        _fail_unnoted(text, f"{user_dir()} is not this user's alone")
    try:
        with locked(path.parent, user) as place:  # otherwise concurrent notes of another agent would be lost
            noted = _notes(path.name, user, place)
            if noted is None:
                _remove(path.name, place)
            new = [note for note in notes if note not in (noted or ())]
            _append(path.name, place, [*([] if noted else [boot_id()]), *map(json.dumps, new)] if new else [])
    except OSError as error:
        _fail_unnoted(text, f"{error.strerror}: {path}")


def _append(name: str, place: int, lines: Sequence[str]) -> None:
    if not lines:
        return
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644, dir_fd=place)
    try:
        append(descriptor, "".join(f"{line}\n" for line in lines))
        os.fchmod(descriptor, 0o644)  # other users must not measure here either
    finally:
        os.close(descriptor)


def _replace(name: str, place: int, notes: Sequence[Note]) -> None:
    """Replace the file atomically: at any moment it has either all of the old notes or all of these."""
    new = f".{name}"
    _remove(new, place)
    _append(new, place, [boot_id(), *map(json.dumps, notes)])
    os.rename(new, name, src_dir_fd=place, dst_dir_fd=place)


def _text(notes: Iterable[Note]) -> str:
    return "; ".join(note["said"] for note in notes)


def _fail_unnoted(text: str, why: str) -> None:
    raise LabError(f"it is not restored ({text}), which cannot be noted: {why}; {NO_SPACE_REMEDY}") from None


def _remove(name: str, place: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=place)


def _notes(path: Path | str, user: int, place: int | None = None) -> list[Note] | None:
    """Return the notes of a mark since the host's boot; None if all of them are from an earlier boot."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=place)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != user:
                return []
            start, *lines = file.read(_MOST_BYTES).decode(errors="replace").splitlines()
    except (OSError, ValueError):
        return []
    return list(_read(lines)) if start == boot_id() else None


def _remove_outdated(path: Path) -> None:
    """Remove this user's file of an earlier boot of the host."""
    with contextlib.suppress(OSError), locked(path.parent, os.geteuid()) as place:
        if _notes(path.name, os.geteuid(), place) is None:  # unless it was replaced meanwhile
            _remove(path.name, place)


def _read(lines: Iterable[str]) -> Iterator[Note]:
    """Yield notes from lines that anybody may have written, reduced to a note's form and printable characters."""
    for line in lines:
        note: Any = None
        with contextlib.suppress(ValueError):
            note = json.loads(line)
        if not isinstance(note, dict) or not isinstance(note.get("said"), str):
            note = {"said": line}
        text = "".join(each if each.isprintable() else "?" for each in note["said"])
        read: Note = {"said": text}
        if isinstance(note.get("folder"), str):
            read["folder"] = note["folder"]
        process = note.get("process")
        if isinstance(process, list) and len(process) == 2 and all(isinstance(each, int) for each in process):
            read["process"] = process
        yield read
