"""Pack the package's code that travels to a host into a zip. A bare host needs Python and nothing of ours."""

from __future__ import annotations

import hashlib
import io
import zipfile
from functools import cache
from importlib.util import MAGIC_NUMBER
from pathlib import Path

import pytest_ipperf
from pytest_ipperf.agent.packages.bytecode import compiled, in_zip_path

TRAVELS = (
    "__init__.py",
    "agent",
    "protocols",
    "servers",
    "transports",
    "core/__init__.py",
    "core/portable",
)
"""Paths below the package. A module of `core` belongs here when a travelling one imports it."""
# A zip cannot be older, and the same files give the same bytes whenever they are packed.
_PACKED_AT = (1980, 1, 1, 0, 0, 0)


@cache
def code_archive(magic: bytes = b"") -> bytes:
    """A zip of the source, which Python imports from as it is.

    For a Python of the same `magic` (PEP 3147) as this one it has the compiled code too: to compile all of it takes an
    agent twice as long as everything else at its start.
    """
    root = Path(pytest_ipperf.__file__).parent
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry in TRAVELS:
            path = root / entry
            for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
                pack(archive, str(Path(pytest_ipperf.__name__) / file.relative_to(root)), file.read_bytes())
    return compiled(packed.getvalue(), in_zip_path) if magic == MAGIC_NUMBER else packed.getvalue()


def pack(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    """Adds a file to what is sent to a host."""
    archive.writestr(zipfile.ZipInfo(name, _PACKED_AT), data, zipfile.ZIP_DEFLATED)


@cache
def digests() -> dict[bytes, str]:
    """SHA-256 by the magic of those Pythons for which there is an archive of their own; empty: for all others."""
    return {magic: hashlib.sha256(code_archive(magic)).hexdigest() for magic in (b"", MAGIC_NUMBER)}
