"""Queueing disciplines of this host's devices and their shaping rates, read by netlink."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Iterator

from pytest_ipperf.agent.kernel.netlink import ask, attributes

# linux/rtnetlink.h and linux/pkt_sched.h
_RTM_GETQDISC, _TC_H_ROOT = 38, 0xFFFFFFFF
_TCA_KIND, _TCA_OPTIONS, _TBF_PARMS, _TBF_RATE64 = 1, 2, 1, 4
_TCMSG = struct.Struct("=BxxxiIII")


def rates(devices: Iterable[str]) -> dict[str, float]:
    """Return by device the rate in bit/s of its token bucket (tc-tbf(8)); 0 if it has none at its root."""
    found = dict.fromkeys(devices, 0.0)
    for device, attrs in _roots(found):
        if attrs[_TCA_KIND] == b"tbf\0":
            options = attributes(attrs[_TCA_OPTIONS])
            # 32 bits hold up to 34 Gbit/s; a higher rate has 64 bits in an attribute of its own.
            (bytes_s,) = struct.unpack_from("=8xI", options[_TBF_PARMS])
            if _TBF_RATE64 in options:
                (bytes_s,) = struct.unpack("=Q", options[_TBF_RATE64])
            found[device] = 8.0 * bytes_s
    return found


def disciplines(devices: Iterable[str]) -> dict[str, str]:
    """Return by device the kind of its root queueing discipline (tc(8)), such as `noqueue`; empty if unknown."""
    found = dict.fromkeys(devices, "")
    return {**found, **{device: attrs[_TCA_KIND].rstrip(b"\0").decode("ascii") for device, attrs in _roots(found)}}


def _roots(devices: Iterable[str]) -> Iterator[tuple[str, dict[int, bytes]]]:
    """Yield the attributes of the root qdisc of each device that has one."""
    numbers = {socket.if_nametoindex(device): device for device in devices}
    for answer in ask(_RTM_GETQDISC, _TCMSG.pack(0, 0, 0, 0, 0), dump=True):
        _, number, _, parent, _ = _TCMSG.unpack_from(answer)
        if number in numbers and parent == _TC_H_ROOT:
            yield numbers[number], attributes(answer[_TCMSG.size :])
