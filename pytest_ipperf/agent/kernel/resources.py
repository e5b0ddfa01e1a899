"""Memory and open files of processes of this host, from /proc."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Resident memory that processes do not share, in bytes, and their open descriptors."""

    memory_bytes: int
    descriptors: int


def resources_of(pids: Iterable[int]) -> Resources:
    """Return the sum over the processes; one that is gone, or whose descriptors may not be read, adds nothing."""
    memory_bytes = descriptors = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            resident, shared = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1:3]
            memory_bytes += _PAGE_BYTES * (int(resident) - int(shared))
            descriptors += len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208 - names alone
    return Resources(memory_bytes=memory_bytes, descriptors=descriptors)
