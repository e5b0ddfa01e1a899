"""Creation of a tunnel endpoint on this host (device by a backend, addresses, routes), and of further routes."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections.abc import Iterable
from pathlib import Path

from pytest_ipperf.agent.host_state.changes import Changes
from pytest_ipperf.agent.paths import routes
from pytest_ipperf.agent.tunnels.backends import BACKENDS
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.transports.base import HostRoutes, TunnelEndpoint

_SETTINGS = Path("/proc/sys/net/ipv6/conf")
_ADDRESSES = Path("/proc/net/if_inet6")


def create_tunnel(backend: str, endpoint: TunnelEndpoint, changes: Changes, stack: contextlib.ExitStack) -> None:
    """Create the endpoint; raise LabError, with nothing left of it, if that fails or its device exists already."""
    with contextlib.suppress(OSError):
        socket.if_nametoindex(endpoint.device)
        raise LabError(
            f"device {endpoint.device} exists already and is not ours; remove it: ip link del {endpoint.device}"
        )
    _expect_free(endpoint.addresses)
    with changes.transaction(), contextlib.ExitStack() as endpoint_stack:
        BACKENDS[backend].up(endpoint, changes, endpoint_stack)
        # These settings disappear with the device. A host may have IPv6 switched off for new devices, and a driver may
        # have added its link-local address itself.
        changes.write(str(_SETTINGS / endpoint.device / "disable_ipv6"), "0")
        for address in endpoint.addresses:
            changes.run(["ip", "-6", "addr", "replace", address, "dev", endpoint.device, "nodad"], None)
        for prefix, hop in endpoint.routes:
            changes.run(["ip", "-6", "route", "add", *_way(prefix, hop, endpoint.device)], None)
        stack.push(endpoint_stack.pop_all())


def add_routes(host_routes: HostRoutes, changes: Changes) -> None:
    """Add a host's addresses and routes beside a tunnel; raise LabError if that fails, or an address exists already.

    Nothing is left of them then.
    """
    found = routes.route(host_routes.towards)
    if found.error:
        raise LabError(f"no route to {host_routes.towards}: {found.error}")
    device = found.device
    _expect_free(host_routes.addresses)
    if (_SETTINGS / device / "disable_ipv6").read_text().strip() != "0":
        raise LabError(f"device {device} has IPv6 switched off: set net.ipv6.conf.{device}.disable_ipv6 to 0")
    with changes.transaction():
        for address in host_routes.addresses:
            # Without duplicate address detection (RFC 4862), during which nothing could be sent from it for a second.
            given = [address, "dev", device]
            changes.run(["ip", "-6", "addr", "add", *given, "nodad"], ["ip", "-6", "addr", "del", *given])
        for prefix, hop in host_routes.routes:
            way = _way(prefix, hop, device)
            changes.run(["ip", "-6", "route", "add", *way], ["ip", "-6", "route", "del", *way])
        if host_routes.forwards:
            _forward(changes)


def _way(prefix: str, hop: str, device: str) -> list[str]:
    return [prefix, *(["via", hop] if hop else []), "dev", device]


def _forward(changes: Changes) -> None:
    """Enable IPv6 forwarding on every device, and keep the routes that routers have advertised.

    A forwarding host drops them and ignores further advertisements, except on devices with `accept_ra` 2 (Linux,
    Documentation/networking/ip-sysctl.rst).
    """
    if (_SETTINGS / "all/forwarding").read_text().strip() == "1":
        return
    for each in sorted(_SETTINGS.glob("*/accept_ra")):
        if each.parent.name not in {"all", "default"} and each.read_text().strip() == "1":
            changes.write(str(each), "2")
    changes.write(str(_SETTINGS / "all/forwarding"), "1")


def _expect_free(addresses: Iterable[str]) -> None:
    """Raise LabError if one of the addresses is this host's already; link-local ones may repeat on every link."""
    if not _ADDRESSES.exists():
        raise LabError("this host has no IPv6: its kernel was started with ipv6.disable=1, or has none")
    wanted = {ipaddress.IPv6Interface(address).ip for address in addresses}
    for line in _ADDRESSES.read_text(encoding="ascii").splitlines():
        digits, *_, device = line.split()
        found = ipaddress.IPv6Address(bytes.fromhex(digits))
        if found in wanted and not found.is_link_local:
            raise LabError(
                f"address {found} exists already on device {device} and is not ours; give the testbed others"
            )
