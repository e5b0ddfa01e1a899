"""File in pytest's cache to which a session appends values for later sessions.

pytest's own `cache.set` writes all values at once, which for the ten thousand cells of a day are megabytes, each time.
"""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from pytest_ipperf.store.atomic_files import opened_atomically

_FOLDER = "ipperf"


class CacheFile:
    """Values of earlier sessions by key, of each key those of the last `sessions`.

    A line has a key, a session and a value, in JSON, with a tab after each; a later line of the same key and session
    replaces the earlier one. Without pytest's cache, or where it cannot be read, there are no values. Where it cannot
    be written, pytest's warning says so, once. The name has a version, as what is read is what a session has written.
    """

    def __init__(self, config: pytest.Config, name: str, sessions: int) -> None:
        self._config = config
        self._name = name
        self._sessions = sessions
        self._appended = False
        self._writable = True

    def append(self, key: str, session: str, value: object) -> None:
        """Add a value, or replace that of the same key and session."""
        line = "".join(f"{json.dumps(each)}\t" for each in (key, session, value))
        try:
            if self._writable and (path := self._path()):
                with path.open("a", encoding="ascii") as file:
                    file.write(f"\n{line}")  # the end of a line comes first, as the last session may have been killed
                self._appended = True
        except OSError as error:
            self._refused(error)

    def read(self, keys: Collection[str] | None = None) -> dict[str, list[Any]]:
        """Return the values of these keys, or of all, each in the order of their sessions."""
        wanted = None if keys is None else frozenset(map(json.dumps, keys))
        with contextlib.suppress(OSError, ValueError):  # ValueError: damage, as of a disk
            return {
                str(json.loads(key)): [json.loads(each) for each in values.values()]
                for key, values in self._read(wanted)[0].items()
            }
        return {}

    def compact(self) -> None:
        """Rewrite the file without what was replaced, if that is more than half of it and this session has added."""
        try:
            if not self._writable or not self._appended or (path := self._path()) is None:
                return
            found, lines = self._read()
            if lines > 2 * sum(map(len, found.values())):
                with opened_atomically(path) as file:
                    for key, values in found.items():
                        file.writelines(f"\n{key}\t{session}\t{each}\t".encode() for session, each in values.items())
        except OSError as error:
            self._refused(error)

    def _path(self) -> Path | None:
        """Return the path of the file, whose folder is made: another session may have cleared the cache."""
        # `-p no:cacheprovider` removes the attribute.
        cache: pytest.Cache | None = getattr(self._config, "cache", None)
        return cache and cache.mkdir(_FOLDER) / self._name

    def _read(self, wanted: Collection[str] | None = None) -> tuple[dict[str, dict[str, str]], int]:
        """Return the values by key and session, as they are written, and the number of lines; may raise OSError."""
        found: dict[str, dict[str, str]] = {}
        lines = 0
        path = self._path()
        if path is None or not path.exists():
            return found, lines
        with path.open(encoding="ascii", errors="replace") as file:
            for line in file:
                key, _, rest = line.partition("\t")
                # A session that was killed while it wrote has left a part of a line.
                if (wanted is None or key in wanted) and rest.count("\t") == 2 and rest.rstrip("\n").endswith("\t"):
                    lines += 1
                    session, value, _ = rest.split("\t")
                    values = found.setdefault(key, {})
                    values.pop(session, None)
                    values[session] = value
                    if len(values) > self._sessions:
                        del values[next(iter(values))]
        return found, lines

    def _refused(self, error: OSError) -> None:
        self._writable = False
        message = f"pytest-ipperf cannot write {self._name} in pytest's cache: {error}"
        # Where warnings are errors, this one would end a session whose measurements nothing is wrong with.
        with contextlib.suppress(pytest.PytestCacheWarning):
            warnings.warn(pytest.PytestCacheWarning(message), stacklevel=3)
