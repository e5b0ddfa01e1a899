"""Encapsulation by the sit driver of the host's own kernel, for 6in4 (RFC 4213) and ISATAP (RFC 5214) alike."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from pytest_ipperf.agent.host_state.changes import Changes
from pytest_ipperf.agent.host_state.state_dir import in_host_netns
from pytest_ipperf.agent.kernel.processes import search_path
from pytest_ipperf.agent.tunnels.backends.base import Backend
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.servers.base import program, true_root
from pytest_ipperf.transports.base import TunnelEndpoint

_ISATAP = "isatap"
_TRIED = "ipperf-try"
_TIMEOUT_S = 10.0
_DRIVER = Path("/sys/module/sit")
# Messages of kernels that do not have this kind of device.
_NO_DRIVER = ("Unknown device type", "Operation not supported")
# Unloading the driver removes the tunnels of all network namespaces, so none may have one.
_UNLOAD = """
for pid in $(lsns --noheadings --type net --output PID); do
    others=$(nsenter --target "$pid" --net ip -o link show type sit) || exit 0
    [ -z "$(echo "$others" | grep -v '^[0-9]*: sit0@')" ] || exit 0
done
exec modprobe --remove sit
"""
_UNLOADED = ("sh", "-c", _UNLOAD)


class Kernel(Backend):
    """Backend of the kernel's driver, which is unloaded afterwards if the host itself had not loaded it."""

    name = "kernel"
    title = "the kernel's sit driver"
    rank = 0

    def missing(self) -> str:
        for wanted, package in (("ip", "iproute2"), ("unshare", "util-linux")):
            if not program(wanted):
                return f"{wanted} is not installed (Debian: apt-get install {package})"
        was_loaded = _DRIVER.exists()
        try:
            return _tried()
        finally:
            if not was_loaded and _may_unload():
                _run(_UNLOADED)

    def up(self, end: TunnelEndpoint, changes: Changes, stack: contextlib.ExitStack) -> None:
        del stack
        if not _DRIVER.exists() and _may_unload():
            with contextlib.suppress(LabError):  # it may be built in, and the next command reports an error
                changes.run(["modprobe", "sit"], _UNLOADED)
        changes.run(["ip", "link", "add", end.device, *_kind(end)], ["ip", "link", "del", end.device])
        if end.transport == _ISATAP and end.remote:
            changes.run(["ip", "tunnel", "prl", "dev", end.device, "prl-default", end.remote], None)
        # Routes are configured and not solicited (RFC 5214, section 8.3.2): solicitations would count as measured
        # packets.
        for name in ("router_solicitations", "accept_ra"):
            changes.write(f"/proc/sys/net/ipv6/conf/{end.device}/{name}", "0")
        changes.run(["ip", "link", "set", end.device, "mtu", str(end.mtu), "up"], None)


def _kind(end: TunnelEndpoint) -> list[str]:
    mode = [_ISATAP] if end.transport == _ISATAP else ["remote", end.remote]
    return ["type", "sit", "mode", "ip6ip", *mode, "local", end.local, "ttl", str(end.ttl)]


def _tried() -> str:
    """Return why no tunnel can be made in a separate network namespace; empty if one can."""
    identity = [] if true_root() else ["--user", "--map-root-user"]
    tried = TunnelEndpoint("tunnel", _TRIED, "192.0.2.1", "192.0.2.2", ())
    trouble = _run(["unshare", *identity, "--net", "ip", "link", "add", _TRIED, *_kind(tried)])
    if any(each in trouble for each in _NO_DRIVER):
        return f"this kernel, {os.uname().release}, has no sit driver (module sit)"
    if trouble and os.geteuid():
        return f"no rights to make a tunnel ({trouble})"
    return f"no tunnel can be made ({trouble})" if trouble else ""


def _may_unload() -> bool:
    """Return whether this is the host itself: a lab's nodes do not see who else uses the driver."""
    return true_root() and in_host_netns()


def _run(argv: Sequence[str]) -> str:
    """Return the last line of a failed command's error output; empty if it succeeds."""
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=_TIMEOUT_S, env={**os.environ, **search_path()}, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    lines = (done.stderr.strip() or f"exit status {done.returncode}").splitlines()
    return lines[-1] if done.returncode else ""


backend = Kernel()
