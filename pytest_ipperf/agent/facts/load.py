"""Load of the host's processors by others, and their frequency governors."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from pytest_ipperf.agent.facts.base import FactsRequest

_WATCHED_S = 0.5
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def facts(request: FactsRequest) -> dict[str, object]:
    """Watch half a second; return the `idle` share of all processors, and the `busiest` process with its share of one.

    `cpus` are the online processors, `allowed` the usable ones, `load` the average of the last minute, `governors` the
    frequency governors in use.
    """
    del request
    before, processes, began = _idle(), _spent(), time.monotonic()
    time.sleep(_WATCHED_S)
    after, spent, watched_s = _idle(), _spent(), time.monotonic() - began
    ticks = {pid: spent[pid][0] - processes[pid][0] for pid in spent if pid in processes and pid != os.getpid()}
    busiest = max(ticks, key=lambda pid: ticks[pid], default=0)
    total = after[1] - before[1]
    return {
        "idle": (after[0] - before[0]) / total if total else 1.0,
        "busiest": [busiest, spent[busiest][1], ticks[busiest] / _TICKS_PER_S / watched_s] if busiest else [],
        "load": os.getloadavg()[0],
        "cpus": sorted(map(int, _cpus())),
        "allowed": sorted(os.sched_getaffinity(0)),
        "governors": sorted(set(_governors())),
    }


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
