"""Request for facts; each file of this folder offers `facts`, a function of a request."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class FactsRequest:
    """Subjects of the facts of a host.

    `addresses` and `peers` (own address, the other's) are those of the measured link, `ports` the range of servers,
    `existing` tunnels a device and its address.
    """

    addresses: list[str] = field(default_factory=list)
    peers: list[tuple[str, str]] = field(default_factory=list)
    ports: tuple[int, int] = (0, 0)
    programs: list[str] = field(default_factory=list)
    backends: list[str] = field(default_factory=list)
    existing: list[tuple[str, str]] = field(default_factory=list)
