"""RPC methods that verify the path of an arm: its routes, MTU and rate."""

from __future__ import annotations

import contextlib
import random

from pytest_ipperf.agent.paths import routes
from pytest_ipperf.agent.paths.packet_train import TrainReceiver, rate_bit_s, send_train
from pytest_ipperf.agent.paths.reverse_pmtu import PmtuProber, PmtuReflector
from pytest_ipperf.agent.rpc.handlers.base import AgentContext, Handlers
from pytest_ipperf.agent.rpc.messages import PacketTrain
from pytest_ipperf.agent.sockets.ports import free_port


class PathHandlers(Handlers):
    """Handlers for a path, at either end of it or between them."""

    def __init__(self, context: AgentContext) -> None:
        super().__init__(context)
        self._trains = context.stack.enter_context(contextlib.ExitStack())
        self._probes = context.stack.enter_context(contextlib.ExitStack())
        self._probed = ("", "", 0)

    def route(self, destination: str, source: str = "", arrives: str = "") -> routes.Route:
        """Return the route to an address, for packets from `source`, or at a router for those arriving by a device."""
        return routes.route(destination, source, arrives)

    def routes(self, requests: list[routes.RouteRequest]) -> list[routes.Route]:
        """Return the routes that are asked for."""
        return [routes.requested(each) for each in requests]

    def fits(self, resolver: str, port: int, name: str, sizes: tuple[int, int]) -> dict[int, str]:
        """Return which packets of these sizes reach the name server unfragmented."""
        return {size: routes.fits(resolver, port, name, size) for size in sizes}

    def reverse_pmtu_listen(self, address: str, ports: tuple[int, int]) -> int:
        """Answer probes of the reverse path from now on, on a free port; return the port."""
        self._probes.close()
        self._probed = ("", "", 0)
        port = free_port([address], *ports, random.Random())  # noqa: S311 - not a secret
        self._reflector = PmtuReflector(address, port)
        self._probes.callback(self._reflector.close)
        return port

    def reverse_pmtu_send(self, packets_bytes: list[int]) -> list[int]:
        """Send packets of these sizes to the prober; return those that this host refuses."""
        return self._reflector.send(packets_bytes)

    def reverse_pmtu_probe(self, source: str, address: str, port: int, packet_bytes: int) -> list[int]:
        """Request packets of several sizes there; return the sizes received, up to that one.

        They may be requested several times, in case they were lost.
        """
        if self._probed != (source, address, port):
            self._probes.close()
            self._prober = self._probes.enter_context(contextlib.closing(PmtuProber(source, address, port)))
            self._probed = source, address, port
        self._prober.request()
        return self._prober.received(packet_bytes)

    def train_listen(self, address: str, datagrams: int) -> int:
        """Receive trains of at most so many datagrams from now on; return the port."""
        self._trains.close()
        self._train = TrainReceiver(address, datagrams)
        self._trains.callback(self._train.close)
        return self._train.port

    def train_send(self, train: PacketTrain) -> None:
        """Send a packet train."""
        send_train(
            train.source,
            (train.address, train.port),
            train.ident,
            packet_bytes=train.packet_bytes,
            datagrams=train.datagrams,
            backlog=train.backlog,
        )

    def train_rate(self, ident: int, datagrams: int, wire_bytes: int) -> float | None:
        """Return the rate in bit/s of a train that has been sent; None if too little of it came."""
        return rate_bit_s(self._train.stamps_ns(ident, datagrams), wire_bytes)


handlers = PathHandlers
