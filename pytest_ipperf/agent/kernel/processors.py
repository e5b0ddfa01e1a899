"""Processors that an agent and its servers may use (sched_setaffinity(2))."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from pytest_ipperf.core.portable.errors import LabError

# What was started during a pass is found by the next one.
_MOST_PASSES = 100


class Processors:
    """Processors of this process, which its children inherit."""

    def __init__(self) -> None:
        self._all = os.sched_getaffinity(0)

    def bind(self, cpus: Iterable[int]) -> list[int]:
        """Bind this thread, and what it starts, to these processors as far as allowed; return those in use."""
        if allowed := os.sched_getaffinity(0) & set(cpus):
            os.sched_setaffinity(0, allowed)
        return sorted(os.sched_getaffinity(0))

    @contextlib.contextmanager
    def unbound(self) -> Iterator[None]:
        """Let this thread, and what it starts, use the processors of its NUMA node that it could use before `bind`.

        On another node a process would fill that node's memory, which it then reaches more slowly for all its life.
        """
        bound = os.sched_getaffinity(0)
        nodes = set(map(_node, bound))
        os.sched_setaffinity(0, {cpu for cpu in self._all if _node(cpu) in nodes} | bound)
        try:
            yield
        finally:
            os.sched_setaffinity(0, bound)

    @staticmethod
    def bind_others(pids: Callable[[], Iterable[int]]) -> None:
        """Bind the processes of `pids` to this thread's processors, until all of their threads are bound.

        A process that is starting another at that moment may leave it unbound. Raise LabError if the kernel does not
        leave them there.
        """
        bound = sorted(os.sched_getaffinity(0))
        for _ in range(_MOST_PASSES):
            free = [thread for pid in pids() for thread in _threads(pid) if _held(thread) not in ([], bound)]
            if not free:
                return
            for thread in free:
                with contextlib.suppress(ProcessLookupError):
                    os.sched_setaffinity(thread, bound)
        raise LabError(f"process {free[0]} cannot be bound to the processors {', '.join(map(str, bound))}")


def _node(cpu: int) -> str:
    """Return the NUMA node of a processor (Linux, Documentation/ABI/stable/sysfs-devices-node); empty if unknown."""
    return next((each.name for each in Path(f"/sys/devices/system/cpu/cpu{cpu}").glob("node[0-9]*")), "")


def _threads(pid: int) -> list[int]:
    try:
        return [int(each) for each in os.listdir(f"/proc/{pid}/task")]  # noqa: PTH208
    except FileNotFoundError:
        return []


def _held(thread: int) -> list[int]:
    """Return the processors that a thread may use; none if it has ended."""
    try:
        return sorted(os.sched_getaffinity(thread))
    except ProcessLookupError:
        return []
