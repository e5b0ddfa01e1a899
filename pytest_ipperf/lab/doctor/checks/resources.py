"""Check memory, disk and the buffers that the kernel grants to sockets."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_ipperf.agent.facts.memory import MemoryFacts
from pytest_ipperf.lab.doctor.checks.base import Check, Finding
from pytest_ipperf.lab.doctor.observations import HostObservation

_MEMORY, _DISK, _LEAST_DISK = 512 << 20, 1 << 30, 64 << 20
_BUFFER = 1 << 20  # 100 Mbit/s at a round trip of 80 ms


class Resources(Check):
    """Memory, disk and socket buffers; 500 mailboxes and thousands of connections need some."""

    topic = "resources"
    rank = 50

    def of_host(self, observed: HostObservation) -> Iterator[Finding]:
        """Check the available resources."""
        facts, name = observed.fact(MemoryFacts), observed.host.name
        if not facts:
            return
        fine = []
        if facts.available < _MEMORY:
            remedy = "end something there: the kernel kills what is largest when memory runs out"
            yield self.doubtful(name, f"{_text(facts.available)} of memory are available", remedy)
        else:
            fine.append(f"{_text(facts.available)} of memory")
        for folder, free in facts.free.items():
            if free < _LEAST_DISK:
                yield self.wrong(name, f"{_text(free)} are free in {folder}", "free some space, or set TMPDIR")
            elif free < _DISK:
                yield self.doubtful(name, f"{_text(free)} are free in {folder}", "free some space, or set TMPDIR")
            else:
                fine.append(f"{_text(free)} in {folder}")
        small = [setting for setting, most in facts.buffers.items() if most < _BUFFER]
        for setting in small:
            remedy = f"sysctl {setting}: larger, if links are long and fast"
            yield self.doubtful(name, f"{setting} is {facts.buffers[setting]} bytes, which bounds windows", remedy)
        if fine:
            yield self.well(name, ", ".join(fine) + ("" if small else ", buffers of sockets of 1 MiB and more"))


def _text(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


check = Resources()
