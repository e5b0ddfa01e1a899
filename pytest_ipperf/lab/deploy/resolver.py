"""Resolve the dependencies of packages for a host: which distributions, and which version of each.

Requirements are evaluated for the host's own Python. Distributions installed here are used if they run there, so that
versions are alike on all hosts; else a wheel of the same version, or of another version that runs there.
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

# Each round repeats the choice with the requirements found so far, until no new ones are found.
_ROUNDS = 20


@dataclass(frozen=True, slots=True)
class Installed:
    """A distribution of this machine, like `Wheel` for an index; `runs` says whether its compiled modules run there."""

    found: Distribution
    runs: bool

    @property
    def name(self) -> str:
        """Normalised name."""
        return canonicalize_name(self.found.name)

    @property
    def version(self) -> str:
        """Version as installed."""
        return self.found.version

    @property
    def requires(self) -> tuple[str, ...]:
        """Requirements in its metadata."""
        return tuple(self.found.requires or ())

    @property
    def python(self) -> str:
        """Specifier of the Pythons that it supports."""
        return ", ".join(self.found.metadata.get_all("Requires-Python") or ())

    @property
    def compiled(self) -> bool:
        """Return whether it has compiled modules."""
        return any(file.suffix == ".so" for file in self.found.files or ())

    @property
    def stripped(self) -> bool:
        """Return whether its compiled modules are left out, in favour of pure Python."""
        return self.compiled and not self.runs

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Iterate over the path and content of each file to send; LabError if a file is unknown or cannot be read."""
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
    """A wheel that replaces what is installed here; `stripped` if it lacks the compiled modules of that."""

    wheel: Wheel
    stripped: bool

    @property
    def name(self) -> str:
        """Normalised name."""
        return self.wheel.name

    @property
    def requires(self) -> tuple[str, ...]:
        """Requirements in its metadata."""
        return self.wheel.requires

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Iterate over the path and content of each file to send."""
        return ((path, data) for path, data in self.wheel.files() if needed(PurePosixPath(path)))


def needed(file: PurePosixPath) -> bool:
    """Return whether a file of a distribution is sent: modules, METADATA and licences, without tests."""
    info = file.parts[0].endswith(".dist-info")
    wanted = file.name == "METADATA" or "licenses" in file.parts if info else file.suffix in {".py", ".so"}
    return wanted and not {"..", "/", "tests"} & set(file.parts)


def resolve(packages: Sequence[str], host: Python) -> list[Installed | Fetched]:
    """Return distributions and their dependencies for that host, sorted by name; LabError if one cannot be had."""
    specifiers: dict[str, SpecifierSet] = {}
    for _ in range(_ROUNDS):
        chosen, combined = _chosen(packages, host, specifiers)
        if combined == specifiers:
            break
        specifiers = combined
    return [chosen[name] for name in sorted(chosen)]


def _chosen(
    packages: Sequence[str], host: Python, specifiers: dict[str, SpecifierSet]
) -> tuple[dict[str, Installed | Fetched], dict[str, SpecifierSet]]:
    """Return the distributions that satisfy `specifiers`, and these combined with their own requirements."""
    chosen: dict[str, Installed | Fetched] = {}
    combined = dict(specifiers)
    left = [Requirement(text) for text in packages]
    instead = " and ".join(requirement.name for requirement in left)
    seen: set[tuple[str, frozenset[str]]] = set()
    while left:
        for each in left:
            name = canonicalize_name(each.name)
            combined[name] = combined.get(name, SpecifierSet()) & each.specifier
        fresh = {canonicalize_name(each.name) for each in left} - chosen.keys()
        sources = [_Source(Requirement(f"{name}{combined[name]}"), host) for name in sorted(fresh)]
        WHEELS.prepare({each.fetched: each.compiled for each in sources if each.fetched}, host)
        chosen |= {each.name: each.chosen(instead) for each in sources}
        keys = {(canonicalize_name(each.name), frozenset(each.extras or {""})) for each in left} - seen
        seen |= keys
        left = [
            each for name, extras in sorted(keys, key=str) for each in _asked_by(chosen[name].requires, host, extras)
        ]
    return chosen, combined


def _asked_by(requires: Iterable[str], host: Python, extras: frozenset[str]) -> Iterator[Requirement]:
    for each in map(Requirement, requires):
        environments = ({**dict(host.markers), "extra": extra} for extra in extras)
        if each.marker is None or any(each.marker.evaluate(environment) for environment in environments):
            yield each


class _Source:
    """A distribution that a host needs, and its possible sources in order of preference."""

    def __init__(self, requirement: Requirement, host: Python) -> None:
        self.name = requirement.name
        self._host = host
        self._here: Installed | None = None
        with contextlib.suppress(PackageNotFoundError):
            runs = host.runs_what_is_compiled_for(Python.from_report(interpreter()))
            self._here = Installed(distribution(self.name), runs)
        self._meets = self._here is not None and host.meets(self._here.python)
        self.compiled = self._here is not None and self._here.compiled
        """True if a wheel without compiled modules would be slower than what is here."""
        self.fetched: Requirement | None = requirement
        """Requirement of a wheel preferred to what is here; None if what is here is best."""
        if self._here and self._meets and requirement.specifier.contains(self._here.version, prereleases=True):
            same = Requirement(f"{self.name}=={self._here.version}")
            self.fetched = same if self._here.stripped else None

    def chosen(self, instead: str) -> Installed | Fetched:
        """Return the best source; LabError if nothing runs there."""
        wheel = WHEELS.find(self.fetched, self._host, compiled=self.compiled) if self.fetched else None
        if wheel:
            return Fetched(wheel, stripped=self.compiled and not wheel.compiled)
        if self._here and self._meets:
            return self._here
        python, way_out = self._host.marker("python_full_version"), f"install {instead} on the host"
        why = f"; {reason}" if self.fetched and (reason := WHEELS.why(self.fetched, self._host)) else ""
        if not self._here:
            raise LabError(
                f"its Python {python} needs {self.name}, which is not installed here to be sent; "
                f"{way_out}, or {self.name} here{why}"
            )
        raise LabError(
            f"its Python {python} does not run {self.name} {self._here.version}, which is installed here and wants "
            f"{self._here.python}; {way_out}, or an older {self.name} here{why}"
        )
