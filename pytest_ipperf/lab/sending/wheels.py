"""Wheels: distributions for the Python of a host that are not installed here, from the user's own package index.

pip fetches them, as it is configured here (index, proxies, folders of wheels, `PIP_NO_INDEX`), for a Python and a
platform that it is told. Once fetched they are kept below `~/.cache`, and nothing is asked for again.
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
from shutil import which
from typing import Self

from packaging.requirements import Requirement
from packaging.tags import Tag, parse_tag
from packaging.utils import canonicalize_name
from packaging.version import Version

from pytest_ipperf.agent.cache import Cache
from pytest_ipperf.agent.folder import private_folder, sweep
from pytest_ipperf.lab.sending.pythons import Python

ROOM = "wheels"
# What pip says where it has found nothing of a distribution, and where it has reached no index.
_NONE = re.compile(r"satisfies the requirement (\S+) \(from versions: none\)")
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
        self._cache = Cache(ROOM)
        self._read: dict[str, Wheel] = {}
        self._found: dict[tuple[str, Python], Wheel | None] = {}
        self._vain_s = 0.0
        self._none: dict[Python, set[str]] = defaultdict(set)

    def prepare(self, requirements: Sequence[Requirement], python: Python) -> None:
        """Fetches several at once, as each time takes a second; what cannot be had together `find` asks for alone."""
        missing = [each for each in requirements if not self._kept(each, python)]
        if len(missing) > 1:
            self._fetch([_text(each) for each in missing], python)

    def find(self, requirement: Requirement, python: Python) -> Wheel | None:
        """The newest that meets it and runs there, of those that are kept here, else of the index; None without one."""
        key = _text(requirement), python
        if key not in self._found:
            found = self._kept(requirement, python)
            if not found:
                self._fetch([key[0]], python)
                found = self._kept(requirement, python)
            self._found[key] = found
        return self._found[key]

    def _kept(self, requirement: Requirement, python: Python) -> Wheel | None:
        tags = frozenset(python.tags())
        fits = [
            (Version(wheel.version), digest)
            for digest, wheel in self._all().items()
            if wheel.name == canonicalize_name(requirement.name)
            and requirement.specifier.contains(wheel.version)
            and python.meets(wheel.python)
            and wheel.tags & tags
        ]
        if not fits:
            return None
        digest = max(fits)[1]
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
        if not (pip := _pip()) or self._vain_s > _VAIN_S or len(self._none[python]) > 1:
            return
        self._cache.tidy()
        began, before = time.monotonic(), len(self._read)
        sweep()
        with private_folder() as folder:
            # It finds what another Python runs, but takes the markers of dependencies for ours; so without them.
            asked = [
                *pip, "download", "--no-deps", "--only-binary=:all:", "--quiet", "--no-input",
                "--disable-pip-version-check", "--retries=0", f"--timeout={_ANSWER_S}", f"--dest={folder}",
                *_target(python), *requirements,
            ]  # fmt: skip
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                done = subprocess.run(
                    asked, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_WHEELS_S, check=False
                )
                self._none[python] |= set(_NONE.findall(done.stderr))
            for path in folder.glob("*.whl"):
                self._add(data := path.read_bytes())
                self._cache.put(data)
        if len(self._read) == before:
            self._vain_s += time.monotonic() - began


@cache
def _pip() -> tuple[str, ...]:
    """Ours, or any: it is told what it fetches for."""
    if find_spec("pip"):
        return (sys.executable, "-P", "-m", "pip")
    found = which("pip3") or which("pip")
    return (found,) if found else ()


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
