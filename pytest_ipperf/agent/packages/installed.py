"""Packages of this host's Python, and those that it is sent."""

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
    """Packages that were sent, in folders of the agent's private `folder` that are removed with it.

    Packed packages may stay in the host's cache, and are verified whenever they are taken from it. Only unpacked ones
    are imported, from a folder to which nobody but this agent writes.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cache = Cache()
        self._unpacked: list[str] = []
        self._stripped: set[str] = set()

    @property
    def env(self) -> dict[str, str]:
        """Return the environment in which a server that is a Python program finds the packages."""
        return {"PYTHONPATH": os.pathsep.join(self._unpacked)} if self._unpacked else {}

    def installed(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the `versions` of these distributions, empty for missing ones, and the `python`."""
        return {"versions": {name: self._version(name) for name in names}, "python": interpreter()}

    def remark(self, names: Sequence[str]) -> str:
        """Return a remark to be appended to the version of a program made of these packages; usually empty."""
        return " (pure Python)" if self._stripped & set(names) else ""

    def unpack_kept(self, digest: str, stripped: Sequence[str]) -> bool:
        """Unpack a parcel from the cache, as `unpack` does; return whether it was there."""
        data = self._cache.get(digest) or self._cache.get(digest, _MAGIC)
        if data is not None:
            self.unpack(digest, data, stripped)
        return data is not None

    def unpack_and_keep(self, digest: str, data: bytes, stripped: Sequence[str]) -> None:
        """Unpack a parcel and cache it for later agents, if possible, with byte-code added if it has none."""
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            made = "" if any(name.endswith(".pyc") for name in archive.namelist()) else _MAGIC
        data = compiled(data, in_folder_path) if made else data
        self.unpack(digest, data, stripped)
        self._cache.put(data, digest, made)

    def cache_state(self) -> dict[str, Any]:
        """Return the cache's folder (empty: there can be none), its contents, and why it is not used, if it is not."""
        return self._cache_state(self._cache.entries().values())

    def forget(self) -> dict[str, Any]:
        """Empty the cache; return what was in it."""
        return self._cache_state(self._cache.clear())

    def unpack(self, digest: str, data: bytes, stripped: Sequence[str]) -> None:
        """Make the packages of a parcel importable, before the host's own; raise LabError if they do not fit.

        `stripped` names packages whose compiled modules do not run here and were left out. A parcel that is here
        already is not unpacked again.
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
        # After the agent's own code, but before the host's packages, which may be too old.
        sys.path.insert(1, folder)
        importlib.invalidate_caches()

    def _cache_state(self, sizes_bytes: Collection[int]) -> dict[str, Any]:
        sizes = {"entries": len(sizes_bytes), "bytes": sum(sizes_bytes)}
        return {"folder": self._cache.folder, "note": self._cache.note, **sizes}

    def _version(self, name: str) -> str:
        # Imported late: it takes a tenth of an agent's start, and most agents never need it.
        from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415

        try:
            return version(name) + self.remark([name])
        except PackageNotFoundError:
            return ""


def interpreter() -> dict[str, Any]:
    """Return this Python's properties that packages depend on: `markers` (PEP 508), `abi`, `libc` and `magic`."""
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
