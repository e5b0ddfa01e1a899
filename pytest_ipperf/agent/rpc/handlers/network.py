"""RPC methods that change this host's network and restore it."""

from __future__ import annotations

import contextlib

from pytest_ipperf.agent.host_state.changes import Changes
from pytest_ipperf.agent.host_state.dirty_marks import dirty_reason
from pytest_ipperf.agent.host_state.switched_offloads import SwitchedOffloads
from pytest_ipperf.agent.host_state.unmanaged_changes import UnmanagedChanges
from pytest_ipperf.agent.kernel.ethtool import offloads, set_offloads
from pytest_ipperf.agent.kernel.gso import limit_segments
from pytest_ipperf.agent.kernel.qdiscs import rates
from pytest_ipperf.agent.rpc.handlers.base import AgentContext, Handlers
from pytest_ipperf.agent.tunnels.backends import BACKENDS
from pytest_ipperf.agent.tunnels.tunnel import add_routes, create_tunnel
from pytest_ipperf.transports.base import HostRoutes, TunnelEndpoint


class NetworkHandlers(Handlers):
    """Handlers for tunnels, and for offloads."""

    def __init__(self, context: AgentContext) -> None:
        super().__init__(context)
        self._changes = Changes(context.code_fd)
        context.stack.callback(self._changes.undo)
        self._offloads = SwitchedOffloads(self._changes)
        # The programs that carry tunnels are closed before their devices go.
        self._tunnels = context.stack.enter_context(contextlib.ExitStack())

    def dirty_reason(self) -> str:
        """Return why nothing may be measured here until someone has looked after this host; empty if all is well."""
        return dirty_reason()

    def without_rollback(self) -> None:
        """Note that this host is thrown away as a whole, so that changes need no rollback."""
        self._changes = UnmanagedChanges()
        self._offloads = SwitchedOffloads(self._changes)

    def watch(self, device: str) -> None:
        """Count the bare IPv6 packets of this device too, from now on, in `load` and `finish_run`."""
        self._context.counters.watch(device)

    def cannot_carry(self, backend: str) -> str:
        """Return why that backend cannot carry a tunnel here; empty if it can."""
        return BACKENDS[backend].missing()

    def create_tunnel(self, backend: str, endpoint: TunnelEndpoint) -> None:
        """Create a tunnel endpoint, with its addresses and routes."""
        create_tunnel(backend, endpoint, self._changes, self._tunnels)

    def add_routes(self, routes: HostRoutes) -> None:
        """Add the addresses and routes that this host needs beside a tunnel."""
        add_routes(routes, self._changes)

    def unmerged(self, ports: list[str], carriers: list[str]) -> None:
        """Make every packet on these devices a packet of the wire, as a shaper counts packets.

        TCP builds larger ones even for a port without such an offload, unless its segments are limited too. This is for
        hosts that are thrown away: nothing undoes it.
        """
        for device in ports:
            set_offloads(device, dict.fromkeys(offloads(device), False))
        for device in (*ports, *carriers):
            limit_segments(device, 1)

    def set_offloads(self, device: str, settings: dict[str, bool]) -> dict[str, bool]:
        """Switch offloads of a device, empty `settings` to what they were; return those in force, on or off by name.

        An offload that the device lacks may only be off. Packets larger than the MTU are counted there from now on.
        """
        found = self._offloads.switch(device, settings)
        self._context.counters.watch_merged(self._offloads.devices)
        return found

    def rates(self, devices: list[str]) -> dict[str, float]:
        """Return by device the rate in bit/s that it is shaped to; 0 if it is not."""
        return rates(devices)

    def restore(self) -> list[str]:
        """Restore all that was changed here; return a sentence for each fact that is not as it was."""
        self._tunnels.close()
        self._offloads = SwitchedOffloads(self._changes)
        return self._changes.undo()


handlers = NetworkHandlers
