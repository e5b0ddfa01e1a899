"""The Python of a host, and what is compiled that runs on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from packaging.specifiers import SpecifierSet
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.version import Version

# Names from the time before they named the C library's version (PEP 600).
_LEGACY = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
# The oldest glibc 2 that any of them was for; other machines came later.
_OLDEST = {"x86_64": 5, "i686": 5}
_OLDEST_ELSEWHERE = 17


@dataclass(frozen=True, slots=True)
class Python:
    """A host's, as its agent tells it: `markers` (PEP 508) as pairs, binary interface, C library and its version.

    `magic` is that of its compiled code (PEP 3147), in hexadecimal.
    """

    markers: tuple[tuple[str, str], ...]
    abi: str
    libc: tuple[str, str]
    magic: str = ""

    @classmethod
    def from_report(cls, facts: Mapping[str, Mapping[str, str]]) -> Python:
        """From what `agent.packages.installed.interpreter` says."""
        name, version = facts["libc"]
        return cls(tuple(sorted(facts["markers"].items())), str(facts["abi"]), (name, version), str(facts["magic"]))

    def runs_what_is_compiled_for(self, other: Python) -> bool:
        """Whether compiled modules of the other Python run on this one."""
        same = (self.abi, self.libc[0]) == (other.abi, other.libc[0]) and self.abi != ""
        return same and Version(self.libc[1] or "0") >= Version(other.libc[1] or "0")

    def meets(self, requires_python: str) -> bool:
        """Whether it is one of those; empty: all are."""
        return SpecifierSet(requires_python).contains(self.marker("python_full_version"), prereleases=True)

    def marker(self, name: str) -> str:
        """The value of a variable of PEP 508."""
        return dict(self.markers)[name]

    @property
    def abi_tag(self) -> str:
        """As wheels name its binary interface, such as `cp312`; empty where none are known to be for it."""
        kind, _, rest = self.abi.partition("-")
        return f"cp{rest.partition('-')[0]}" if kind == "cpython" else ""

    @property
    def platforms(self) -> list[str]:
        """As wheels name the platforms that it is, the narrowest first; none where its C library is not known."""
        name, version = self.libc
        machine = self.marker("platform_machine")
        # A Python of 32 bits under a kernel of 64 names the kernel's machine.
        if name != "glibc" or Version(version).major != 2 or f"-{machine}-" not in self.abi:
            return []
        minors = range(Version(version).minor, _OLDEST.get(machine, _OLDEST_ELSEWHERE) - 1, -1)
        return [
            f"{each}_{machine}" for minor in minors for each in (f"manylinux_2_{minor}", _LEGACY.get(minor)) if each
        ]

    def tags(self) -> Iterator[Tag]:
        """Those of wheels that run there."""
        major, minor = self.marker("python_version").split(".")
        version = int(major), int(minor)
        if self.abi_tag and self.platforms:
            yield from cpython_tags(version, [self.abi_tag], self.platforms)
        yield from compatible_tags(version, f"cp{major}{minor}", self.platforms or ["any"])
