"""Limit of the segments that TCP hands a device as one packet (`gso_max_segs` of ip-link(8)), set by netlink."""

from __future__ import annotations

import socket
import struct

from pytest_ipperf.agent.kernel.netlink import attribute, order

# linux/rtnetlink.h, linux/if_link.h
_NEW_LINK, _GSO_MAX_SEGS = 16, 40
_IFINFOMSG = struct.Struct("=BxHiII")


def limit_segments(device: str, most: int) -> None:
    """Let TCP hand a device at most so many segments as one packet; OSError if there is no such device."""
    place = _IFINFOMSG.pack(socket.AF_UNSPEC, 0, socket.if_nametoindex(device), 0, 0)
    order(_NEW_LINK, place + attribute(_GSO_MAX_SEGS, struct.pack("=I", most)), new=False)
