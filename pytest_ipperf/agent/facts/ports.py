"""Ports of the servers' range that are in use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pytest_ipperf.agent.facts.base import Facts, FactsRequest

_TABLES = ("tcp", "tcp6", "udp", "udp6")
_TIME_WAIT = "06"


@dataclass(frozen=True, slots=True, kw_only=True)
class PortFacts(Facts):
    """Ports of the requested range that sockets of this network namespace use, in ascending order."""

    taken: list[int]

    @classmethod
    def collect(cls, request: FactsRequest) -> PortFacts:
        """Read the kernel's tables of sockets."""
        low, high = request.ports
        return cls(taken=sorted({port for port in _taken() if low <= port <= high}))


def _taken() -> Iterator[int]:
    for table in _TABLES:
        with suppress(FileNotFoundError):  # a kernel without IPv6
            for line in Path(f"/proc/net/{table}").read_text(encoding="ascii").splitlines()[1:]:
                _, local, _, state, *_ = line.split(maxsplit=4)
                if state != _TIME_WAIT or table.startswith("udp"):
                    yield int(local.rpartition(":")[2], 16)


facts = PortFacts
