"""Definition of a backend: a way to have a device on this host that encapsulates IPv6 in IPv4 (RFC 4213, RFC 5214)."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod

from pytest_ipperf.agent.host_state.changes import Changes
from pytest_ipperf.transports.base import TunnelEndpoint


class Backend(ABC):
    """Way to make a tunnel endpoint; each file of this folder offers one as `backend`.

    All of them make the same packets: outer header of 20 bytes, protocol 41, don't-fragment, the traffic class copied
    (RFC 4213, section 3). They accept packets only from the peer, or, with ISATAP, from the IPv4 address that is in the
    IPv6 source or from the potential router (RFC 5214, section 7.3).
    """

    name: str
    title: str
    """Name of the encapsulating program, for the tables."""
    rank: int
    """Place in the order in which backends are tried, from 0 on: those closer to real hosts are tried earlier."""
    needs_rate: bool = False
    """True if it is so slow that it limits the measurement unless the link is slower still."""

    counted_as_ipv4: bool = True
    """True if the host's counter of IPv4 packets includes its packets."""
    handicap: str = ""
    """Reason why tunnels are slower with it than with any kernel driver; empty if they are not."""

    @abstractmethod
    def missing(self) -> str:
        """Return why it cannot work on this host for this user, as the end of a sentence; empty if it can."""

    @abstractmethod
    def up(self, end: TunnelEndpoint, changes: Changes, stack: contextlib.ExitStack) -> None:
        """Create the endpoint's device and set it up with its MTU, without addresses and routes.

        Commands go through `changes`, which undo them; resources to be kept are pushed on `stack`, which is closed
        before that. Raise LabError if it fails.
        """
