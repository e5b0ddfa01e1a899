"""Addresses of this host, and the devices of the routes from them."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path

from pytest_ipperf.agent.facts.base import Facts, FactsRequest
from pytest_ipperf.agent.kernel.ethtool import offloads
from pytest_ipperf.agent.kernel.qdiscs import disciplines, rates
from pytest_ipperf.agent.paths.routes import Route, route
from pytest_ipperf.agent.sockets.ports import is_local


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerRoute:
    """Route from an address of this host to one of another's."""

    source: str
    address: str
    route: Route


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts:
    """Device of a route; `speed` in Mbit/s, `duplex` and `driver` are empty if unknown, `rate_bit_s` 0 if unshaped."""

    speed: str
    duplex: str
    driver: str
    queueing: str
    rate_bit_s: float
    offloads: dict[str, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressFacts(Facts):
    """Requested addresses that are `lacking` here, routes to the peers, and the devices of these routes."""

    lacking: list[str]
    routes: list[PeerRoute]
    devices: dict[str, DeviceFacts]

    @classmethod
    def collect(cls, request: FactsRequest) -> AddressFacts:
        """Look up the addresses and the routes."""
        lacking = [address for address in request.addresses if not is_local(address)]
        routes = [
            PeerRoute(source=source, address=address, route=route(address, "" if source in lacking else source))
            for source, address in request.peers
        ]
        names = sorted({each.route.device for each in routes if each.route.device})
        return cls(lacking=lacking, routes=routes, devices={name: _device(name) for name in names})


def _device(name: str) -> DeviceFacts:
    driver = Path(f"/sys/class/net/{name}/device/driver")
    shown = _sysfs(name, "ifindex") == str(socket.if_nametoindex(name))  # else /sys is another network namespace's
    return DeviceFacts(
        speed=_sysfs(name, "speed") if shown else "",
        duplex=_sysfs(name, "duplex") if shown else "",
        driver=driver.resolve().name if shown and driver.exists() else "",
        queueing=disciplines([name])[name],
        rate_bit_s=rates([name])[name],
        offloads=offloads(name),
    )


def _sysfs(name: str, what: str) -> str:
    try:
        return Path(f"/sys/class/net/{name}/{what}").read_text().strip()
    except OSError:
        return ""


facts = AddressFacts
