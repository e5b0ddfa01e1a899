"""A cell: one point of the experiment, and its name.

The text of a cell is the pytest id and the key of its history: `lab-smtp-c10-1k-ipv6`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.factor import Level
from pytest_ipperf.core.portable.units import bytes_text
from pytest_ipperf.core.portable.workload_kind import LEAN

_TWIN = "twin"
AGAINST = "vs_"
"""Prefix of the part of a workload's text that names the reference level of a compared factor."""
ARM_LEVEL_PATTERN = r"[a-z]+_[a-z0-9.]+"
"""Regular expression for the level of a compared factor in texts, such as `offload_off`."""


@dataclass(frozen=True, slots=True, order=True)
class Arm:
    """One side of a comparison: an IP version and its transport.

    A `twin` is the same arm measured once more, for a comparison whose true difference is known to be zero. `level` is
    that of the compared factor, as `arm_level_text` names it; empty where IP versions and transports are compared.
    """

    ipver: int
    transport: str
    twin: bool = False
    level: str = ""

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
        """Name of the arm in tables: `IPv6`, `IPv6 tunnel`, `IPv4 twin`, `IPv6 offload off`."""
        return " ".join((f"IPv{self.ipver}", *self._more())).replace("_", " ")

    def _more(self) -> list[str]:
        return [self.transport] * (self.transport != "native") + [self.level] * bool(self.level) + [_TWIN] * self.twin

    @classmethod
    def parse(cls, text: str) -> Arm:
        """Parse the text that `str` returns: `ipv4`, `ipv6`, `ipv6-tunnel`, `ipv4-twin`, `ipv6-offload_off`."""
        match = re.fullmatch(rf"ipv([46])(?:-(?!{_TWIN}$)([a-z0-9]+))?(?:-({ARM_LEVEL_PATTERN}))?(-{_TWIN})?", text)
        if match is None:
            raise UsageError(f"arm {text!r} is not of the form ipv4, ipv6 or ipv6-TRANSPORT")
        return cls(int(match[1]), match[2] or "native", twin=bool(match[4]), level=match[3] or "")


def arm_level_text(factor: str, level: str) -> str:
    """Return the level of a compared factor as in the texts of arms and workloads: `offload_off`, `window_64k`."""
    return f"{factor}_{level}"


def talk_text(protocol: str, client: str) -> str:
    """Return protocol and client as in a workload's text: `smtp`, `smtp-library`."""
    return protocol if client == LEAN else f"{protocol}-{client}"


def client_text(client: str, rate_per_s: float, workers: int) -> str:
    """Return the client as in headers and tables: `lean`, `lean by 2 workers, 200 arrivals a second`."""
    by = f" by {workers} workers" if workers > 1 else ""
    return client + by + (f", {_rate_text(rate_per_s)} arrivals a second" if rate_per_s else "")


MODE_PATTERN = r"(?:-r[\d.]+(?:e[+-]\d+)?)?(?:-w\d+)?"
"""Regular expression for the part of a workload's text after the payload: arrivals and workers."""


def load_text(payload_bytes: int, rate_per_s: float, workers: int) -> str:
    """Return payload, arrivals and workers as in a workload's text: `10k`, `10k-r200`, `10k-r200-w2`."""
    rate = f"-r{_rate_text(rate_per_s)}" if rate_per_s else ""
    return bytes_text(payload_bytes) + rate + (f"-w{workers}" if workers > 1 else "")


def levels_text(levels: Sequence[Level]) -> str:
    """Return the levels of a protocol's own factors as in a workload's text, without implicit ones: `window64k`."""
    return "-".join(level.text for level in levels if level.text)


def testbed_of(workload: str) -> str:
    """Return the testbed's name from a workload's text; no testbed has a hyphen in its name."""
    return workload.partition("-")[0]


def _rate_text(rate_per_s: float) -> str:
    """Format a rate with all of its digits, so that only equal rates have equal texts."""
    return str(rate_per_s).removesuffix(".0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Everything that is equal for all arms of a comparison.

    With a `rate_per_s` the connections arrive at that rate, otherwise all at once. `workers` processes of the client
    share them. `levels` are those of the protocol's own factors. If one of them is compared, its level is the arm's,
    and `against` is the level that the others are compared with, as `arm_level_text` names it.
    """

    testbed: str
    protocol: str
    client: str
    connections: int
    payload_bytes: int
    rate_per_s: float = 0.0
    workers: int = 1
    levels: tuple[Level, ...] = ()
    against: str = ""

    def __str__(self) -> str:
        load = load_text(self.payload_bytes, self.rate_per_s, self.workers)
        parts = (f"c{self.connections}", load, levels_text(self.levels), self.against and AGAINST + self.against)
        return "-".join(filter(None, (self.testbed, talk_text(self.protocol, self.client), *parts)))

    def reference(self, arm: Arm, chosen: Arm) -> Arm:
        """Return the arm that `arm` is compared with: the `chosen` one, or its own at another level of a factor."""
        return replace(arm, level=self.against, twin=False) if self.against else chosen


@dataclass(frozen=True, slots=True)
class Cell:
    """A workload on one arm."""

    workload: Workload
    arm: Arm

    def __str__(self) -> str:
        return f"{self.workload}-{self.arm}"

    def reference(self, chosen: Arm) -> Arm:
        """Return the arm that the cell's is compared with; `chosen` is the session's."""
        return self.workload.reference(self.arm, chosen)
