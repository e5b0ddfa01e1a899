"""BPF programs as filters of tc, with direct action (tc-bpf(8)), which a device keeps until they are removed.

A filter works at once. A link of tcx waits for all processors when it is made and once more when it ends, 8 to 16 ms
each, and no device of the machine can be changed meanwhile. But a filter stays when its process is killed, so it is for
hosts that are thrown away themselves.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import struct

from pytest_ipperf.agent.kernel.netlink import attribute, order

# linux/rtnetlink.h, linux/pkt_sched.h, linux/pkt_cls.h
_NEW_QDISC, _NEW_FILTER, _DELETE_FILTER = 36, 44, 45
_CLSACT_HANDLE, _CLSACT, _INGRESS, _EGRESS = 0xFFFF0000, 0xFFFFFFF1, 0xFFFFFFF2, 0xFFFFFFF3
_KIND, _OPTIONS, _NESTED = 1, 2, 0x8000
_BPF_FD, _BPF_NAME, _BPF_FLAGS, _DIRECT_ACTION = 6, 7, 8, 1
_ALL_PROTOCOLS = socket.htons(0x0003)
_TCMSG = struct.Struct("=BxxxiIII")


def add(program: int, name: str, index: int, *, egress: bool, preference: int) -> None:
    """Run a loaded program on the packets of a device, those of lower preference first; OSError if that fails."""
    with contextlib.suppress(FileExistsError):  # another filter's
        order(_NEW_QDISC, _TCMSG.pack(0, index, _CLSACT_HANDLE, _CLSACT, 0) + attribute(_KIND, b"clsact\0"))
    options = (
        attribute(_BPF_FD, struct.pack("=I", program))
        + attribute(_BPF_NAME, name.encode() + b"\0")
        + attribute(_BPF_FLAGS, struct.pack("=I", _DIRECT_ACTION))
    )
    kind = attribute(_KIND, b"bpf\0") + attribute(_OPTIONS | _NESTED, options)
    order(_NEW_FILTER, _place(index, egress=egress, preference=preference) + kind)


def remove(index: int, *, egress: bool, preference: int) -> None:
    """Remove the filters of that preference from a device, unless they or the device have gone."""
    try:
        order(_DELETE_FILTER, _place(index, egress=egress, preference=preference), new=False)
    except OSError as error:
        if error.errno not in {errno.ENODEV, errno.ENOENT}:
            raise


def _place(index: int, *, egress: bool, preference: int) -> bytes:
    return _TCMSG.pack(0, index, 0, _EGRESS if egress else _INGRESS, preference << 16 | _ALL_PROTOCOLS)
