"""Private folders for the files of disposable servers, removed with their owner or once stale."""

from __future__ import annotations

import contextlib
import fcntl
import grp
import os
import pwd
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from pytest_ipperf.agent.host_state.dirty_marks import LeftoverError
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.servers.base import Entry

_PREFIX = "ipperf-"
_MKDTEMP_NAME = re.compile(r"ipperf-[a-z0-9_]{8}")  # the form of `mkdtemp`; longer names belong to others
_LOCK = ".lock"
# A folder younger than this may not have been locked yet by its owner.
_YOUNG_S = 5.0
# Postfix distrusts a main.cf that may still be written to, and sleeps until it is a few seconds old. Dovecot distrusts
# the new folders of a mailbox, and saves an index at each look until they are older.
_BACKDATED_S = 60.0


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    """Create a folder below `$TMPDIR`, locked while the context lasts and removed at its end.

    Everyone may enter it, as server programs switch to other users; secrets in it need modes of their own. Raise
    LabError if it cannot be created or removed.
    """
    try:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_parent()))
        folder.chmod(0o755)
        lock = _locked(folder)
    except OSError as error:
        raise LabError(f"no private folder below {_parent()}: {error.strerror}; set TMPDIR to a writable one") from None
    try:
        yield folder
    finally:
        try:
            remove(folder)
        finally:
            os.close(lock)  # only now, or another agent would remove the folder at the same time


def remove(folder: Path) -> None:
    """Remove a private folder; raise LeftoverError if a part of it stays, which `remove_stale` tries again later.

    The lock goes last: a folder without it, left by a process killed meanwhile, would be nobody's.
    """
    try:
        failed = _emptied(folder)
        if failed is None:
            (folder / _LOCK).unlink(missing_ok=True)
            folder.rmdir()
            return
    except FileNotFoundError:
        return
    except OSError as error:
        failed = error
    with contextlib.suppress(OSError):
        (folder / _LOCK).touch(0o600)
        _backdate(folder / _LOCK)  # old enough for `remove_stale`
    what = str(failed.filename).removeprefix(f"{folder}/")
    raise LeftoverError(
        f"private folder {folder} cannot be removed: {failed.strerror}: {what}", folder=str(folder)
    ) from failed


def _emptied(folder: Path) -> OSError | None:
    """Remove as much as possible except the lock; return the first error, if any."""
    failed: OSError | None = None
    for path in [path for path in folder.iterdir() if path.name != _LOCK]:
        try:
            shutil.rmtree(path) if stat.S_ISDIR(path.lstat().st_mode) else path.unlink()
        except OSError as error:
            shutil.rmtree(path, ignore_errors=True)  # as much as possible
            if os.path.lexists(path):
                failed = failed or error
    return failed


def remove_stale() -> int:
    """Remove the private folders of this user whose owners died without doing so; return how many."""
    removed = 0
    for folder in _parent().glob(f"{_PREFIX}*"):
        with contextlib.suppress(LeftoverError):
            removed += remove_abandoned(folder)
    return removed


def abandoned_folders() -> list[Path]:
    """Return this user's private folders whose owners died."""
    found = []
    for folder in sorted(_parent().glob(f"{_PREFIX}*")):
        if (descriptor := _abandoned(folder)) is not None:
            os.close(descriptor)
            found.append(folder)
    return found


def remove_abandoned(folder: Path) -> bool:
    """Remove an abandoned folder; return False if it is none. Raise LeftoverError if a part of it stays."""
    descriptor = _abandoned(folder)
    if descriptor is None:
        return False
    try:
        remove(folder)
    finally:
        os.close(descriptor)
    return True


def populate(folder: str, entries: Iterable[Entry]) -> None:
    """Populate a server's folder, over the files of an earlier start; raise LabError if that fails.

    All entries are created first and given to their owners afterwards, children before parents: the owner of a folder
    could put a link where a file is about to be written or given away.
    """
    created = []
    try:
        for entry in (Entry(""), *entries):
            path = Path(folder, entry.path)
            _make(path, entry)
            created.append((path, entry))
        for path, entry in reversed(created):
            _hand_over(path, entry)
    except (OSError, LookupError) as error:
        raise LabError(f"folder {folder} cannot be populated: {error}; it needs space, rights and the users") from None


def _make(path: Path, entry: Entry) -> None:
    """Create an entry, at first for nobody else: secrets must not be readable before owner and mode are set."""
    if entry.content is None:
        path.mkdir(0o700, exist_ok=True)
        return
    path.unlink(missing_ok=True)  # an old file has an owner, a mode and readers of its own
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        for block in (entry.content,) if isinstance(entry.content, bytes) else entry.content.blocks():
            file.write(block)


def _hand_over(path: Path, entry: Entry) -> None:
    _backdate(path)
    if entry.owner or entry.group:
        owner = pwd.getpwnam(entry.owner).pw_uid if entry.owner else -1
        group = grp.getgrnam(entry.group).gr_gid if entry.group else -1
        os.chown(path, owner, group, follow_symlinks=False)
    path.chmod(entry.mode)


def _backdate(path: Path) -> None:
    before = time.time() - _BACKDATED_S
    os.utime(path, (before, before))


def _parent() -> Path:
    return Path(os.environ.get("TMPDIR") or tempfile.gettempdir())


def _locked(folder: Path) -> int:
    """Return the descriptor that holds the folder's lock; the kernel releases it however the process ends."""
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _abandoned(folder: Path) -> int | None:
    """Return the lock of this user's abandoned folder, or the folder itself if it is empty; None for any other.

    An owner killed before it made the lock, or after it removed it, leaves an empty folder with a name of `mkdtemp`.
    """
    try:
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            return None
        if _MKDTEMP_NAME.fullmatch(folder.name) and not any(folder.iterdir()):
            old = time.time() - found.st_mtime >= _YOUNG_S
            return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW) if old else None
        lock = (folder / _LOCK).lstat()
        if lock.st_uid != os.geteuid() or time.time() - lock.st_mtime < _YOUNG_S:
            return None
        return _locked(folder)
    except (OSError, ValueError):  # not one of ours, its owner lives, somebody else was faster, or an invalid path
        return None
