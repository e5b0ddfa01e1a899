"""BPF programs without a compiler: an assembler, and bpf(2) by ctypes (Linux 6.6, which introduced tcx).

Programs are loaded for tc (BPF_PROG_TYPE_SCHED_CLS) and checked by the kernel's own verifier. Only descriptors keep a
program and its attachment to a device: both end with the process, however it ends.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys

_SYSCALL = {"x86_64": 321, "aarch64": 280, "riscv64": 280}
_PROG_LOAD, _LINK_CREATE = 5, 28
_SCHED_CLS, _TCX_INGRESS, _TCX_EGRESS = 3, 46, 47
_BEFORE = 1 << 3
_LOG_BYTES = 1 << 18

R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, STACK = range(11)
"""Registers: R0 is a call's result, R1 to R5 its arguments, clobbered by it; STACK is the end of 512 bytes."""
WORD, HALF, BYTE = 0x00, 0x08, 0x10
"""Sizes of 4, 2 and 1 bytes."""
_ARITHMETIC = {"+": 0x00, "|": 0x40, "&": 0x50, "<<": 0x60, ">>": 0x70, "^": 0xA0, "=": 0xB0}
_CONDITIONS = {"==": 0x10, ">": 0x20, ">=": 0x30, "!=": 0x50, "<": 0xA0}
_ALU64, _ALU32, _JMP32, _BY_REGISTER = 0x07, 0x04, 0x06, 0x08
_LDX, _ST, _STX, _TO_BIG_ENDIAN, _CALL, _EXIT = 0x61, 0x62, 0x63, 0xDC, 0x85, 0x95


class Assembler:
    """Assembler of BPF instructions (RFC 9669); each method appends one. Numbers may be signed or not."""

    def __init__(self) -> None:
        self._code: list[tuple[int, int, int, int | str, int]] = []
        self._labels: dict[str, int] = {}

    def compute(self, to: int, what: str, number: int) -> None:
        """Append `to` what= `number`, in 64 bits; `=` extends the number's sign."""
        self._emit(_ARITHMETIC[what] | _ALU64, to, imm=number)

    def compute32(self, to: int, what: str, number: int) -> None:
        """Append `to` what= `number` in 32 bits; the upper half becomes zero."""
        self._emit(_ARITHMETIC[what] | _ALU32, to, imm=number)

    def combine(self, to: int, what: str, other: int) -> None:
        """Append `to` what= another register, in 64 bits."""
        self._emit(_ARITHMETIC[what] | _ALU64 | _BY_REGISTER, to, other)

    def lower(self, to: int) -> None:
        """Keep the lower 32 bits of a register."""
        self._emit(_ARITHMETIC["="] | _ALU32 | _BY_REGISTER, to, to)

    def swap16(self, to: int) -> None:
        """Convert two bytes between network and host order; the rest of the register becomes zero."""
        self._emit(_TO_BIG_ENDIAN, to, imm=16)

    def swap32(self, to: int) -> None:
        """Convert four bytes between network and host order; the rest of the register becomes zero."""
        self._emit(_TO_BIG_ENDIAN, to, imm=32)

    def load(self, size: int, to: int, where: int, offset: int) -> None:
        """Load from the address in register `where` + `offset`."""
        self._emit(_LDX | size, to, where, offset)

    def store(self, size: int, where: int, offset: int, what: int) -> None:
        """Store a register at the address in register `where` + `offset`."""
        self._emit(_STX | size, where, what, offset)

    def put(self, size: int, where: int, offset: int, number: int) -> None:
        """Store a number at the address in register `where` + `offset`."""
        self._emit(_ST | size, where, 0, offset, number)

    def jump(self, label: str, left: int, condition: str, number: int) -> None:
        """Jump to the label if the condition holds for the lower 32 bits, compared as unsigned."""
        self._emit(_CONDITIONS[condition] | _JMP32, left, 0, label, number)

    def jump_by(self, label: str, left: int, condition: str, right: int) -> None:
        """Jump to the label if the condition holds between two registers, as `jump` compares them."""
        self._emit(_CONDITIONS[condition] | _JMP32 | _BY_REGISTER, left, right, label)

    def label(self, name: str) -> None:
        """Define a label at this place."""
        self._labels[name] = len(self._code)

    def call(self, helper: int) -> None:
        """Call one of the kernel's helpers (bpf-helpers(7)) by its number."""
        self._emit(_CALL, imm=helper)

    def exit(self) -> None:
        """Exit with R0 as the verdict."""
        self._emit(_EXIT)

    def code(self) -> bytes:
        """Return the program, with its labels resolved."""
        return b"".join(
            struct.pack(
                "<BBhI",
                operation,
                to | source << 4,
                self._labels[offset] - at - 1 if isinstance(offset, str) else offset,
                imm & 0xFFFFFFFF,
            )
            for at, (operation, to, source, offset, imm) in enumerate(self._code)
        )

    def _emit(self, operation: int, to: int = 0, source: int = 0, offset: int | str = 0, imm: int = 0) -> None:
        self._code.append((operation, to, source, offset, imm))


def unusable() -> str:
    """Return why no program can be made for this machine, as the end of a sentence; empty if one can."""
    machine = platform.machine()
    if machine in _SYSCALL and sys.byteorder == "little":
        return ""
    return f"its programs are made for {', '.join(_SYSCALL)} of little-endian order, and this is {machine}"


def load(code: bytes, name: str) -> int:
    """Load a program into the kernel and return its descriptor; raise OSError with the verifier's last lines."""
    try:
        return _load(code, name, None)
    except OSError as error:
        log = ctypes.create_string_buffer(_LOG_BYTES)
        try:
            return _load(code, name, log)
        except OSError:
            lines = log.value.decode(errors="replace").strip().splitlines()[-3:]
            raise OSError(error.errno, " | ".join([error.strerror or "", *lines])) from None


def _load(code: bytes, name: str, log: ctypes.Array[ctypes.c_char] | None) -> int:
    text, licence = ctypes.create_string_buffer(code, len(code)), ctypes.create_string_buffer(b"GPL")
    wanted = (1, len(log), ctypes.addressof(log)) if log is not None else (0, 0, 0)
    where = (ctypes.addressof(text), ctypes.addressof(licence))
    return _bpf(_PROG_LOAD, struct.pack("=IIQQIIQII16s", _SCHED_CLS, len(code) // 8, *where, *wanted, 0, 0,
                                        name.encode()[:15]))[0]  # fmt: skip


def attach(program: int, index: int, *, egress: bool, first: bool) -> int:
    """Attach a program to a device, before or after those there; return the descriptor that keeps it attached."""
    place = _TCX_EGRESS if egress else _TCX_INGRESS
    return _bpf(_LINK_CREATE, struct.pack("=IIII32x", program, index, place, _BEFORE if first else 0))[0]


def _bpf(command: int, attributes: bytes) -> tuple[int, bytes]:
    """Return the result of bpf(2), and the attributes as it left them."""
    libc = ctypes.CDLL(None, use_errno=True)
    reply = ctypes.create_string_buffer(attributes, len(attributes))
    number, size = _SYSCALL[platform.machine()], len(attributes)
    result: int = libc.syscall(ctypes.c_long(number), ctypes.c_long(command), reply, ctypes.c_long(size))
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result, reply.raw
