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


Condition = tuple[int, int, int, bool]
"""What is loaded (instruction and operand), a value, and whether it has to be that or has not to be."""


def accepting(conditions: Sequence[Condition]) -> list[tuple[int, int, int, int]]:
    """The steps of a filter that takes the first byte of the packets for which all of them hold, and no others."""
    steps = []
    for left, (load, operand, value, equal) in zip(range(len(conditions), 0, -1), conditions, strict=True):
        past = 2 * left - 1  # to the last step
        steps += [(load, 0, 0, operand), (JUMP_EQUAL, 0 if equal else past, past if equal else 0, value)]
    return [*steps, (RETURN, 0, 0, 1), (RETURN, 0, 0, 0)]


def attach(sock: socket.socket, steps: Sequence[tuple[int, int, int, int]]) -> None:
    """Filters what a socket sees from now on; a step is instruction, jump if true, jump if false, operand."""
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HL", len(steps), ctypes.addressof(program)))
