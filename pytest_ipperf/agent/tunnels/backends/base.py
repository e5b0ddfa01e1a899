"""Define a backend: a way to have a device on this host that encapsulates IPv6 in IPv4 (RFC 4213, RFC 5214)."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod

from pytest_ipperf.agent.host_state.changes import Changes
from pytest_ipperf.transports.base import TunnelEndpoint


class Backend(ABC):
    """Each file of this folder offers one as `backend`.

    All of them make the same packets: outer header of 20 bytes, protocol 41, don't-fragment, the traffic class copied
    (RFC 4213, section 3). What comes in is taken only from the peer, or, by ISATAP, from the IPv4 address that is in
    the IPv6 source or from the potential router (RFC 5214, section 7.3).
    """

    name: str
    title: str
    """For the tables: by what the packets were encapsulated."""
    rank: int
    """Its place in the order in which they are tried, from 0 on: what comes closer to real hosts is tried earlier."""
    needs_rate: bool = False
    """Whether it is so slow that it would be what is measured, unless the link is slower still."""

    counted_as_ipv4: bool = True
    """Whether the host's counter of IPv4 packets has those that it makes."""
    handicap: str = ""
    """Why tunnels are slower by it than by any driver, which is nothing to hold against tunnels; empty where not."""

    @abstractmethod
    def missing(self) -> str:
        """Why it cannot work on this host for this user, as the end of a sentence; empty where it can."""

    @abstractmethod
    def up(self, end: TunnelEndpoint, changes: Changes, stack: contextlib.ExitStack) -> None:
        """Makes the end's device and sets it up, with its MTU, and without addresses and routes.

        Commands go by `changes`, which undo them; what has to stay open or alive goes on `stack`, which is closed
        before that. LabError where it fails.
        """
