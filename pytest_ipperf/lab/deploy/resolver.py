"""Resolve the dependencies of packages for a host: which distributions, and which version of each.

Requirements are evaluated for the host's own Python. What is installed here is taken wherever it runs there, so that
versions are alike on all hosts; else a wheel of the same version, or of one that does run there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from pytest_ipperf.agent.packages.installed import interpreter
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.lab.deploy.interpreters import Python
from pytest_ipperf.lab.deploy.wheels import WHEELS, Wheel

# Each round takes back a choice by what another one has asked for since, and they end when nothing new is asked for.
_ROUNDS = 20


@dataclass(frozen=True, slots=True)
class Installed:
    """A distribution of this machine, as a `Wheel` is one of an index. `runs`: its compiled modules do so there."""

    found: Distribution
    runs: bool

    @property
    def name(self) -> str:
        """As it is compared."""
        return canonicalize_name(self.found.name)

    @property
    def version(self) -> str:
        """As it tells."""
        return self.found.version

    @property
    def requires(self) -> tuple[str, ...]:
        """As in its metadata."""
        return tuple(self.found.requires or ())

    @property
    def python(self) -> str:
        """Those that run it."""
        return ", ".join(self.found.metadata.get_all("Requires-Python") or ())

    @property
    def compiled(self) -> bool:
        """Whether any of its modules is."""
        return any(file.suffix == ".so" for file in self.found.files or ())

    @property
    def stripped(self) -> bool:
        """Whether something of it stays here, for which pure Python stands in."""
        return self.compiled and not self.runs

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Where each belongs, and what is in it; LabError where that cannot be told."""
        if self.found.files is None:
            raise LabError(f"{self.found.name} was installed here without a list of its files; install it with pip")
        for file in self.found.files:
            if needed(file) and (self.runs or file.suffix != ".so"):
                try:
                    yield str(file), Path(str(file.locate())).read_bytes()
                except OSError as error:
                    raise LabError(
                        f"package {self.found.name} cannot be sent: {file} of it cannot be read here "
                        f"({error.strerror}); install it again (pip install --force-reinstall {self.found.name})"
                    ) from None


@dataclass(frozen=True, slots=True)
class Fetched:
    """A wheel that stands in for what is installed here; `stripped` where that has compiled modules and it has none."""

    wheel: Wheel
    stripped: bool

    @property
    def name(self) -> str:
        """As it is compared."""
        return self.wheel.name

    @property
    def version(self) -> str:
        """As it tells."""
        return self.wheel.version

    @property
    def requires(self) -> tuple[str, ...]:
        """As in its metadata."""
        return self.wheel.requires

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Where each belongs, and what is in it."""
        return ((path, data) for path, data in self.wheel.files() if needed(PurePosixPath(path)))


def needed(file: PurePosixPath) -> bool:
    """Of the files of a distribution those that are sent: modules, what identifies it, and its licences."""
    info = file.parts[0].endswith(".dist-info")
    wanted = file.name == "METADATA" or "licenses" in file.parts if info else file.suffix in {".py", ".so"}
    return wanted and not {"..", "/", "tests"} & set(file.parts)


def resolve(packages: Sequence[str], host: Python) -> list[Installed | Fetched]:
    """These and all that they need there, in the order of their names; LabError for what cannot be had for it."""
    asked: dict[str, SpecifierSet] = {}
    for _ in range(_ROUNDS):
        found, newly = _chosen(packages, host, asked)
        if newly == asked:
            break
        asked = newly
    return [found[name] for name in sorted(found)]


def _chosen(
    packages: Sequence[str], host: Python, asked: dict[str, SpecifierSet]
) -> tuple[dict[str, Installed | Fetched], dict[str, SpecifierSet]]:
    """What there is for it, of versions that all have `asked` for so far; and what they ask for together."""
    found: dict[str, Installed | Fetched] = {}
    newly = dict(asked)
    left = [Requirement(text) for text in packages]
    instead = " and ".join(requirement.name for requirement in left)
    seen: set[tuple[str, frozenset[str]]] = set()
    while left:
        for each in left:
            name = canonicalize_name(each.name)
            newly[name] = newly.get(name, SpecifierSet()) & each.specifier
        fresh = {canonicalize_name(each.name) for each in left} - found.keys()
        wishes = [_Wish(Requirement(f"{name}{newly[name]}"), host) for name in sorted(fresh)]
        WHEELS.prepare({each.fetched: each.compiled for each in wishes if each.fetched}, host)
        found |= {each.name: each.granted(instead) for each in wishes}
        keys = {(canonicalize_name(each.name), frozenset(each.extras or {""})) for each in left} - seen
        seen |= keys
        left = [
            each for name, extras in sorted(keys, key=str) for each in _asked_by(found[name].requires, host, extras)
        ]
    return found, newly


def _asked_by(requires: Iterable[str], host: Python, extras: frozenset[str]) -> Iterator[Requirement]:
    for each in map(Requirement, requires):
        environments = ({**dict(host.markers), "extra": extra} for extra in extras)
        if each.marker is None or any(each.marker.evaluate(environment) for environment in environments):
            yield each


class _Wish:
    """A distribution that a host needs: how it is to be had, in the order of preference."""

    def __init__(self, requirement: Requirement, host: Python) -> None:
        self.name = requirement.name
        self._host = host
        self._here: Installed | None = None
        with contextlib.suppress(PackageNotFoundError):
            runs = host.runs_what_is_compiled_for(Python.from_report(interpreter()))
            self._here = Installed(distribution(self.name), runs)
        self._meets = self._here is not None and host.meets(self._here.python)
        self.compiled = self._here is not None and self._here.compiled
        """Whether without compiled modules it would be slower than what is here."""
        self.fetched: Requirement | None = requirement
        """The wheel that is better than what is here; None where there is none."""
        if self._here and self._meets and requirement.specifier.contains(self._here.version, prereleases=True):
            same = Requirement(f"{self.name}=={self._here.version}")
            self.fetched = same if self._here.stripped else None

    def granted(self, instead: str) -> Installed | Fetched:
        """What there is; LabError without anything that runs there."""
        wheel = WHEELS.find(self.fetched, self._host, compiled=self.compiled) if self.fetched else None
        if wheel:
            return Fetched(wheel, stripped=self.compiled and not wheel.compiled)
        if self._here and self._meets:
            return self._here
        python, way_out = self._host.marker("python_full_version"), f"install {instead} on the host"
        why = f"; {said}" if self.fetched and (said := WHEELS.why(self.fetched, self._host)) else ""
        if not self._here:
            raise LabError(
                f"its Python {python} needs {self.name}, which is not installed here to be sent; "
                f"{way_out}, or {self.name} here{why}"
            )
        raise LabError(
            f"its Python {python} does not run {self.name} {self._here.version}, which is installed here and wants "
            f"{self._here.python}; {way_out}, or an older {self.name} here{why}"
        )
