"""Cache of data sent to this host, by SHA-256, below `$XDG_CACHE_HOME` or `~/.cache`.

This module is sent before all other code and runs without it, so it needs the standard library alone. On a host that
can cache nothing everything works too: all data is sent anew.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    import hashlib

NAME = "pytest-ipperf"
KEPT_S = 30 * 24 * 3600.0
"""Seconds after which an unused entry is removed."""
# Writing a file takes seconds; an older partial file was left by a killed writer.
_HALF_S = 600.0
_ENTRY = re.compile(r"[0-9a-f]{64}(-[0-9a-f]{8})?")
_DIGEST_BYTES = 32
_HALF = re.compile(r"new-[0-9a-f]{16}")


class Cache:
    """Cache of one user.

    `folder` is its path, even if it does not exist yet, empty if there can be none; `section` is a part of the cache.
    `note` says why an existing cache is not used, in a sentence that follows the host's name; else it is empty. Entries
    are verified at each use, and appear under their names complete or not at all.
    """

    def __init__(self, section: str = "") -> None:
        place = next(_places(), "")
        self._parents = [place, f"{place}/{NAME}"] if section else [place]
        self.folder = "/".join(filter(None, (place, NAME, section))) if place else ""
        self.note = ""
        with contextlib.suppress(OSError), self._opened():
            pass  # sets the note

    def get(self, digest: str, made: str = "", *, used: bool = True) -> bytes | None:
        """Return the entry of a digest, and mark it as `used` now; None if there is none or it is damaged.

        With `made` it is the byte-code that this host compiled from the data of that digest, for a Python with that
        magic number.
        """
        name = f"{digest}-{made}" if made else digest
        with contextlib.suppress(OSError), self._opened() as folder:
            if not _ENTRY.fullmatch(name):
                return None
            asked = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            with os.fdopen(asked, "rb") as file:
                head = file.read(_DIGEST_BYTES) if made else bytes.fromhex(digest)
                data = file.read()
                if _sha256(data).digest() == head:
                    with contextlib.suppress(OSError):  # a read-only cache
                        if used:
                            os.utime(asked)
                    return data
            os.unlink(name, dir_fd=folder)
        return None

    def put(self, data: bytes, of: str = "", made: str = "") -> None:
        """Store data under its digest, if possible; with `made`, as byte-code under the digest of its source."""
        half, digest = f"new-{os.urandom(8).hex()}", _sha256(data)
        name, head = (f"{of}-{made}", digest.digest()) if made else (digest.hexdigest(), b"")
        with contextlib.suppress(OSError), self._opened(make=True) as folder:
            try:
                written = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
                with os.fdopen(written, "wb") as file:
                    file.write(head + data)
                os.rename(half, name, src_dir_fd=folder, dst_dir_fd=folder)
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(half, dir_fd=folder)

    def entries(self) -> dict[str, int]:
        """Return the size in bytes of each entry by its name, a digest."""
        return {name: found.st_size for name, found in self._files().items() if _ENTRY.fullmatch(name)}

    def tidy(self) -> None:
        """Remove entries unused for long, and unfinished files."""
        now = time.time()
        old = [
            name
            for name, found in self._files().items()
            if now - found.st_mtime > (KEPT_S if _ENTRY.fullmatch(name) else _HALF_S)
        ]
        self._remove(old)

    def clear(self) -> list[int]:
        """Remove all entries, and the folder if it is empty then; return the removed entries' sizes in bytes."""
        files = self._files()
        removed = self._remove(files)
        with contextlib.suppress(OSError), self._opened():
            Path(self.folder).rmdir()
        return [files[name].st_size for name in removed if _ENTRY.fullmatch(name)]

    def _files(self) -> dict[str, os.stat_result]:
        """Return the entries and unfinished files, but no other files."""
        found = {}
        with contextlib.suppress(OSError), self._opened() as folder, os.scandir(folder) as listed:
            for each in listed:
                if _ENTRY.fullmatch(each.name) or _HALF.fullmatch(each.name):
                    with contextlib.suppress(FileNotFoundError):  # another agent was faster
                        found[each.name] = each.stat(follow_symlinks=False)
        return found

    def _remove(self, names: Iterable[str]) -> list[str]:
        """Remove these files; return the names of the removed ones."""
        removed = []
        with contextlib.suppress(OSError), self._opened() as folder:
            for name in names:
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=folder)
                    removed.append(name)
        return removed

    @contextlib.contextmanager
    def _opened(self, *, make: bool = False) -> Iterator[int]:
        """Open the folder and yield its descriptor, so that the checked folder is the one used; OSError if unusable."""
        if not self.folder:
            raise FileNotFoundError
        if make:
            for path in (*self._parents, self.folder):
                Path(path).mkdir(0o700, exist_ok=True)
        try:
            descriptor = os.open(self.folder, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC)
        except NotADirectoryError:
            if Path(self.folder).is_symlink() or Path(self.folder).exists():
                self._refuse("it is a link or a file")
            raise
        try:
            found = os.fstat(descriptor)
            if found.st_uid != os.geteuid():
                self._refuse("it belongs to another user")
            if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                self._refuse("others may write to it")
            yield descriptor
        finally:
            os.close(descriptor)

    def _refuse(self, why: str) -> NoReturn:
        self.note = f"the cache {self.folder} is not used: {why}; remove it"
        raise PermissionError


def _sha256(data: bytes) -> hashlib._Hash:
    import hashlib  # noqa: PLC0415 - OpenSSL with it, and the agents of a lab have no use for a cache

    return hashlib.sha256(data)


def _places() -> Iterator[str]:
    """Yield possible places, best first: folders of this user, also where `$HOME` is still another user's."""
    homes = [os.environ.get("HOME", "")]
    with contextlib.suppress(KeyError):  # a user without a name
        homes.append(pwd.getpwuid(os.geteuid()).pw_dir)
    for place in (os.environ.get("XDG_CACHE_HOME", ""), *(f"{home}/.cache" for home in homes)):
        if place.startswith("/") and _is_users_own(Path(place)):
            yield place


def _is_users_own(place: Path) -> bool:
    """Return whether the folder belongs to this user, or would if it were created."""
    for path in (place, place.parent):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            return path.stat().st_uid == os.geteuid()
    return False
