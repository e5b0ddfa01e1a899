"""Classic BPF filters on sockets (linux/filter.h): which packets a socket sees, and how much of each."""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Sequence

_SO_ATTACH_FILTER = 26
LOAD_WORD, LOAD_HALF, LOAD_BYTE, LOAD_LENGTH, JUMP_EQUAL, JUMP_GREATER, RETURN = (
    0x20,
    0x28,
    0x30,
    0x80,
    0x15,
    0x25,
    0x06,
)
"""Instructions: load 32, 16 or 8 bits, or the packet's length; jump if equal or greater; return the bytes to pass."""
PROTOCOL, KIND, NETWORK = 0xFFFFF000, 0xFFFFF004, 0xFFF00000
"""Operands beside a packet's bytes: its protocol, its PACKET_ kind, and, from NETWORK on, its IP header."""


Condition = tuple[int, int, int, bool]
"""Load instruction and operand, a value, and whether the loaded one must equal it or must not; a length exceeds it."""


def accepting(conditions: Sequence[Condition]) -> list[tuple[int, int, int, int]]:
    """Return the steps of a filter that passes one byte of the packets that meet all conditions, and no others."""
    steps = []
    for left, (load, operand, value, equal) in zip(range(len(conditions), 0, -1), conditions, strict=True):
        past = 2 * left - 1  # to the last step
        jump = JUMP_GREATER if load == LOAD_LENGTH else JUMP_EQUAL
        steps += [(load, 0, 0, operand), (jump, 0 if equal else past, past if equal else 0, value)]
    return [*steps, (RETURN, 0, 0, 1), (RETURN, 0, 0, 0)]


def attach(sock: socket.socket, steps: Sequence[tuple[int, int, int, int]]) -> None:
    """Attach a filter to a socket; a step is instruction, jump if true, jump if false, operand."""
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HL", len(steps), ctypes.addressof(program)))
