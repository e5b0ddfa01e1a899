"""Load of the host's processors by others, and their frequency governors."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pytest_ipperf.agent.facts.base import Facts, FactsRequest

_WATCHED_S = 0.5
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class BusyProcess:
    """Process, and its share of one processor."""

    pid: int
    name: str
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadFacts(Facts):
    """Share of all processors that was `idle`, and the `busiest` process meanwhile, if there was one.

    `cpus` are the online processors, `allowed` the usable ones, `load` the average of the last minute, `governors` the
    frequency governors in use.
    """

    idle: float
    busiest: BusyProcess | None
    load: float
    cpus: list[int]
    allowed: list[int]
    governors: list[str]

    @classmethod
    def collect(cls, request: FactsRequest) -> LoadFacts:
        """Watch half a second."""
        del request
        before, processes, began = _idle(), _spent(), time.monotonic()
        time.sleep(_WATCHED_S)
        after, spent, watched_s = _idle(), _spent(), time.monotonic() - began
        ticks = {pid: spent[pid][0] - processes[pid][0] for pid in spent if pid in processes and pid != os.getpid()}
        pid = max(ticks, key=lambda pid: ticks[pid], default=0)
        share = ticks.get(pid, 0) / _TICKS_PER_S / watched_s
        total = after[1] - before[1]
        return cls(
            idle=(after[0] - before[0]) / total if total else 1.0,
            busiest=BusyProcess(pid=pid, name=spent[pid][1], share=share) if pid else None,
            load=os.getloadavg()[0],
            cpus=sorted(map(int, _cpus())),
            allowed=sorted(os.sched_getaffinity(0)),
            governors=sorted(set(_governors())),
        )


def _idle() -> tuple[int, int]:
    """Return idle ticks and all ticks so far, summed over all processors (proc(5))."""
    for line in Path("/proc/stat").read_text().splitlines():
        if line.startswith("cpu "):
            ticks = list(map(int, line.split()[1:9]))
            return ticks[3] + ticks[4], sum(ticks)
    return 0, 0


def _spent() -> dict[int, tuple[int, str]]:
    """Return the ticks so far and the name of each process, by process id."""
    found = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - thousands of names and no paths
        if name.isdecimal():
            with suppress(OSError, IndexError, ValueError):
                head, _, rest = Path(f"/proc/{name}/stat").read_text(errors="replace").rpartition(")")
                fields = rest.split()
                found[int(name)] = int(fields[11]) + int(fields[12]), head.partition("(")[2]
    return found


def _cpus() -> list[str]:
    text = Path("/sys/devices/system/cpu/online")
    if not text.exists():
        return [str(number) for number in range(os.cpu_count() or 1)]
    found: list[str] = []
    for part in text.read_text().strip().split(","):
        first, _, last = part.partition("-")
        found += map(str, range(int(first), int(last or first) + 1))
    return found


def _governors() -> list[str]:
    found = []
    for path in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor"):
        with suppress(OSError):
            found.append(path.read_text().strip())
    return found


facts = LoadFacts
