"""A parcel: installed packages of this machine, with all that they need, for a host that lacks them.

Compiled modules go along where implementation, minor version and platform of the host's Python are those of ours, and
its C library is not older. Elsewhere the pure Python that stands in for them must do, and the results say so.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, PackagePath, distribution
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from pytest_ipperf.agent.packages import interpreter
from pytest_ipperf.core.errors import LabError, UsageError
from pytest_ipperf.protocols.base import Application

if TYPE_CHECKING:  # to ask what is installed needs no link, and none of what a link needs
    from pytest_ipperf.lab.link import Link

# The slowest line that a parcel of a megabyte or two is meant for.
_BYTES_PER_S = 50_000
_PATIENCE_S = 30.0
# A zip cannot be older, and the same files give the same parcel whenever it is packed.
_PACKED_AT = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Python:
    """A host's, as its agent tells it: `markers` (PEP 508) as pairs, binary interface, C library and its version."""

    markers: tuple[tuple[str, str], ...]
    abi: str
    libc: tuple[str, str]

    @classmethod
    def told(cls, facts: Mapping[str, Mapping[str, str]]) -> Python:
        """From what `agent.packages.interpreter` says."""
        name, version = facts["libc"]
        return cls(tuple(sorted(facts["markers"].items())), str(facts["abi"]), (name, version))

    def runs_what_is_compiled_for(self, other: Python) -> bool:
        """Whether compiled modules of the other Python run on this one."""
        same = (self.abi, self.libc[0]) == (other.abi, other.libc[0]) and self.abi != ""
        return same and Version(self.libc[1] or "0") >= Version(other.libc[1] or "0")


@dataclass(frozen=True, slots=True)
class Parcel:
    """A zip, its digest, and the distributions whose compiled modules were left out."""

    data: bytes
    digest: str
    stripped: tuple[str, ...]


def equip_client(link: Link, protocol: Application) -> str:
    """Makes a host ready for the library client of a protocol, and gives what it consists of for the results."""
    check_library(protocol)
    return equip(link, protocol.packages) or f"asyncio of Python {link.order('hello')['python']}"


def equip(link: Link, packages: Sequence[str]) -> str:
    """Sends a host what it lacks of these distributions; what it has then, for the results: `aiosmtplib 5.1.3`.

    A host that has them all, and none of them too old, uses its own. LabError when there is nothing to send that runs
    there.
    """
    wanted = {(each := Requirement(text)).name: each.specifier for text in packages}
    if not wanted:
        return ""
    told = link.order("packages", list(wanted))
    if not all(_will_do(told["versions"][name], specifier) for name, specifier in wanted.items()):
        try:
            sent = parcel(tuple(packages), Python.told(told["python"]))
        except LabError as error:
            raise LabError(f"host {link.host.name}: {error}") from None
        patience_s = _PATIENCE_S + len(sent.data) / _BYTES_PER_S
        link.order("unpack", sent.digest, sent.data, list(sent.stripped), patience_s=patience_s)
        told = link.order("packages", list(wanted))
    return ", ".join(f"{name} {version}" for name, version in told["versions"].items())


def check_library(protocol: Application) -> None:
    """UsageError when a protocol has no library client, or its packages are not here, from where they are sent."""
    if not protocol.has_library:
        raise UsageError(f"{protocol.name} has no library client; leave out --client=library")
    for requirement in map(Requirement, protocol.packages):
        has = _installed_version(requirement.name)
        if not _will_do(has, requirement.specifier):
            raise UsageError(
                f"--client=library needs {requirement} for {protocol.name}, and {has or 'none'} is installed here; "
                'pip install "pytest-ipperf[library]"'
            )


def _will_do(version: str, specifier: SpecifierSet) -> bool:
    """Whether there is one, and one of those; remarks may follow it."""
    return bool(version) and specifier.contains(version.split(maxsplit=1)[0], prereleases=True)


def _installed_version(name: str) -> str:
    try:
        return distribution(name).version
    except PackageNotFoundError:
        return ""


@cache
def parcel(packages: tuple[str, ...], host: Python) -> Parcel:
    """These distributions and all that they need on that host; LabError where one is missing or does not run there."""
    compiled = host.runs_what_is_compiled_for(Python.told(interpreter()))
    packed, stripped = io.BytesIO(), []
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for each in _needed(packages, dict(host.markers)):
            files = list(_files(each))
            if not compiled and any(file.suffix == ".so" for file in files):
                stripped.append(canonicalize_name(each.name))
                files = [file for file in files if file.suffix != ".so"]
            for file in files:
                try:
                    archive.writestr(_entry(file), Path(file.locate()).read_bytes())
                except OSError as error:
                    raise LabError(
                        f"package {each.name} cannot be sent: {file} of it cannot be read here ({error.strerror}); "
                        f"install it again (pip install --force-reinstall {each.name})"
                    ) from None
    data = packed.getvalue()
    return Parcel(data, hashlib.sha256(data).hexdigest(), tuple(stripped))


def _needed(packages: Sequence[str], markers: dict[str, str]) -> list[Distribution]:
    """The distributions in the order of their names."""
    found: dict[str, Distribution] = {}
    asked = [Requirement(text) for text in packages]
    instead = " and ".join(requirement.name for requirement in asked)
    while asked:
        requirement = asked.pop()
        name = canonicalize_name(requirement.name)
        if name in found:
            continue
        found[name] = _installed(name, markers, instead=instead)
        extras = requirement.extras or {""}
        asked += [
            needed
            for needed in map(Requirement, found[name].requires or ())
            if needed.marker is None or any(needed.marker.evaluate({**markers, "extra": extra}) for extra in extras)
        ]
    return [found[name] for name in sorted(found)]


def _installed(name: str, markers: Mapping[str, str], *, instead: str) -> Distribution:
    python, way_out = markers["python_full_version"], f"install {instead} on the host"
    try:
        found = distribution(name)
    except PackageNotFoundError:
        raise LabError(
            f"its Python {python} needs {name}, which is not installed here to be sent; {way_out}, or {name} here"
        ) from None
    wanted = ", ".join(found.metadata.get_all("Requires-Python") or ())
    if not SpecifierSet(wanted).contains(python, prereleases=True):
        raise LabError(
            f"its Python {python} does not run {name} {found.version}, which is installed here and wants {wanted}; "
            f"{way_out}, or an older {name} here"
        )
    return found


def _files(each: Distribution) -> Iterator[PackagePath]:
    """Modules, what identifies the distribution, and its licences."""
    if each.files is None:
        raise LabError(f"{each.name} was installed here without a list of its files; install it with pip")
    for file in each.files:
        info = file.parts[0].endswith(".dist-info")
        wanted = file.name == "METADATA" or "licenses" in file.parts if info else file.suffix in {".py", ".so"}
        if wanted and not {"..", "/", "tests"} & set(file.parts):
            yield file


def _entry(file: PackagePath) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(str(file), _PACKED_AT)
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry
