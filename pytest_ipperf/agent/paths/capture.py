"""Capture of the first packets that pass a device, kept by the kernel and read as pcap after the run.

The kernel writes the start of each packet, with its time, into a memory ring that is never emptied: when it is full, no
more packets are kept. No code of ours runs meanwhile.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import socket
import struct

from pytest_ipperf.agent.sockets.filters import JUMP_EQUAL, LOAD_HALF, PROTOCOL, RETURN, attach
from pytest_ipperf.core.portable.errors import LabError

_SNAP_BYTES = 128
"""Bytes kept of each packet: all headers, and a little of their payload."""
_ETH_P_ALL, _ETH_P_IP, _ETH_P_IPV6 = 0x0003, 0x0800, 0x86DD
_SOL_PACKET, _RX_RING, _VERSION, _IGNORE_OUTGOING, _TPACKET_V2 = 263, 5, 10, 23, 1
_ETHER, _LOOPBACK = 1, 772  # hardware types (linux/if_arp.h) whose packets have an Ethernet header
_LINKTYPE_ETHERNET, _LINKTYPE_RAW = 1, 101  # https://www.tcpdump.org/linktypes.html
_PCAP = struct.Struct("=IHHiIII")
HEAD_BYTES = _PCAP.size
"""Bytes of the file header of a pcap file."""
_PCAP_PACKET = struct.Struct("=IIII")
_NANOSECONDS = 0xA1B23C4D
_HEADER = struct.Struct("=IIIHHII")  # tpacket2_hdr: status, length, kept, offset, offset, seconds, nanoseconds
_HEADERS_BYTES = 96  # before a packet: that header, the sender's address, and alignment of the IP header
_TAKEN = 1  # TP_STATUS_USER: the kernel has written the packet


class Capture:
    """Capture on one device, from construction to `close`.

    The constructor raises LabError if there is no such device, and PermissionError without CAP_NET_RAW.
    """

    def __init__(self, device: str, packets: int) -> None:
        self._packets = packets
        with contextlib.ExitStack() as stack:
            self._ethernet = _hardware(device) in {_ETHER, _LOOPBACK}
            kind = socket.SOCK_RAW if self._ethernet else socket.SOCK_DGRAM
            sock = stack.enter_context(socket.socket(socket.AF_PACKET, kind, 0))  # no protocol until it is bound
            attach(sock, self._filter())
            if _hardware(device) == _LOOPBACK:  # otherwise each packet would be captured twice, sent and received
                sock.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
            self._ring = stack.enter_context(self._map_ring(sock))
            sock.bind((device, _ETH_P_ALL))
            self._stack = stack.pop_all()

    def _filter(self) -> list[tuple[int, int, int, int]]:
        if self._ethernet:
            return [(RETURN, 0, 0, _SNAP_BYTES)]
        return [
            (LOAD_HALF, 0, 0, PROTOCOL),
            (JUMP_EQUAL, 1, 0, _ETH_P_IP),
            (JUMP_EQUAL, 0, 1, _ETH_P_IPV6),
            (RETURN, 0, 0, _SNAP_BYTES),
            (RETURN, 0, 0, 0),
        ]

    def _map_ring(self, sock: socket.socket) -> mmap.mmap:
        self._frame_bytes = 1 << (_HEADERS_BYTES + _SNAP_BYTES - 1).bit_length()
        block_bytes = max(mmap.PAGESIZE, self._frame_bytes)
        blocks = -(-self._packets * self._frame_bytes // block_bytes)
        sock.setsockopt(_SOL_PACKET, _VERSION, _TPACKET_V2)
        frames = blocks * block_bytes // self._frame_bytes
        sock.setsockopt(_SOL_PACKET, _RX_RING, struct.pack("IIII", block_bytes, blocks, self._frame_bytes, frames))
        return mmap.mmap(sock.fileno(), blocks * block_bytes, mmap.MAP_SHARED, mmap.PROT_READ)

    def pcap(self) -> bytes:
        """Return the packets so far as a pcap file (https://www.tcpdump.org/manpages/pcap-savefile.5.html)."""
        linktype = _LINKTYPE_ETHERNET if self._ethernet else _LINKTYPE_RAW
        found = [_PCAP.pack(_NANOSECONDS, 2, 4, 0, 0, _SNAP_BYTES, linktype)]
        for at in range(0, self._packets * self._frame_bytes, self._frame_bytes):
            status, length, kept, start, _, seconds, nanoseconds = _HEADER.unpack_from(self._ring, at)
            if not status & _TAKEN:
                break
            found += [
                _PCAP_PACKET.pack(seconds, nanoseconds, kept, length),
                self._ring[at + start : at + start + kept],
            ]
        return b"".join(found)

    def close(self) -> None:
        """End the capture."""
        self._stack.close()


def _hardware(device: str) -> int:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sock:
        try:
            sock.bind((device, 0))
        except OSError as error:
            if error.errno != errno.ENODEV:
                raise
            raise LabError(f"nothing can be captured on {device!r}: there is no such device") from error
        kind: int = sock.getsockname()[3]
        return kind
