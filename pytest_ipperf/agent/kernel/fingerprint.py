"""Fingerprint of a host: settings that a result may depend on, so that a change of them can be seen later."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
from pathlib import Path
from typing import Any

from pytest_ipperf.agent.kernel.ethtool import offloads

_SYSCTLS = (
    "net/core/somaxconn",
    "net/ipv4/tcp_congestion_control",
    "net/ipv4/tcp_max_syn_backlog",
    "net/ipv4/ip_local_port_range",
    "net/ipv4/tcp_tw_reuse",
    "net/ipv6/conf/all/disable_ipv6",
)


def fingerprint(device: str) -> dict[str, Any]:
    """Return kernel, processor, Python, network settings, and the offloads of `device` (under ethtool's names)."""
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
        "offloads": offloads(device),
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
