"""Ahead-of-time compilation of modules; otherwise Python compiles the same source at each start of an agent.

This module is sent before all other code, so it needs the standard library alone.
"""

from __future__ import annotations

import io
import marshal
import warnings
import zipfile
from collections.abc import Callable
from importlib.util import MAGIC_NUMBER, cache_from_source, source_hash
from types import CodeType

_UNCHECKED = 0b01
# The output of later versions of marshal depends on what else the process has loaded.
_WITHOUT_REFERENCES = 2


def in_zip_path(name: str) -> str:
    """Return the path at which a zip import looks for compiled code."""
    return f"{name}c"


def in_folder_path(name: str) -> str:
    """Return the path at which an import from a folder looks for compiled code."""
    return cache_from_source(name)


def compiled(packed: bytes, place: Callable[[str], str]) -> bytes:
    """Return the zip with the byte-code of each module added at its place; the output is reproducible."""
    output = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(packed)) as before, zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as after:
        for entry in before.infolist():
            data = before.read(entry)
            after.writestr(entry, data)
            if entry.filename.endswith(".py") and (code := _code(entry.filename, data)):
                beneath = zipfile.ZipInfo(place(entry.filename), entry.date_time)
                beneath.compress_type = zipfile.ZIP_DEFLATED
                after.writestr(beneath, code)
    return output.getvalue()


def _code(name: str, source: bytes) -> bytes:
    """Return the byte-code file of a module; empty if the source is invalid."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            code = compile(source, name, "exec", dont_inherit=True)
        except (SyntaxError, ValueError):  # in a module that nobody imports
            return b""
    return bytecode_file(code, source)


def bytecode_file(code: CodeType, source: bytes) -> bytes:
    """Return an unchecked hash-based byte-code file (PEP 552), importable without the source."""
    head = MAGIC_NUMBER + _UNCHECKED.to_bytes(4, "little") + source_hash(source)
    return head + marshal.dumps(code, _WITHOUT_REFERENCES)
