"""Addresses of this host, and the devices of the routes from them."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_ipperf.agent.kernel.ethtool import offloads
from pytest_ipperf.agent.kernel.qdiscs import disciplines, rates
from pytest_ipperf.agent.paths.routes import route
from pytest_ipperf.agent.sockets.ports import is_local


def facts(request: Mapping[str, Any]) -> dict[str, Any]:
    """`lacking` of `addresses`; of each of `peers` (our address and theirs) the `routes`; and their `devices`."""
    lacking = [address for address in request["addresses"] if not is_local(address)]
    routes = [
        [source, address, route(address, "" if source in lacking else source)] for source, address in request["peers"]
    ]
    names = sorted({found["device"] for _, _, found in routes if "device" in found})
    return {"lacking": lacking, "routes": routes, "devices": {name: _device(name) for name in names}}


def _device(name: str) -> dict[str, Any]:
    """`speed` in Mbit/s and `duplex` as far as the driver tells them, which has `driver` as its name."""
    driver = Path(f"/sys/class/net/{name}/device/driver")
    shown = _sysfs(name, "ifindex") == str(socket.if_nametoindex(name))  # /sys may be that of another network namespace
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
