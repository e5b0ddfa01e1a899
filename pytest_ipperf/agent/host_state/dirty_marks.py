"""Marks: what tells the next job that an earlier one has not left a host as it was, until somebody has looked after it.

A mark is a file in one of the folders of `lasting.py`: `unrestored` for what was changed in a network, of which each
namespace has its own, and `left` for folders and processes. Its first line names the host's start, as nothing of what
it tells outlives one; each other line is a note.
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

from pytest_ipperf.agent.host_state.state_dir import ROOM, append, boot, folder, folders, held, network, own_folder
from pytest_ipperf.agent.kernel.processes import lives
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.servers.base import true_root

_LEFT, _UNRESTORED = "left", "unrestored"
_MOST_BYTES = 1 << 16

Note = dict[str, Any]
"""`said`, a sentence; `folder`, the path of one that is left, or `process`, the number and start of one that runs."""


class LeftError(LabError):
    """Something that a measurement has made could not be removed or ended."""

    def __init__(self, said: str, **what: Any) -> None:
        super().__init__(said)
        self.note: Note = {"said": said, **what}


@dataclass(frozen=True)
class Mark:
    """One of them, by its file, its owner and its notes."""

    path: Path
    user: int
    notes: tuple[Note, ...]


def mark(sentences: Iterable[str]) -> None:
    """Notes that this network is not as it was; LabError where that cannot be noted.

    Root of a namespace alone may have no place for it, and its network goes with it.
    """
    notes: list[Note] = [{"said": each} for each in sentences]
    named = network() is not None
    if not notes or (os.geteuid() == 0 and not true_root() and not (named and own_folder())):
        return
    if not named:
        _unnoted(_told(notes), "nothing tells this network from others, which takes Linux 5.14")
    _note(_unrestored(), notes)


def mark_left(notes: Iterable[Note]) -> None:
    """Notes what is left on this host; LabError where that cannot be noted."""
    _note(folder() / _LEFT, list(notes))


def unmark(sentence: str) -> None:
    """Removes this network's mark if it says nothing but this."""
    path, alone = _unrestored(), [{"said": sentence}]
    if _notes(path, os.geteuid()) != alone:
        return
    with contextlib.suppress(OSError), held(path.parent, os.geteuid()) as place:
        if _notes(path.name, os.geteuid(), place) == alone:
            os.unlink(path.name, dir_fd=place)


def marks(*, networks: bool = True) -> list[Mark]:
    """All that this user may see of this host; without `networks` none of those that tell of a network."""
    names = [_LEFT, *([_unrestored().name] if networks else [])]
    found = []
    for user, path in folders():
        for name in names:
            notes = _notes(path / name, user)
            if notes:
                found.append(Mark(path / name, user, tuple(notes)))
            elif notes is None and user == os.geteuid():
                _forget(path / name)
    return found


def marked(*, networks: bool = True) -> str:
    """What is not as it was since an earlier measurement, in a sentence; empty where all is."""
    if not (found := marks(networks=networks)):
        return ""
    own = os.geteuid()
    said = [
        f"{note['said']}{'' if each.user == own else f' (so says user {each.user})'}"
        for each in found
        for note in each.notes
    ]
    return f"an earlier measurement has not left it as it was: {'; '.join(said)}"


def holds(note: Note) -> bool | None:
    """Whether what it tells of is still there; None where nobody can tell but a person."""
    if "folder" in note:
        return os.path.lexists(note["folder"])
    if "process" in note:
        return lives(*note["process"])
    return None


def clear(found: Mark, *, everything: bool) -> list[Note]:
    """Removes the notes of a mark that no longer hold, and with `everything` those that nobody can tell of.

    Another user's mark goes with `everything` and as a whole, so where none of it holds, as what is written there has
    to be that user's. Gives the notes that stay. LabError where the file cannot be changed.
    """
    own = found.user == os.geteuid()
    gone = [note for note in found.notes if not (holds(note) if everything else holds(note) is not False)]
    if not gone or (not own and (not everything or len(gone) < len(found.notes))):
        return list(found.notes)
    name = found.path.name
    try:
        with held(found.path.parent, found.user) as place:  # which another user may have exchanged for a link by now
            stay = [note for note in _notes(name, found.user, place) or () if note not in gone]
            if not stay:
                _remove(name, place)
            elif own:
                _replace(name, place, stay)
    except OSError as error:
        raise LabError(
            f"the mark {found.path} of user {found.user} cannot be removed: {error.strerror}; "
            "have root or that user remove it"
        ) from None
    return stay


def _unrestored() -> Path:
    return folder() / f"{_UNRESTORED}{network()}"


def _note(path: Path, notes: Sequence[Note]) -> None:
    """Adds what is new to the file."""
    if not notes:
        return
    told, user = _told(notes), os.geteuid()
    if not own_folder():
        _unnoted(told, f"{folder()} is not this user's alone")
    try:
        with held(path.parent, user) as place:  # or what another agent notes meanwhile would be lost
            noted = _notes(path.name, user, place)
            if noted is None:
                _remove(path.name, place)
            new = [note for note in notes if note not in (noted or ())]
            _append(path.name, place, [*([] if noted else [boot()]), *map(json.dumps, new)] if new else [])
    except OSError as error:
        _unnoted(told, f"{error.strerror}: {path}")


def _append(name: str, place: int, lines: Sequence[str]) -> None:
    if not lines:
        return
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644, dir_fd=place)
    try:
        append(descriptor, "".join(f"{line}\n" for line in lines))
        os.fchmod(descriptor, 0o644)  # others must not measure here either
    finally:
        os.close(descriptor)


def _replace(name: str, place: int, notes: Sequence[Note]) -> None:
    """Writes the file anew: at any moment either all that was in it is there, or all of this."""
    new = f".{name}"
    _remove(new, place)
    _append(new, place, [boot(), *map(json.dumps, notes)])
    os.rename(new, name, src_dir_fd=place, dst_dir_fd=place)


def _told(notes: Iterable[Note]) -> str:
    return "; ".join(note["said"] for note in notes)


def _unnoted(told: str, why: str) -> None:
    raise LabError(f"it is not as it was ({told}), which cannot be noted: {why}; {ROOM}") from None


def _remove(name: str, place: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=place)


def _notes(path: Path | str, user: int, place: int | None = None) -> list[Note] | None:
    """What a user has noted there since the host's start; None where all of it is of an earlier one."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=place)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != user:
                return []
            start, *lines = file.read(_MOST_BYTES).decode(errors="replace").splitlines()
    except (OSError, ValueError):
        return []
    return list(_read(lines)) if start == boot() else None


def _forget(path: Path) -> None:
    """Removes this user's file of an earlier start of the host."""
    with contextlib.suppress(OSError), held(path.parent, os.geteuid()) as place:
        if _notes(path.name, os.geteuid(), place) is None:  # nobody has noted anything there meanwhile
            _remove(path.name, place)


def _read(lines: Iterable[str]) -> Iterator[Note]:
    """What anybody may have written, so only what has the form of a note; printable, as it is shown."""
    for line in lines:
        note: Any = None
        with contextlib.suppress(ValueError):
            note = json.loads(line)
        if not isinstance(note, dict) or not isinstance(note.get("said"), str):
            note = {"said": line}
        said = "".join(each if each.isprintable() else "?" for each in note["said"])
        read: Note = {"said": said}
        if isinstance(note.get("folder"), str):
            read["folder"] = note["folder"]
        process = note.get("process")
        if isinstance(process, list) and len(process) == 2 and all(isinstance(each, int) for each in process):
            read["process"] = process
        yield read
