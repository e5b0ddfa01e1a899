"""BPF programs of a tunnel endpoint, with its settings as their constants.

One encapsulates packets that leave a carrier device, one decapsulates packets at the port. They follow the rules of
`pytest_ipperf.agent.tunnels.encapsulation`, and produce the same bytes.
"""

from __future__ import annotations

import socket

from pytest_ipperf.agent.tunnels.bpf_assembler import (
    BYTE,
    HALF,
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    STACK,
    WORD,
    Assembler,
)
from pytest_ipperf.agent.tunnels.encapsulation import (
    DONT_FRAGMENT,
    FIRST_MULTICAST,
    INNER_BYTES,
    ISATAP_IDENTIFIERS,
    LONGEST_PAYLOAD,
    LOOPBACK,
    OUTER_BYTES,
    PROTOCOL,
    EncapsulationRules,
)

MAC = bytes.fromhex("024100000001")
"""MAC address of the carrier device."""
_ETHERNET_BYTES = 14
# Numbers of helpers, see bpf-helpers(7), and their flags.
_STORE_BYTES, _REDIRECT, _LOAD_BYTES, _ADJUST_ROOM, _REDIRECT_NEIGH = 9, 23, 26, 50, 152
_AT_MAC, _FIXED_GSO, _ENCAP_IPV4, _NO_CSUM_RESET, _DECAP_IPV6 = 1, 1 << 0, 1 << 1, 1 << 5, 1 << 8
_RECOMPUTE_CSUM, _INGRESS = 1, 1
_DROP, _NEXT = 2, -1
# Offsets in a program's context, `struct __sk_buff`.
_LENGTH, _PACKET_TYPE, _PROTOCOL = 0, 4, 16
_IPV4, _IPV6 = socket.htons(0x0800), socket.htons(0x86DD)
_UNIVERSAL = 0x02  # the bit in which the two ISATAP identifiers differ


def encap(rules: EncapsulationRules, underlay: int) -> bytes:
    """Return the program of the carrier's egress, which sends IPv6 packets in IPv4 ones by device `underlay`."""
    a, inner, outer = Assembler(), -INNER_BYTES, -INNER_BYTES - 24
    a.combine(R6, "=", R1)
    a.load(WORD, R1, R6, _PROTOCOL)
    a.jump("drop", R1, "!=", _IPV6)
    _read(a, _ETHERNET_BYTES, INNER_BYTES, inner)
    a.jump("drop", R0, "!=", 0)
    a.load(BYTE, R1, STACK, inner)
    a.compute(R1, ">>", 4)
    a.jump("drop", R1, "!=", 6)
    _destination(a, rules, inner)
    _write_outer(a, rules, inner, outer)
    a.combine(R1, "=", R6)
    a.compute(R2, "=", OUTER_BYTES)
    a.compute(R3, "=", _AT_MAC)
    # The segment size stays, as the carrier's MTU leaves room for the header, and so does the pending inner checksum.
    a.compute(R4, "=", _FIXED_GSO | _ENCAP_IPV4 | _NO_CSUM_RESET)
    a.call(_ADJUST_ROOM)
    a.jump("drop", R0, "!=", 0)
    _write(a, _ETHERNET_BYTES, OUTER_BYTES, outer)
    a.compute32(R1, "=", underlay)
    for register in (R2, R3, R4):
        a.compute(register, "=", 0)
    a.call(_REDIRECT_NEIGH)  # by the kernel's own IPv4 route and neighbour entry
    a.exit()
    _end(a, "drop", _DROP)
    return a.code()


def _destination(a: Assembler, rules: EncapsulationRules, inner: int) -> None:
    """Set R7 to the IPv4 destination, in network order."""
    a.compute32(R7, "=", _number(rules.remote))
    if rules.isatap:
        a.load(BYTE, R1, STACK, inner + 24)
        a.jump("drop", R1, "==", 0xFF)
        _unless_isatap(a, inner + 32, "known")
        a.load(WORD, R7, STACK, inner + 36)
        a.label("known")
    _refuse(a, rules, "drop")


def _refuse(a: Assembler, rules: EncapsulationRules, label: str) -> None:
    """Jump to the label if R7 is no address of another host."""
    a.jump(label, R7, "==", _number(rules.local))
    a.combine(R1, "=", R7)
    a.compute(R1, "&", 0xFF)
    a.jump(label, R1, "==", 0)
    a.jump(label, R1, "==", LOOPBACK)
    a.jump(label, R1, ">=", FIRST_MULTICAST)


