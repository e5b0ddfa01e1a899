"""The cargo: the rooms that travel to a host, packed. A bare host needs Python and nothing of ours."""

from __future__ import annotations

import io
import zipfile
from functools import cache
from pathlib import Path

import pytest_ipperf

TRAVELS = (
    "__init__.py",
    "agent",
    "protocols",
    "servers",
    "transports",
    "core/__init__.py",
    "core/dns.py",
    "core/errors.py",
    "core/script.py",
    "core/shelf.py",
    "core/state.py",
)
"""Paths below the package. A module of `core` belongs here when a travelling one imports it."""


@cache
def cargo() -> bytes:
    """A zip of the source, which Python imports from as it is."""
    root = Path(pytest_ipperf.__file__).parent
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry in TRAVELS:
            path = root / entry
            for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
                archive.write(file, str(Path(pytest_ipperf.__name__) / file.relative_to(root)))
    return packed.getvalue()
