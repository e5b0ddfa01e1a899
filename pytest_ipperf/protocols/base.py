"""A protocol as the instrument sees it: one client's side of one transaction, without any I/O.

Rule 1: a conversation is given bytes and gives bytes; sockets, clocks and deadlines belong to the agent.
Rule 2: it ends where the study's Table 2-1 ends the measurement (paper 000); what follows is `goodbye`.
Rule 3: it travels: standard library only, Python 3.10.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass


class Conversation(ABC):
    """One transaction. `finished` and `trouble` are looked at after every call."""

    __slots__ = ("finished", "trouble")

    goodbye = b""
    """What a polite client sends after the measurement, before it closes."""

    def __init__(self) -> None:
        self.finished = False
        self.trouble = ""

    @abstractmethod
    def opening(self) -> bytes:
        """What the client says as soon as it is connected; empty where the server speaks first."""

    @abstractmethod
    def feed(self, data: bytes) -> bytes:
        """Takes what came in and gives what is to be sent. A reply that is not as it should be sets `trouble`."""


@dataclass(frozen=True)
class Protocol(ABC):
    """A kind of transaction that can be measured; each file of this folder offers one as `protocol`."""

    name: str
    title: str
    host: str
    """The name that every connection looks up first."""
    source: str
    """RFC of the protocol and the study whose measurement this is."""
    ends_with: str
    """Where the measurement ends, for the tables."""
    typical_s: float
    """Seconds a connection takes among others on an ordinary machine: for the forecast before there are data."""

    @abstractmethod
    def content(self, payload_bytes: int) -> bytes:
        """The page or message of exactly that size; UsageError where the protocol cannot have it so small."""

    @abstractmethod
    def conversation(self, content: bytes, index: int) -> Conversation:
        """A new transaction; `index` numbers the connections of a burst."""
