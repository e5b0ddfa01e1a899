"""A cell: one point of the experiment, and its name.

The text of a cell is the pytest id and the key of its history: `lab-smtp-c10-1k-ipv6`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pytest_ipperf.core.errors import UsageError
from pytest_ipperf.core.units import bytes_text

LEAN = "lean"
"""The client that goes without saying: a workload's text names any other."""

_TWIN = "twin"


@dataclass(frozen=True, slots=True, order=True)
class Arm:
    """What is compared: an IP version and how it travels.

    A `twin` is the same once more, so that a comparison is made of which the true difference is known: none.
    """

    ipver: int
    transport: str
    twin: bool = False

    def __post_init__(self) -> None:
        if self.transport == _TWIN:
            raise UsageError(f"transport {_TWIN!r} does not exist; ipv{self.ipver}-{_TWIN} is an arm measured twice")
        if self.ipver not in (4, 6):
            raise UsageError(f"IP version {self.ipver!r} does not exist; there are 4 and 6")
        if self.ipver == 4 and self.transport != "native":
            raise UsageError(f"IPv4 with transport {self.transport!r} does not exist; IPv4 is always native here")

    def __str__(self) -> str:
        return "-".join((f"ipv{self.ipver}", *self._more()))

    @property
    def title(self) -> str:
        """The arm as a reader of a table knows it: `IPv6`, `IPv6 tunnel`, `IPv4 twin`."""
        return " ".join((f"IPv{self.ipver}", *self._more()))

    def _more(self) -> list[str]:
        return [self.transport] * (self.transport != "native") + [_TWIN] * self.twin

    @classmethod
    def parse(cls, text: str) -> Arm:
        """The inverse of `str`: `ipv4`, `ipv6`, `ipv6-tunnel`, `ipv4-twin`."""
        match = re.fullmatch(rf"ipv([46])(?:-(?!{_TWIN}$)([a-z0-9]+))?(-{_TWIN})?", text)
        if match is None:
            raise UsageError(f"arm {text!r} is not of the form ipv4, ipv6 or ipv6-TRANSPORT")
        return cls(int(match[1]), match[2] or "native", twin=bool(match[3]))


def talk_text(protocol: str, client: str) -> str:
    """Protocol and client as a workload's text names them: `smtp`, `smtp-library`."""
    return protocol if client == LEAN else f"{protocol}-{client}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is held equal while arms are compared."""

    testbed: str
    protocol: str
    client: str
    connections: int
    payload_bytes: int

    def __str__(self) -> str:
        talk = talk_text(self.protocol, self.client)
        return f"{self.testbed}-{talk}-c{self.connections}-{bytes_text(self.payload_bytes)}"


@dataclass(frozen=True, slots=True)
class Cell:
    """A workload on one arm."""

    workload: Workload
    arm: Arm

    def __str__(self) -> str:
        return f"{self.workload}-{self.arm}"
