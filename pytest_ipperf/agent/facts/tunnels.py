"""Tunnel backends that work here, and tunnel devices that exist already."""

from __future__ import annotations

import socket
from dataclasses import dataclass

from pytest_ipperf.agent.facts.base import Facts, FactsRequest
from pytest_ipperf.agent.paths.routes import route
from pytest_ipperf.agent.sockets.ports import is_local
from pytest_ipperf.agent.tunnels.backends import BACKENDS


@dataclass(frozen=True, slots=True, kw_only=True)
class TunnelFacts(Facts):
    """Tunnel facts: the faults of requested backends (`cannot`) and of `existing` devices; empty if there is none."""

    cannot: dict[str, str]
    existing: dict[str, str]

    @classmethod
    def collect(cls, request: FactsRequest) -> TunnelFacts:
        """Try the backends and look up the devices with their addresses."""
        return cls(
            cannot={name: BACKENDS[name].missing() for name in request.backends},
            existing={device: _wrong(device, address) for device, address in request.existing},
        )


def _wrong(device: str, address: str) -> str:
    names = [name for _, name in socket.if_nameindex()]
    if device not in names:
        return f"there is no device {device}"
    if not is_local(address):
        return f"address {address} is not on this host"
    found = route(address).device
    return "" if found in ("lo", device) else f"address {address} is on device {found}, not on {device}"


facts = TunnelFacts
