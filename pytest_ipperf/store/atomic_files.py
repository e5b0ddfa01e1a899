"""Write files atomically: a reader sees the old file or the new one, never half of one."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def check_is_file(path: Path) -> None:
    """OSError where something is there that is no file; some of that would keep its reader waiting for ever."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is no file", str(path))


def write_atomically(path: Path, data: bytes) -> Path:
    """Writes a file beside its place first; OSError where that cannot be done, and then what was there stays.

    What is no file, as a terminal or a pipe, is written as it is.
    """
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return path
    target = path.resolve()  # a link stays a link
    beside = target.with_name(f".{target.name}.part")
    try:
        with beside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(target)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
    return path
