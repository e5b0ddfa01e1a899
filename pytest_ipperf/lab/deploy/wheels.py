"""Wheels: distributions for the Python of a host that are not installed here, from the user's own package index.

pip fetches them with its configuration on this machine (index, proxies, wheel directories, `PIP_NO_INDEX`), for a given
Python and platform. Fetched wheels are kept below `~/.cache` and are not requested again, except a pure one if a
compiled one is wanted.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import re
import subprocess
import sys
import time
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email.message import Message
from email.parser import BytesParser
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Self

from packaging.requirements import Requirement
from packaging.tags import Tag, parse_tag
from packaging.utils import canonicalize_name
from packaging.version import Version

from pytest_ipperf.agent.host_state.private_dir import private_folder, remove_stale
from pytest_ipperf.agent.packages.cache import Cache
from pytest_ipperf.core.printable import printable
from pytest_ipperf.lab.deploy.interpreters import Python

CACHE_SECTION = "wheels"
# pip's message if it found no version of a distribution, or reached no index.
_NONE = re.compile(r"satisfies the requirement (\S+) \(from versions: none\)")
# pip reports an unreachable index only in its log; a 404 is an answer, as the index has nothing of that name.
_UNREACHED = re.compile(r"Could not fetch URL (?!.*: 404 Client Error).*(?= - skipping)")
# pip hides user and password in most URLs of its log, but not in all.
_SECRET = re.compile(r"(?<=://)\S*@")
_LOG = "log"
# Time-outs of one answer of the index and of one call of pip; total time of failed calls before it gives up.
_ANSWER_S, _WHEELS_S, _VAIN_S = 10, 60.0, 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """A wheel, described by its own metadata and not by its file name."""

    name: str
    version: str
    requires: tuple[str, ...]
    python: str
    tags: frozenset[Tag]
    data: bytes = field(repr=False)

    @classmethod
    def of(cls, data: bytes) -> Self:
        """Read a wheel; raise ValueError if `data` is none."""
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                about, built = (_head(archive, name) for name in ("METADATA", "WHEEL"))
        except (KeyError, zipfile.BadZipFile) as error:
            raise ValueError(f"no wheel: {error}") from None
        return cls(
            name=canonicalize_name(about["Name"]),
            version=about["Version"],
            requires=tuple(about.get_all("Requires-Dist") or ()),
            python=about.get("Requires-Python", ""),
            tags=frozenset(tag for text in built.get_all("Tag") or () for tag in parse_tag(text)),
            data=data,
        )

    @property
    def compiled(self) -> bool:
        """Return whether it has compiled modules."""
        return any(name.endswith(".so") for name, _ in self.files())

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Iterate over the path and content of each file."""
        with zipfile.ZipFile(io.BytesIO(self.data)) as archive:
            for each in archive.infolist():
                top, _, rest = each.filename.partition("/")
                kind, _, inner = rest.partition("/")
                if top.endswith(".data"):
                    if kind in ("purelib", "platlib") and not each.is_dir():
                        yield inner, archive.read(each)
                elif not each.is_dir():
                    yield each.filename, archive.read(each)


def _head(archive: zipfile.ZipFile, name: str) -> Message:
    inside = (each.split("/") for each in archive.namelist())
    paths = ["/".join(each) for each in inside if each[0].endswith(".dist-info") and each[1:] == [name]]
    return BytesParser().parsebytes(archive.read(paths[0] if paths else name))


