"""File in pytest's cache to which a session appends values for later sessions.

pytest's own `cache.set` writes all values at once, which for the ten thousand cells of a day are megabytes, each time.
"""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Collection, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from pytest_ipperf.store.atomic_files import opened_atomically

_FOLDER = "ipperf"


class CacheFile:
    """Values of earlier sessions by key, of each key those of the last `sessions`.

    A line has a key, a session and a value, in JSON, separated by tabs; a later line of the same key and session
    replaces the earlier one. Without pytest's cache, or where it cannot be read, there are no values. Where it cannot
    be written, pytest's warning says so, once.
    """

    def __init__(self, config: pytest.Config, name: str, sessions: int) -> None:
        self._config = config
        self._name = name
        self._sessions = sessions
        self._writable = True

    def append(self, key: str, session: str, value: object) -> None:
        """Add a value, or replace that of the same key and session."""
        line = "\t".join(json.dumps(each) for each in (key, session, value))
        try:
            if self._writable and (path := self._path):
                with path.open("a", encoding="ascii") as file:
                    file.write(f"\n{line}")  # the end of a line comes first, as the last session may have been killed
        except OSError as error:
            self._refused(error)

    def read(self, keys: Collection[str] | None = None) -> dict[str, list[Any]]:
        """Return the values of these keys, or of all, each in the order of their sessions."""
        wanted = None if keys is None else frozenset(map(json.dumps, keys))
        with contextlib.suppress(OSError):
            return {
                json.loads(key): [json.loads(each) for each in values.values()]
                for key, values in self._read(wanted).items()
            }
        return {}

    def compact(self) -> None:
        """Rewrite the file without what was replaced, if that is more than half of it."""
        try:
            if not self._writable or (path := self._path) is None or not path.exists():
                return
            found = self._read()
            lines = sum(1 for _ in _lines(path))
            if lines > 2 * sum(map(len, found.values())):
                with opened_atomically(path) as file:
                    for key, values in found.items():
                        file.writelines(f"\n{key}\t{session}\t{value}".encode() for session, value in values.items())
        except OSError as error:
            self._refused(error)

    @cached_property
    def _path(self) -> Path | None:
        # `-p no:cacheprovider` removes the attribute.
        cache: pytest.Cache | None = getattr(self._config, "cache", None)
        return cache and cache.mkdir(_FOLDER) / self._name

    def _read(self, wanted: Collection[str] | None = None) -> dict[str, dict[str, str]]:
        """Return the values by key and session, all as they are written; OSError if they cannot be read."""
        found: dict[str, dict[str, str]] = {}
        for key, session, value in _lines(self._path) if self._path else ():
            if wanted is None or key in wanted:
                values = found.setdefault(key, {})
                values.pop(session, None)
                values[session] = value
                if len(values) > self._sessions:
                    del values[next(iter(values))]
        return found

    def _refused(self, error: OSError) -> None:
        self._writable = False
        message = f"pytest-ipperf cannot write {self._name} in pytest's cache: {error}"
        # Where warnings are errors, this one would end a session whose measurements nothing is wrong with.
        with contextlib.suppress(pytest.PytestCacheWarning):
            warnings.warn(pytest.PytestCacheWarning(message), stacklevel=3)


def _lines(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the complete lines of a file, each as key, session and value; none if there is no file."""
    if not path.exists():
        return
    with path.open(encoding="ascii", errors="replace") as file:
        for line in file:
            try:
                key, session, value = line.rstrip("\n").split("\t")
                json.loads(key), json.loads(value)
            except ValueError:  # a session was killed while it wrote
                continue
            yield key, session, value
