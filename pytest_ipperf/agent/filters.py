"""Classic BPF filters on sockets (linux/filter.h): which packets a socket sees, and how much of each."""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Sequence

_SO_ATTACH_FILTER = 26
LOAD_WORD, LOAD_HALF, LOAD_BYTE, JUMP_EQUAL, RETURN = 0x20, 0x28, 0x30, 0x15, 0x06
"""Instructions: load 32, 16 or 8 bits, jump if they are equal, end with so many bytes seen."""
PROTOCOL, KIND, NETWORK = 0xFFFFF000, 0xFFFFF004, 0xFFF00000
"""What can be loaded beside a packet's bytes: its protocol, its PACKET_ kind; from NETWORK on lies its IP header."""


def attach(sock: socket.socket, steps: Sequence[tuple[int, int, int, int]]) -> None:
    """Filters what a socket sees from now on; a step is instruction, jump if true, jump if false, operand."""
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HL", len(steps), ctypes.addressof(program)))
