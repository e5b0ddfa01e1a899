"""List the packages of this host's Python, and unpack those that it is sent."""

from __future__ import annotations

import importlib
import io
import os
import platform
import sys
import sysconfig
import zipfile
from collections.abc import Collection, Sequence
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from typing import Any

from pytest_ipperf.agent.packages.bytecode import compiled, in_folder_path
from pytest_ipperf.agent.packages.cache import Cache
from pytest_ipperf.core.portable.errors import LabError

_MAGIC = MAGIC_NUMBER.hex()


class Packages:
    """Those that are sent lie in folders of the agent's private `folder`, and go with it.

    What came packed may be kept in the host's cache, verified whenever it is taken from there. Only the unpacked is
    imported, which nobody but this agent writes to.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cache = Cache()
        self._unpacked: list[str] = []
        self._stripped: set[str] = set()

    @property
    def env(self) -> dict[str, str]:
        """What a server that is a Python program needs in its environment to find them too."""
        return {"PYTHONPATH": os.pathsep.join(self._unpacked)} if self._unpacked else {}

    def installed(self, names: Sequence[str]) -> dict[str, Any]:
        """The `versions` of these distributions, as results name them and empty where missing, and the `python`."""
        return {"versions": {name: self._version(name) for name in names}, "python": interpreter()}

    def remark(self, names: Sequence[str]) -> str:
        """What has to be said behind the version of a program made of these; empty where nothing is special."""
        return " (pure Python)" if self._stripped & set(names) else ""

    def unpack_kept(self, digest: str, stripped: Sequence[str]) -> bool:
        """As `unpack`, of a parcel that this host has kept; false where it has not."""
        data = self._cache.get(digest) or self._cache.get(digest, _MAGIC)
        if data is not None:
            self.unpack(digest, data, stripped)
        return data is not None

    def unpack_and_keep(self, digest: str, data: bytes, stripped: Sequence[str]) -> None:
        """As `unpack`, and keeps the parcel for agents to come, if this host can; compiled, if it came without."""
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            made = "" if any(name.endswith(".pyc") for name in archive.namelist()) else _MAGIC
        data = compiled(data, in_folder_path) if made else data
        self.unpack(digest, data, stripped)
        self._cache.put(data, digest, made)

    def cache_state(self) -> dict[str, Any]:
        """Where the cache is, empty where there can be none, what is in it, and why it is not used, if it is not."""
        return self._cache_state(self._cache.entries().values())

    def forget(self) -> dict[str, Any]:
        """Empties the cache; what was in it."""
        return self._cache_state(self._cache.clear())

    def unpack(self, digest: str, data: bytes, stripped: Sequence[str]) -> None:
        """Makes the packages of a parcel importable, before any that the host has; LabError without room for them.

        `stripped` are those whose compiled modules do not run here and were left out. A parcel that is here already
        is not unpacked again.
        """
        folder = str(self._folder / f"packages-{digest}")
        if folder in self._unpacked:
            return
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                archive.extractall(folder)
        except OSError as error:
            raise LabError(f"packages cannot be unpacked in {folder}: {error.strerror}; free some space") from None
        self._unpacked.append(folder)
        self._stripped |= set(stripped)
        # Behind the agent's own code, and before what is older than they need of the host's own.
        sys.path.insert(1, folder)
        importlib.invalidate_caches()

    def _cache_state(self, sizes_bytes: Collection[int]) -> dict[str, Any]:
        sizes = {"entries": len(sizes_bytes), "bytes": sum(sizes_bytes)}
        return {"folder": self._cache.folder, "note": self._cache.note, **sizes}

    def _version(self, name: str) -> str:
        # It takes a tenth of an agent's start, and most agents are never asked.
        from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415

        try:
            return version(name) + self.remark([name])
        except PackageNotFoundError:
            return ""


def interpreter() -> dict[str, Any]:
    """What packages depend on: the variables of their `markers` (PEP 508), `abi`, `libc` and `magic` of this Python."""
    implementation = sys.implementation
    return {
        "markers": {
            "implementation_name": implementation.name,
            "implementation_version": ".".join(map(str, implementation.version[:3])),
            "os_name": os.name,
            "platform_machine": platform.machine(),
            "platform_python_implementation": platform.python_implementation(),
            "platform_release": platform.release(),
            "platform_system": platform.system(),
            "platform_version": platform.version(),
            "python_full_version": platform.python_version(),
            "python_version": ".".join(platform.python_version_tuple()[:2]),
            "sys_platform": sys.platform,
        },
        "abi": sysconfig.get_config_var("SOABI") or "",
        "libc": list(platform.libc_ver()),
        "magic": _MAGIC,
    }
