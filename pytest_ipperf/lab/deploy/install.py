"""Install packages that a host lacks, with their dependencies, from this machine's installation or as wheels.

Compiled modules are sent if they run there, or are replaced by a wheel of the same version that does. Otherwise their
pure Python fallback is sent, and the results say so. A host that caches archives is sent each of them once.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import MAGIC_NUMBER
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from pytest_ipperf.agent.packages.bytecode import compiled, in_folder_path
from pytest_ipperf.core.portable.errors import LabError, UsageError
from pytest_ipperf.lab.agents.bootstrap import BYTES_PER_S
from pytest_ipperf.lab.agents.code_archive import pack
from pytest_ipperf.lab.deploy.interpreters import Python
from pytest_ipperf.lab.deploy.resolver import resolve
from pytest_ipperf.protocols.base import Application

if TYPE_CHECKING:  # to ask what is installed needs no agent, and no execnet
    from pytest_ipperf.lab.agents.client import AgentClient

_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class PackageArchive:
    """A zip, its digest, and the distributions that are slower for lack of compiled modules."""

    data: bytes
    digest: str
    stripped: tuple[str, ...]


def install_client(agent: AgentClient, protocol: Application) -> str:
    """Prepare a host for the library client of a protocol, and return the client's packages for the results."""
    check_library(protocol)
    return install_packages(agent, protocol.packages) or f"asyncio of Python {agent.hello().python}"


def install_packages(agent: AgentClient, packages: Sequence[str]) -> str:
    """Send a host the distributions that it lacks; return its versions for the results, such as `aiosmtplib 5.1.3`.

    A host that has them all, none of them too old, uses its own. Raises LabError if nothing can be sent that runs
    there.
    """
    wanted = {(each := Requirement(text)).name: each.specifier for text in packages}
    if not wanted:
        return ""
    report = agent.packages(list(wanted))
    if not all(_satisfies(report.versions[name], specifier) for name, specifier in wanted.items()):
        try:
            sent = package_archive(tuple(packages), Python.from_report(dataclasses.asdict(report.python)))
        except LabError as error:
            raise LabError(f"host {agent.host.name}: {error}") from None
        if not (agent.keeps and agent.unpack_kept(sent.digest, list(sent.stripped))):
            patient = agent.within(_PATIENCE_S + len(sent.data) / BYTES_PER_S)
            unpack = patient.unpack_and_keep if agent.keeps else patient.unpack
            unpack(sent.digest, sent.data, list(sent.stripped))
        report = agent.packages(list(wanted))
    return ", ".join(f"{name} {version}" for name, version in report.versions.items())


def check_library(protocol: Application) -> None:
    """Raise UsageError if a protocol has no library client, or its packages are not installed on this machine."""
    if not protocol.has_library:
        raise UsageError(f"{protocol.name} has no library client; leave out --client=library")
    for requirement in map(Requirement, protocol.packages):
        has = _installed_version(requirement.name)
        if not _satisfies(has, requirement.specifier):
            raise UsageError(
                f"--client=library needs {requirement} for {protocol.name}, and {has or 'none'} is installed here; "
                'pip install "pytest-ipperf[library]"'
            )


def _satisfies(version: str, specifier: SpecifierSet) -> bool:
    """Return whether there is a version and the specifier allows it; remarks may follow the version."""
    return bool(version) and specifier.contains(version.split(maxsplit=1)[0], prereleases=True)


def _installed_version(name: str) -> str:
    try:
        return distribution(name).version
    except PackageNotFoundError:
        return ""


@cache
def package_archive(packages: tuple[str, ...], host: Python) -> PackageArchive:
    """Pack distributions and their dependencies for that host; LabError if one is missing or does not run there."""
    packed, stripped = io.BytesIO(), []
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for each in resolve(packages, host):
            if each.stripped:
                stripped.append(each.name)
            for name, data in each.files():
                pack(archive, name, data)
    data = packed.getvalue()
    if host.magic == MAGIC_NUMBER.hex():
        data = compiled(data, in_folder_path)
    # A package whose dependency falls back to pure Python is slower, too.
    slow = [*stripped, *(canonicalize_name(Requirement(text).name) for text in packages if stripped)]
    return PackageArchive(data, hashlib.sha256(data).hexdigest(), tuple(dict.fromkeys(slow)))
