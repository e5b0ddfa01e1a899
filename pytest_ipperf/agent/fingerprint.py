"""A fingerprint of a host: what a result may depend on, so that a change of it can be seen later."""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import platform
import socket
import struct
import sys
from pathlib import Path
from typing import Any

_SIOCETHTOOL = 0x8946
_OFFLOADS = {"tso": 0x1E, "gso": 0x23, "gro": 0x2B, "tx-checksum": 0x16, "rx-checksum": 0x14}
_SYSCTLS = (
    "net/core/somaxconn",
    "net/ipv4/tcp_congestion_control",
    "net/ipv4/tcp_max_syn_backlog",
    "net/ipv4/ip_local_port_range",
    "net/ipv4/tcp_tw_reuse",
    "net/ipv6/conf/all/disable_ipv6",
)


def fingerprint(device: str) -> dict[str, Any]:
    """Kernel, processor, Python, network settings, and the offloads of `device` (under ethtool's names)."""
    return {
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpu": _cpu(),
        "cpus": os.cpu_count() or 0,
        "cpus_allowed": sorted(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "implementation": sys.implementation.name,
        "sysctl": {name.replace("/", "."): _sysctl(name) for name in _SYSCTLS},
        "device": device,
        "offloads": _offloads(device),
    }


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(("model name", "Model")):
            return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"


def _sysctl(name: str) -> str:
    with contextlib.suppress(OSError):
        return " ".join(Path(f"/proc/sys/{name}").read_text().split())
    return "not there"


def _offloads(device: str) -> dict[str, bool]:
    """On or off, by ethtool's ioctl; what the device does not know is left out."""
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for name, command in _OFFLOADS.items():
            value = array.array("I", [command, 0])
            request = struct.pack("16sP", device.encode(), value.buffer_info()[0]) + bytes(16)
            with contextlib.suppress(OSError):
                fcntl.ioctl(sock, _SIOCETHTOOL, request)
                found[name] = bool(value[1])
    return found
