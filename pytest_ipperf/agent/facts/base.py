"""Base class of facts, and the request for them."""

from __future__ import annotations

from abc import ABC, abstractmethod
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


class Facts(ABC):
    """Facts of one kind; a subclass is a dataclass, which is sent to the controller field by field."""

    __slots__ = ()

    @classmethod
    @abstractmethod
    def collect(cls, request: FactsRequest) -> Facts:
        """Collect the facts on this host; errors of the kernel are the caller's."""
