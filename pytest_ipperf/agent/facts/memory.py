"""Resources of this host: memory, disk, and the kernel's limits for socket buffers."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pytest_ipperf.agent.facts.base import Facts, FactsRequest

_BUFFERS = ("core/rmem_max", "core/wmem_max", "ipv4/tcp_rmem", "ipv4/tcp_wmem")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFacts(Facts):
    """`available` bytes of memory, `free` bytes by folder, and the largest `buffers` by setting."""

    available: int
    free: dict[str, int]
    buffers: dict[str, int]

    @classmethod
    def collect(cls, request: FactsRequest) -> MemoryFacts:
        """Ask the kernel."""
        del request
        available = 0
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                available = 1024 * int(line.split()[1])
        folders = dict.fromkeys([os.environ.get("TMPDIR") or tempfile.gettempdir(), str(Path("~").expanduser())])
        free = {}
        for folder in folders:
            with suppress(OSError):
                filesystem = os.statvfs(folder)
                free[folder] = filesystem.f_bavail * filesystem.f_frsize
        buffers = {}
        for name in _BUFFERS:
            with suppress(OSError):  # a namespace does not show all of them
                setting = f"net.{name.replace('/', '.')}"
                buffers[setting] = int(Path(f"/proc/sys/net/{name}").read_text().split()[-1])
        return cls(available=available, free=free, buffers=buffers)


facts = MemoryFacts