class Wheels:
    """Wheels kept on this machine, and those of the package index.

    Failed requests are not repeated. No more requests are made once they took too long in total, or once the index had
    no version of two distributions, which suggests that there is no network.
    """

    def __init__(self) -> None:
        self._cache = Cache(CACHE_SECTION)
        self._read: dict[str, Wheel] = {}
        self._found: dict[tuple[str, Python], Wheel | None] = {}
        self._answered: set[tuple[str, Python]] = set()
        self._why: dict[tuple[str, Python], str] = {}
        self._failure = ""
        self._vain_s = 0.0
        self._none: dict[Python, set[str]] = defaultdict(set)

    def prepare(self, requirements: Mapping[Requirement, bool], python: Python) -> None:
        """Fetch several wheels at once, as each call of pip takes a second; `find` later requests failed ones alone.

        Each requirement maps to whether a `compiled` wheel is wanted.
        """
        missing = [
            _text(each) for each, compiled in requirements.items() if self._lacks(each, python, compiled=compiled)
        ]
        if len(missing) > 1:
            self._fetch(missing, python)

    def find(self, requirement: Requirement, python: Python, *, compiled: bool = False) -> Wheel | None:
        """Return the newest kept wheel that meets the requirement and fits `python` best; None if there is none.

        The index is asked if no wheel is kept, or no compiled one and `compiled` is set.
        """
        key = _text(requirement), python
        if key not in self._found:
            if self._lacks(requirement, python, compiled=compiled):
                self._fetch([key[0]], python)
            self._found[key], self._why[key] = self._kept(requirement, python), self._failure
        return self._found[key]

    def why(self, requirement: Requirement, python: Python) -> str:
        """Return why `find` has no wheel, as far as pip says; else empty."""
        return self._why.get((_text(requirement), python), "")

    def _lacks(self, requirement: Requirement, python: Python, *, compiled: bool) -> bool:
        """Return whether the index must be asked, as it may have a better wheel than those that are kept."""
        key = _text(requirement), python
        if key in self._found or key in self._answered:
            return False
        kept = self._kept(requirement, python)
        return not kept or (compiled and not kept.compiled and bool(python.platforms))

    def _kept(self, requirement: Requirement, python: Python) -> Wheel | None:
        places = {tag: -place for place, tag in enumerate(python.tags())}
        fits = [
            (Version(wheel.version), max(places[tag] for tag in suits), digest)
            for digest, wheel in self._all().items()
            if wheel.name == canonicalize_name(requirement.name)
            and requirement.specifier.contains(wheel.version)
            and python.meets(wheel.python)
            and (suits := wheel.tags & places.keys())
        ]
        if not fits:
            return None
        digest = max(fits)[-1]
        self._cache.get(digest)  # so that it counts as used
        return self._read[digest]

    def _all(self) -> Mapping[str, Wheel]:
        for digest in self._cache.entries().keys() - self._read.keys():
            if data := self._cache.get(digest, used=False):
                self._add(data)
        return self._read

    def _add(self, data: bytes) -> None:
        with contextlib.suppress(ValueError):
            self._read[hashlib.sha256(data).hexdigest()] = Wheel.of(data)

    def _fetch(self, requirements: Sequence[str], python: Python) -> None:
        self._failure = ""
        if not (pip := _pip()) or self._vain_s > _VAIN_S or len(self._none[python]) > 1:
            return
        self._cache.tidy()
        began, before = time.monotonic(), len(self._read)
        remove_stale()
        with private_folder() as folder:
            # pip finds wheels for another Python, but evaluates the markers of dependencies for ours.
            command = [
                *pip, "download", "--no-deps", "--only-binary=:all:", "--quiet", "--no-input",
                "--disable-pip-version-check", "--retries=0", f"--timeout={_ANSWER_S}", f"--dest={folder}",
                f"--log={folder}/{_LOG}", *_target(python), *requirements,
            ]  # fmt: skip
            (folder / _LOG).touch(0o600)  # it may name an index with its password
            stderr, self._failure = _run(command, folder / _LOG)
            self._none[python] |= set(_NONE.findall(stderr))
            if not self._failure:
                self._answered |= {(each, python) for each in requirements}
            for path in folder.glob("*.whl"):
                self._add(data := path.read_bytes())
                self._cache.put(data)
        if self._failure and len(self._read) == before:
            self._vain_s += time.monotonic() - began


@cache
def _pip() -> tuple[str, ...]:
    """Return the command of our own pip or of any other; the target Python is an option."""
    if find_spec("pip"):
        return (sys.executable, "-P", "-m", "pip")
    program = which("pip3") or which("pip")
    return (program,) if program else ()


def _run(pip: Sequence[str], log: Path) -> tuple[str, str]:
    """Run pip; return its error output, and a clause that says why it failed, empty if it did not."""
    try:
        done = subprocess.run(
            pip, stdin=subprocess.DEVNULL, capture_output=True, errors="replace", timeout=_WHEELS_S, check=False
        )
    except OSError as error:
        return "", f"pip cannot be started ({error.strerror})"
    except subprocess.TimeoutExpired:
        return "", f"pip gave no answer in {_WHEELS_S:g} s"
    logged = log.read_text(errors="replace")
    failed = _complaint(done.stderr, logged) or f"pip ended with status {done.returncode}"
    return done.stderr, failed if done.returncode else ""


def _complaint(stderr: str, logged: str) -> str:
    """Return why no index was reached, else the last line of pip's output; without users and passwords."""
    lines = _UNREACHED.findall(logged) or stderr.strip().splitlines()
    return f"pip said: {_SECRET.sub('', printable(lines[-1]))}" if lines else ""


def _text(requirement: Requirement) -> str:
    return f"{canonicalize_name(requirement.name)}{requirement.specifier}"


def _target(python: Python) -> Iterator[str]:
    """Return pip's options for the target Python."""
    yield f"--python-version={python.marker('implementation_version')}"
    yield "--implementation=cp"
    yield f"--abi={python.abi_tag or 'none'}"
    for platform in python.platforms or ["any"]:
        yield f"--platform={platform}"


WHEELS = Wheels()
"""The instance of this process."""