def _unless_isatap(a: Assembler, identifier: int, label: str) -> None:
    a.load(WORD, R1, STACK, identifier)
    a.compute32(R1, "&", ~_UNIVERSAL)
    a.jump(label, R1, "!=", _number(ISATAP_IDENTIFIERS[0]))


def _write_outer(a: Assembler, rules: EncapsulationRules, inner: int, outer: int) -> None:
    a.load(HALF, R1, STACK, inner)
    a.swap16(R1)
    a.compute(R1, ">>", 4)
    a.compute(R1, "&", 0xFF)  # the traffic class
    a.load(HALF, R2, STACK, inner + 4)
    a.swap16(R2)
    a.jump("drop", R2, ">", LONGEST_PAYLOAD)
    a.compute(R2, "+", OUTER_BYTES + INNER_BYTES)
    local = int.from_bytes(rules.local, "big")
    a.compute(R3, "=", 0x4500 + DONT_FRAGMENT + (rules.ttl << 8 | PROTOCOL) + (local >> 16) + (local & 0xFFFF))
    a.combine(R4, "=", R7)
    a.swap32(R4)
    a.combine(R5, "=", R4)
    a.compute(R5, ">>", 16)
    a.compute(R4, "&", 0xFFFF)
    for addend in (R1, R2, R4, R5):
        a.combine(R3, "+", addend)
    for _ in range(2):
        _fold(a, 16)
    a.compute(R3, "^", 0xFFFF)
    a.swap16(R2)
    a.swap16(R3)
    a.put(WORD, STACK, outer, 0x45)
    a.store(BYTE, STACK, outer + 1, R1)
    a.store(HALF, STACK, outer + 2, R2)
    a.put(WORD, STACK, outer + 4, socket.htons(DONT_FRAGMENT) << 16)
    a.put(HALF, STACK, outer + 8, PROTOCOL << 8 | rules.ttl)
    a.store(HALF, STACK, outer + 10, R3)
    a.put(WORD, STACK, outer + 12, _number(rules.local))
    a.store(WORD, STACK, outer + 16, R7)


def _fold(a: Assembler, bits: int) -> None:
    """Add the bits of R3 above its lower `bits` to these (RFC 1071)."""
    a.combine(R4, "=", R3)
    a.compute(R4, ">>", bits)
    if bits == 32:
        a.lower(R3)
    else:
        a.compute(R3, "&", (1 << bits) - 1)
    a.combine(R3, "+", R4)


def decap(rules: EncapsulationRules, carrier: int) -> bytes:
    """Return the program of the port's ingress, which decapsulates this endpoint's packets to device `carrier`.

    All other packets are left to the next program or the kernel.
    """
    a, outer = Assembler(), -OUTER_BYTES - INNER_BYTES - 4
    inner = outer + OUTER_BYTES
    a.combine(R6, "=", R1)
    a.load(WORD, R1, R6, _PROTOCOL)
    a.jump("next", R1, "!=", _IPV4)
    a.load(WORD, R1, R6, _PACKET_TYPE)
    a.jump("next", R1, "!=", 0)  # another host's, broadcast or multicast by its Ethernet address
    _read(a, _ETHERNET_BYTES, OUTER_BYTES + INNER_BYTES, outer)
    a.jump("next", R0, "!=", 0)
    _check_outer(a, rules, outer)
    _check_length(a, outer, inner)
    _check_sender(a, rules, outer, inner)
    _check_inner_source(a, inner + 8)
    _mark_congestion(a, outer, inner)
    a.combine(R1, "=", R6)
    a.compute(R2, "=", -OUTER_BYTES)
    a.compute(R3, "=", _AT_MAC)
    a.compute(R4, "=", _FIXED_GSO | _DECAP_IPV6)
    a.call(_ADJUST_ROOM)
    a.jump("drop", R0, "!=", 0)
    frame = MAC + bytes(6) + b"\x86\xdd"
    for at in range(0, _ETHERNET_BYTES, 2):
        a.put(HALF, STACK, inner - _ETHERNET_BYTES + at, _number(frame[at : at + 2]))
    a.store(BYTE, STACK, inner + 1, R8)
    _write(a, 0, _ETHERNET_BYTES + 2, inner - _ETHERNET_BYTES)
    a.compute32(R1, "=", carrier)
    a.compute(R2, "=", _INGRESS)
    a.call(_REDIRECT)
    a.exit()
    _end(a, "drop", _DROP)
    _end(a, "next", _NEXT)
    return a.code()


