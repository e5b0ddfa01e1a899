"""Wheels: distributions for the Python of a host that are not installed here, from the user's own package index.

pip fetches them, as it is configured here (index, proxies, folders of wheels, `PIP_NO_INDEX`), for a Python and a
platform that it is given. Once fetched they are kept below `~/.cache` and not asked for again, but for a pure one where
a compiled one is wanted.
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
# What pip says where it has found nothing of a distribution, and where it has reached no index.
_NONE = re.compile(r"satisfies the requirement (\S+) \(from versions: none\)")
# What it notes, and says nowhere else, of an index that gives no answer; 404 is one: that it has nothing of that name.
_UNREACHED = re.compile(r"Could not fetch URL (?!.*: 404 Client Error).*(?= - skipping)")
# User and password, for which it notes stars in most URLs, not in all.
_SECRET = re.compile(r"(?<=://)\S*@")
_LOG = "log"
# For one answer of the index; for all wheels that are asked for at once; in vain, before nothing more is tried.
_ANSWER_S, _WHEELS_S, _VAIN_S = 10, 60.0, 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """What it is for stands in the file itself, whatever it is called. `requires` as in its metadata."""

    name: str
    version: str
    requires: tuple[str, ...]
    python: str
    tags: frozenset[Tag]
    data: bytes = field(repr=False)

    @classmethod
    def of(cls, data: bytes) -> Self:
        """Reads one; ValueError where it is none."""
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
        """Whether any of its modules is."""
        return any(name.endswith(".so") for name, _ in self.files())

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Where each belongs, and what is in it."""
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
    """Those that are kept here, and those that an index has.

    What cannot be had is not asked for twice. Nothing more is asked for where that took long, or two distributions were
    there in no version, which is how it looks without a network.
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
        """Fetches several at once, as each time takes a second; what cannot be had together `find` asks for alone.

        With each stands whether a `compiled` one is wanted.
        """
        missing = [
            _text(each) for each, compiled in requirements.items() if self._lacks(each, python, compiled=compiled)
        ]
        if len(missing) > 1:
            self._fetch(missing, python)

    def find(self, requirement: Requirement, python: Python, *, compiled: bool = False) -> Wheel | None:
        """The newest that meets it and fits closest there, of those that are kept here; None without one.

        The index is asked where none is, or none that is `compiled` where that is wanted.
        """
        key = _text(requirement), python
        if key not in self._found:
            if self._lacks(requirement, python, compiled=compiled):
                self._fetch([key[0]], python)
            self._found[key], self._why[key] = self._kept(requirement, python), self._failure
        return self._found[key]

    def why(self, requirement: Requirement, python: Python) -> str:
        """Why `find` has none, as far as pip tells; else empty."""
        return self._why.get((_text(requirement), python), "")

    def _lacks(self, requirement: Requirement, python: Python, *, compiled: bool) -> bool:
        """Whether the index is to be asked, which may have better than what is kept."""
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
            # It finds what another Python runs, but takes the markers of dependencies for ours; so without them.
            asked = [
                *pip, "download", "--no-deps", "--only-binary=:all:", "--quiet", "--no-input",
                "--disable-pip-version-check", "--retries=0", f"--timeout={_ANSWER_S}", f"--dest={folder}",
                f"--log={folder}/{_LOG}", *_target(python), *requirements,
            ]  # fmt: skip
            (folder / _LOG).touch(0o600)  # it may name an index with its password
            said, self._failure = _run(asked, folder / _LOG)
            self._none[python] |= set(_NONE.findall(said))
            if not self._failure:
                self._answered |= {(each, python) for each in requirements}
            for path in folder.glob("*.whl"):
                self._add(data := path.read_bytes())
                self._cache.put(data)
        if self._failure and len(self._read) == before:
            self._vain_s += time.monotonic() - began


@cache
def _pip() -> tuple[str, ...]:
    """Ours, or any: it is told what it fetches for."""
    if find_spec("pip"):
        return (sys.executable, "-P", "-m", "pip")
    found = which("pip3") or which("pip")
    return (found,) if found else ()


def _run(pip: Sequence[str], log: Path) -> tuple[str, str]:
    """What it says, and in a clause why it failed; empty where it has not."""
    try:
        done = subprocess.run(
            pip, stdin=subprocess.DEVNULL, capture_output=True, errors="replace", timeout=_WHEELS_S, check=False
        )
    except OSError as error:
        return "", f"pip cannot be started ({error.strerror})"
    except subprocess.TimeoutExpired:
        return "", f"pip gave no answer in {_WHEELS_S:g} s"
    noted = log.read_text(errors="replace")
    failed = _complaint(done.stderr, noted) or f"pip ended with status {done.returncode}"
    return done.stderr, failed if done.returncode else ""


def _complaint(said: str, noted: str) -> str:
    """Why no index was reached, else the last of what was said; without users and passwords."""
    lines = _UNREACHED.findall(noted) or said.strip().splitlines()
    return f"pip said: {_SECRET.sub('', printable(lines[-1]))}" if lines else ""


def _text(requirement: Requirement) -> str:
    return f"{canonicalize_name(requirement.name)}{requirement.specifier}"


def _target(python: Python) -> Iterator[str]:
    """What pip is to take itself for."""
    yield f"--python-version={python.marker('implementation_version')}"
    yield "--implementation=cp"
    yield f"--abi={python.abi_tag or 'none'}"
    for platform in python.platforms or ["any"]:
        yield f"--platform={platform}"


WHEELS = Wheels()
"""Those of this process."""
