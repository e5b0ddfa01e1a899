"""The rates that this host's devices are shaped to, asked of the kernel."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable

from pytest_ipperf.agent.netlink import ask, attributes

# linux/rtnetlink.h and linux/pkt_sched.h
_RTM_GETQDISC, _TC_H_ROOT = 38, 0xFFFFFFFF
_TCA_KIND, _TCA_OPTIONS, _TBF_PARMS, _TBF_RATE64 = 1, 2, 1, 4
_TCMSG = struct.Struct("=BxxxiIII")


def rates(devices: Iterable[str]) -> dict[str, float]:
    """By device: the rate in bit/s of its token bucket (tc-tbf(8)); 0 where it has none at its root."""
    found = dict.fromkeys(devices, 0.0)
    numbers = {socket.if_nametoindex(device): device for device in found}
    for answer in ask(_RTM_GETQDISC, _TCMSG.pack(0, 0, 0, 0, 0), dump=True):
        _, number, _, parent, _ = _TCMSG.unpack_from(answer)
        told = attributes(answer[_TCMSG.size :])
        if number in numbers and parent == _TC_H_ROOT and told[_TCA_KIND] == b"tbf\0":
            options = attributes(told[_TCA_OPTIONS])
            # 32 bits hold up to 34 Gbit/s; what is above has 64 in an attribute of its own.
            (bytes_s,) = struct.unpack_from("=8xI", options[_TBF_PARMS])
            if _TBF_RATE64 in options:
                (bytes_s,) = struct.unpack("=Q", options[_TBF_RATE64])
            found[numbers[number]] = 8.0 * bytes_s
    return found
