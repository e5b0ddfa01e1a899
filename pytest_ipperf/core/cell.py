"""A cell: one point of the experiment, and its name.

The text of a cell is the pytest id and the key of its history: `lab-smtp-c10-1k-ipv6`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pytest_ipperf.core.errors import UsageError
from pytest_ipperf.core.units import bytes_text


@dataclass(frozen=True, slots=True, order=True)
class Arm:
    """What is compared: an IP version and how it travels."""

    ipver: int
    transport: str

    def __post_init__(self) -> None:
        if self.ipver not in (4, 6):
            raise UsageError(f"IP version {self.ipver!r} does not exist; there are 4 and 6")
        if self.ipver == 4 and self.transport != "native":
            raise UsageError(f"IPv4 with transport {self.transport!r} does not exist; IPv4 is always native here")

    def __str__(self) -> str:
        return f"ipv{self.ipver}" if self.transport == "native" else f"ipv{self.ipver}-{self.transport}"

    @property
    def title(self) -> str:
        """The arm as a reader of a table knows it: `IPv6`, `IPv6 tunnel`."""
        return f"IPv{self.ipver}" if self.transport == "native" else f"IPv{self.ipver} {self.transport}"

    @classmethod
    def parse(cls, text: str) -> Arm:
        """The inverse of `str`: `ipv4`, `ipv6`, `ipv6-tunnel`."""
        match = re.fullmatch(r"ipv([46])(?:-([a-z0-9]+))?", text)
        if match is None:
            raise UsageError(f"arm {text!r} is not of the form ipv4, ipv6 or ipv6-TRANSPORT")
        return cls(int(match[1]), match[2] or "native")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is held equal while arms are compared."""

    testbed: str
    protocol: str
    client: str
    connections: int
    payload_bytes: int

    def __str__(self) -> str:
        return f"{self.testbed}-{self.protocol}-c{self.connections}-{bytes_text(self.payload_bytes)}"


@dataclass(frozen=True, slots=True)
class Cell:
    """A workload on one arm."""

    workload: Workload
    arm: Arm

    def __str__(self) -> str:
        return f"{self.workload}-{self.arm}"
