"""Offloads of a network device, read and set by ethtool's ioctl, as a bare host may have no `ethtool`."""

from __future__ import annotations

import array
import contextlib
import fcntl
import socket
import struct
from collections.abc import Mapping

from pytest_ipperf.core.portable.errors import LabError

_SIOCETHTOOL = 0x8946
# Commands that read each offload (linux/ethtool.h); the setting command is the next number. Offloads that others depend
# on come first.
_READ = {"sg": 0x18, "tx-checksum": 0x16, "rx-checksum": 0x14, "tso": 0x1E, "gso": 0x23, "gro": 0x2B}


def offloads(device: str) -> dict[str, bool]:
    """Return the offloads in force, on or off by name; those that the device does not know are left out."""
    found = {}
    for name, command in _READ.items():
        with contextlib.suppress(OSError):
            found[name] = bool(_ioctl(device, command))
    return found


def set_offloads(device: str, wanted: Mapping[str, bool]) -> dict[str, bool]:
    """Switch offloads and return the previous state of all, which undoes the change by this same function.

    Some depend on others: without `sg` there is no `tso`. Raise LabError if one is not as wanted in the end.
    """
    before = offloads(device)
    for name, command in _READ.items():
        if name in wanted and offloads(device).get(name) != wanted[name]:
            with contextlib.suppress(OSError):  # reported below
                _ioctl(device, command + 1, on=wanted[name])
    after = offloads(device)
    missed = [f"{name} {'on' if on else 'off'}" for name, on in wanted.items() if after.get(name) != on]
    if missed:
        raise LabError(f"device {device!r}: offloads cannot be switched: {', '.join(missed)}")
    return before


def _ioctl(device: str, command: int, *, on: bool = False) -> int:
    value = array.array("I", [command, on])
    request = struct.pack("16sP", device.encode(), value.buffer_info()[0]) + bytes(16)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, _SIOCETHTOOL, request)
    return value[1]
