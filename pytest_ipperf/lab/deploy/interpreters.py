"""The Python of a host, and which compiled modules run on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from packaging.specifiers import SpecifierSet
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.version import Version

# Platform names used before tags contained the C library's version (PEP 600).
_LEGACY = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
# The oldest minor version of glibc 2 with such a tag; other architectures came later.
_OLDEST = {"x86_64": 5, "i686": 5}
_OLDEST_ELSEWHERE = 17


@dataclass(frozen=True, slots=True)
class Python:
    """A host's Python, as its agent reports it: `markers` (PEP 508) as pairs, ABI, C library and its version.

    `magic` is the magic number of its bytecode (PEP 3147), in hexadecimal.
    """

    markers: tuple[tuple[str, str], ...]
    abi: str
    libc: tuple[str, str]
    magic: str = ""

    @classmethod
    def from_report(cls, facts: Mapping[str, Mapping[str, str]]) -> Python:
        """Make one from the report of `agent.packages.installed.interpreter`."""
        name, version = facts["libc"]
        return cls(tuple(sorted(facts["markers"].items())), str(facts["abi"]), (name, version), str(facts["magic"]))

    def runs_what_is_compiled_for(self, other: Python) -> bool:
        """Return whether modules compiled for the other Python run on this one."""
        same = (self.abi, self.libc[0]) == (other.abi, other.libc[0]) and self.abi != ""
        return same and Version(self.libc[1] or "0") >= Version(other.libc[1] or "0")

    def meets(self, requires_python: str) -> bool:
        """Return whether this Python satisfies `requires_python`; empty allows all."""
        return SpecifierSet(requires_python).contains(self.marker("python_full_version"), prereleases=True)

    def marker(self, name: str) -> str:
        """Return the value of a PEP 508 variable."""
        return dict(self.markers)[name]

    @property
    def abi_tag(self) -> str:
        """ABI tag in the names of wheels, such as `cp312`; empty if no wheels are known for this ABI."""
        kind, _, rest = self.abi.partition("-")
        return f"cp{rest.partition('-')[0]}" if kind == "cpython" else ""

    @property
    def platforms(self) -> list[str]:
        """Platform tags in the names of wheels, most specific first; empty if the C library is unknown."""
        name, version = self.libc
        machine = self.marker("platform_machine")
        # A 32-bit Python on a 64-bit kernel reports the kernel's machine.
        if name != "glibc" or Version(version).major != 2 or f"-{machine}-" not in self.abi:
            return []
        minors = range(Version(version).minor, _OLDEST.get(machine, _OLDEST_ELSEWHERE) - 1, -1)
        return [
            f"{each}_{machine}" for minor in minors for each in (f"manylinux_2_{minor}", _LEGACY.get(minor)) if each
        ]

    def tags(self) -> Iterator[Tag]:
        """Iterate over the tags of wheels that run there."""
        major, minor = self.marker("python_version").split(".")
        version = int(major), int(minor)
        if self.abi_tag and self.platforms:
            yield from cpython_tags(version, [self.abi_tag], self.platforms)
        yield from compatible_tags(version, f"cp{major}{minor}", self.platforms or ["any"])