def _check_outer(a: Assembler, rules: EncapsulationRules, outer: int) -> None:
    a.load(BYTE, R1, STACK, outer)
    a.jump("next", R1, "!=", 0x45)  # it has options
    a.load(BYTE, R1, STACK, outer + 9)
    a.jump("next", R1, "!=", PROTOCOL)
    a.load(WORD, R1, STACK, outer + 16)
    a.jump("next", R1, "!=", _number(rules.local))
    a.load(HALF, R1, STACK, outer + 6)
    a.compute(R1, "&", socket.htons(0x3FFF))
    a.jump("next", R1, "!=", 0)  # a fragment
    a.compute(R3, "=", 0)
    for at in range(0, OUTER_BYTES, 4):
        a.load(WORD, R1, STACK, outer + at)
        a.combine(R3, "+", R1)
    for bits in (32, 16, 16):
        _fold(a, bits)
    a.jump("next", R3, "!=", 0xFFFF)


def _check_length(a: Assembler, outer: int, inner: int) -> None:
    a.load(BYTE, R1, STACK, inner)
    a.compute(R1, ">>", 4)
    a.jump("next", R1, "!=", 6)
    a.load(HALF, R1, STACK, outer + 2)
    a.swap16(R1)
    a.load(WORD, R2, R6, _LENGTH)
    a.compute(R2, "+", -_ETHERNET_BYTES)
    a.jump_by("next", R1, ">", R2)
    a.load(HALF, R2, STACK, inner + 4)
    a.swap16(R2)
    a.compute(R2, "+", OUTER_BYTES + INNER_BYTES)
    a.jump_by("next", R2, ">", R1)


def _check_sender(a: Assembler, rules: EncapsulationRules, outer: int, inner: int) -> None:
    a.load(WORD, R7, STACK, outer + 12)
    if not rules.isatap:
        a.jump("next", R7, "!=", _number(rules.remote))
        return
    if rules.remote:
        a.jump("sent", R7, "==", _number(rules.remote))
    _unless_isatap(a, inner + 16, "next")
    a.load(WORD, R1, STACK, inner + 20)
    a.jump_by("next", R1, "!=", R7)
    _refuse(a, rules, "next")
    a.label("sent")


def _check_inner_source(a: Assembler, source: int) -> None:
    a.load(BYTE, R1, STACK, source)
    a.jump("drop", R1, "==", 0xFF)
    for at in (0, 4):
        a.load(WORD, R1, STACK, source + at)
        a.jump("valid", R1, "!=", 0)
    a.load(WORD, R1, STACK, source + 8)
    a.jump("drop", R1, "==", _number(b"\0\0\xff\xff"))  # IPv4-mapped
    a.jump("valid", R1, "!=", 0)
    a.load(WORD, R1, STACK, source + 12)
    a.jump("drop", R1, "!=", 0)  # IPv4-compatible, or loopback
    a.label("valid")


def _mark_congestion(a: Assembler, outer: int, inner: int) -> None:
    """Set R8 to the second byte of the IPv6 header, with the outer header's congestion mark (RFC 6040)."""
    a.load(BYTE, R8, STACK, inner + 1)
    a.load(BYTE, R1, STACK, outer + 1)
    a.compute(R1, "&", 3)
    a.jump("marked", R1, "!=", 3)
    a.combine(R1, "=", R8)
    a.compute(R1, "&", 0x30)
    a.jump("drop", R1, "==", 0)
    a.compute(R8, "|", 0x30)
    a.label("marked")


def _read(a: Assembler, offset: int, length: int, to: int) -> None:
    """Copy bytes of the packet to the stack; R0 is not 0 if the packet is shorter."""
    _bytes(a, offset, length, to)
    a.call(_LOAD_BYTES)


def _write(a: Assembler, offset: int, length: int, source: int) -> None:
    _bytes(a, offset, length, source)
    a.compute(R5, "=", _RECOMPUTE_CSUM)
    a.call(_STORE_BYTES)
    a.jump("drop", R0, "!=", 0)


def _bytes(a: Assembler, offset: int, length: int, at: int) -> None:
    """Pass this range of the packet and its place on the stack to a helper."""
    a.combine(R1, "=", R6)
    a.compute(R2, "=", offset)
    a.combine(R3, "=", STACK)
    a.compute(R3, "+", at)
    a.compute(R4, "=", length)


def _end(a: Assembler, label: str, verdict: int) -> None:
    a.label(label)
    a.compute(R0, "=", verdict)
    a.exit()


def _number(packed: bytes) -> int:
    """Return bytes in network order as a little-endian host reads them from memory."""
    return int.from_bytes(packed, "little")
