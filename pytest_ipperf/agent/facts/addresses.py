"""Addresses of this host, and the devices of the routes from them."""

from __future__ import annotations

import socket
from pathlib import Path

from pytest_ipperf.agent.facts.base import FactsRequest
from pytest_ipperf.agent.kernel.ethtool import offloads
from pytest_ipperf.agent.kernel.qdiscs import disciplines, rates
from pytest_ipperf.agent.paths.routes import route
from pytest_ipperf.agent.sockets.ports import is_local


def facts(request: FactsRequest) -> dict[str, object]:
    """Return which `addresses` are `lacking` here, `routes` to `peers` (our address, theirs), and their `devices`."""
    lacking = [address for address in request.addresses if not is_local(address)]
    routes = [
        (source, address, route(address, "" if source in lacking else source)) for source, address in request.peers
    ]
    names = sorted({found["device"] for _, _, found in routes if "device" in found})
    return {"lacking": lacking, "routes": routes, "devices": {name: _device(name) for name in names}}


def _device(name: str) -> dict[str, object]:
    """Return `speed` in Mbit/s, `duplex` and `driver` of a device, as far as known, and its settings."""
    driver = Path(f"/sys/class/net/{name}/device/driver")
    shown = _sysfs(name, "ifindex") == str(socket.if_nametoindex(name))  # else /sys is another network namespace's
    return {
        "speed": _sysfs(name, "speed") if shown else "",
        "duplex": _sysfs(name, "duplex") if shown else "",
        "driver": driver.resolve().name if shown and driver.exists() else "",
        "queueing": disciplines([name])[name],
        "rate_bit_s": rates([name])[name],
        "offloads": offloads(name),
    }


def _sysfs(name: str, what: str) -> str:
    try:
        return Path(f"/sys/class/net/{name}/{what}").read_text().strip()
    except OSError:
        return ""
