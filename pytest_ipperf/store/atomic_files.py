"""Write files atomically: a reader sees the old file or the new one, never part of one."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


def check_is_file(path: Path) -> None:
    """Raise OSError if the path exists and is no regular file; reading some of those would block for ever."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))


def write_atomically(path: Path, data: bytes) -> Path:
    """Write a file by way of a temporary file beside it; on OSError the old file is unchanged.

    A terminal, a pipe or another special file is written directly.
    """
    with opened_atomically(path) as file:
        file.write(data)
    return path


@contextlib.contextmanager
def opened_atomically(path: Path) -> Iterator[BinaryIO]:
    """Open a file to write as `write_atomically` does; after any exception the old file is unchanged."""
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    target = path.resolve()  # a symbolic link is kept
    beside = target.with_name(f".{target.name}.part")
    try:
        with beside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
