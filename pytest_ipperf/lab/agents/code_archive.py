"""Pack the package's code that travels to a host into a zip, so that a bare host needs only Python."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from types import CodeType

import pytest_ipperf
from pytest_ipperf.agent.packages.bytecode import bytecode_file, in_zip_path

TRAVELS = (
    "__init__.py",
    "agent",
    "protocols",
    "servers",
    "transports",
    "core/__init__.py",
    "core/portable",
)
"""Paths below the package. A module of `core` belongs here if a travelling module imports it."""
# The oldest date of a zip; with a fixed date the same files always give the same bytes.
_PACKED_AT = (1980, 1, 1, 0, 0, 0)


@cache
def code_archive(magic: bytes = b"") -> bytes:
    """Return a zip of the source, from which Python imports directly, for a host at the end of a network.

    For a Python of the same `magic` (PEP 3147) as this one it also contains bytecode, as compiling takes twice as long
    as the rest of an agent's start.
    """
    return _archive(magic, zipfile.ZIP_DEFLATED)


@cache
def stored_archive() -> bytes:
    """Return the archive for a Python like this one on this machine, without compression.

    Compressing it would take 0.2 s, and an import would decompress each module twice.
    """
    return _archive(MAGIC_NUMBER, zipfile.ZIP_STORED)


def _archive(magic: bytes, compression: int) -> bytes:
    root = Path(pytest_ipperf.__file__).parent
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for entry in TRAVELS:
            path = root / entry
            for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
                name, source = str(Path(pytest_ipperf.__name__) / file.relative_to(root)), file.read_bytes()
                pack(archive, name, source, compression)
                if magic == MAGIC_NUMBER:
                    pack(archive, in_zip_path(name), bytecode_file(_code(file, name), source), compression)
    return packed.getvalue()


def _code(file: Path, name: str) -> CodeType:
    """Return the code of a module as an import gets it, from `__pycache__` where it is compiled already.

    To compile all of them takes longer than the rest of a session's start. The code is the same as that compiled from
    the source with the file name `name`.
    """
    code = SourceFileLoader(file.stem, str(file)).get_code(file.stem)
    if code is None:  # as of an extension module, and these are files of source
        raise ImportError(f"{file} has no code")
    return _with_file_name(code, name)


def _with_file_name(code: CodeType, name: str) -> CodeType:
    constants = (_with_file_name(each, name) if isinstance(each, CodeType) else each for each in code.co_consts)
    return code.replace(co_filename=name, co_consts=tuple(constants))


@cache
def code_file() -> int:
    """Return a descriptor of a file in memory with `stored_archive`, as long as this process lives."""
    fd = os.memfd_create("pytest-ipperf")
    with open(fd, "wb", closefd=False) as file:
        file.write(stored_archive())
    return fd


def pack(archive: zipfile.ZipFile, name: str, data: bytes, compression: int = zipfile.ZIP_DEFLATED) -> None:
    """Add a file to an archive for a host."""
    archive.writestr(zipfile.ZipInfo(name, _PACKED_AT), data, compression)


@cache
def digests() -> dict[bytes, str]:
    """Return the SHA-256 of each archive, by the magic of its Python; the empty one is for all others."""
    return {magic: hashlib.sha256(code_archive(magic)).hexdigest() for magic in (b"", MAGIC_NUMBER)}
