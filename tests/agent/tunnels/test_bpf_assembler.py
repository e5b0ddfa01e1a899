"""BPF programs, run by the kernel on packets and compared with the rules in Python; edge cases of the assembler."""

from __future__ import annotations

import ctypes
import ipaddress
import os
import struct

import hypothesis.strategies as st
import pytest
from hypothesis import example, given, settings

from pytest_ipperf.agent.tunnels import bpf_assembler, encapsulation
from pytest_ipperf.agent.tunnels.backends import BACKENDS
from pytest_ipperf.agent.tunnels.bpf_programs import MAC, decap, encap
from pytest_ipperf.agent.tunnels.encapsulation import EncapsulationRules

ISATAP = encapsulation.ISATAP_IDENTIFIERS
DROP, NEXT, REDIRECT = 2, -1, 7
PROG_TEST_RUN = 10
HERE, PEER, ROUTER = (ipaddress.IPv4Address(f"198.18.0.{number}").packed for number in (1, 2, 3))
RULES = {
    "6in4": EncapsulationRules(HERE, PEER, isatap=False, ttl=64),
    "isatap": EncapsulationRules(HERE, ROUTER, isatap=True, ttl=255),
    "isatap alone": EncapsulationRules(HERE, b"", isatap=True, ttl=1),
}
MISSING = BACKENDS["ebpf"].missing()
needs_bpf = pytest.mark.skipif(bool(MISSING), reason=f"BPF programs: {MISSING}")

odd = [bytes(4), b"\0\1\2\3", b"\x7f\0\0\1", b"\xe0\0\0\1", b"\xf0\0\0\1", b"\xff" * 4, HERE, PEER, ROUTER]
ipv4 = st.one_of(st.sampled_from(odd), st.binary(min_size=4, max_size=4))
# ISATAP addresses, and one of each kind that no packet may come from.
ipv6 = st.one_of(
    st.tuples(st.sampled_from([b"\xfe\x80", b"\x20\x01", b"\xff\x02"]), st.sampled_from(ISATAP), ipv4).map(
        lambda parts: parts[0] + bytes(6) + parts[1] + parts[2]
    ),
    st.sampled_from([bytes(16), bytes(15) + b"\1", bytes(12) + PEER, bytes(10) + b"\xff\xff" + PEER]),
    st.tuples(st.just(bytes(8)), st.binary(min_size=8, max_size=8)).map(b"".join),
    st.binary(min_size=16, max_size=16),
)


@st.composite
def inners(draw):
    payload = draw(st.binary(max_size=64))
    source, to = draw(ipv6), draw(ipv6)
    first = 6 << 28 | draw(st.integers(0, (1 << 28) - 1))
    return struct.pack("!IHBB", first, len(payload), draw(st.integers(0, 255)), draw(st.integers(0, 255))) + (
        source + to + payload
    )


@st.composite
def outers(draw):
    """Draw IPv4 packets, most of them valid, and each fault that one may have."""
    inner = draw(inners())
    source = draw(st.one_of(st.sampled_from([PEER, ROUTER, inner[20:24]]), ipv4))
    to = draw(st.sampled_from([HERE, HERE, HERE, PEER]))
    packet = bytearray(encapsulation.outer(source, to, draw(st.integers(0, 255)), 64, len(inner)) + inner)
    fault = draw(st.sampled_from(["", "", "", "", "bit", "padded", "cut", "fragment", "options", "protocol"]))
    if fault == "bit":
        packet[draw(st.integers(0, 19))] ^= 1 << draw(st.integers(0, 7))
    elif fault == "padded":
        packet += bytes(9)
    elif fault == "cut":
        del packet[draw(st.integers(20, len(packet))) :]  # the kernel runs no program on fewer bytes
    elif fault:
        at, value = {"fragment": (7, 1), "options": (0, 0x46), "protocol": (9, 4)}[fault]
        packet[at] = value
        packet[10:12] = bytes(2)
        total = int.from_bytes(packet[:20], "big") % 0xFFFF
        packet[10:12] = struct.pack("!H", (0xFFFF - total) % 0xFFFF)
    return bytes(packet)


@pytest.fixture(scope="module")
def programs():
    made = {}
    for name, rules in RULES.items():
        made[name] = (
            bpf_assembler.load(encap(rules, 1), "test_encap"),
            bpf_assembler.load(decap(rules, 1), "test_decap"),
        )
    yield made
    for pair in made.values():
        for program in pair:
            os.close(program)


def run(program, frame):
    """Return a program's verdict on an Ethernet frame, and the frame that it makes of it; nothing is sent."""
    given = ctypes.create_string_buffer(frame, len(frame))
    room = ctypes.create_string_buffer(1 << 14)
    where = (ctypes.addressof(given), ctypes.addressof(room))
    reply = bpf_assembler._bpf(PROG_TEST_RUN, struct.pack("=IIIIQQ48x", program, 0, len(frame), len(room), *where))[1]
    _, verdict, _, length = struct.unpack_from("=IiII", reply)
    return verdict, room.raw[:length]


def ethernet(packet, kind):
    return bytes(12) + kind + packet


@needs_bpf
@pytest.mark.parametrize("name", RULES)
@given(packet=inners())
def test_what_leaves_is_byte_by_byte_that_of_the_rules(programs, name, packet):
    verdict, made = run(programs[name][0], ethernet(packet, b"\x86\xdd"))
    expected = RULES[name].encapsulated(packet)
    assert verdict == (REDIRECT if expected else DROP)
    if expected:
        assert made[14:] == expected


@needs_bpf
@pytest.mark.parametrize("name", RULES)
@settings(max_examples=400)
@given(packet=outers())
@example(encapsulation.outer(PEER, HERE, 3, 64, 40) + bytes([0x60, 0x10, 0, 0, 0, 0, 59, 1]) + b"\x20\1" * 16)
def test_what_is_let_in_is_byte_by_byte_that_of_the_rules(programs, name, packet):
    verdict, made = run(programs[name][1], ethernet(packet, b"\x08\x00"))
    expected = RULES[name].decapsulated(packet)
    assert verdict == (REDIRECT if expected else NEXT if expected is None else DROP)
    if expected:
        assert made == MAC + bytes(6) + b"\x86\xdd" + expected


@needs_bpf
@given(source=ipv4, to=ipv4, ttl=st.integers(1, 255), first=st.integers(0, (1 << 28) - 1))
def test_the_checksum_is_right_for_every_address(source, to, ttl, first):
    packet = struct.pack("!IHBB", 6 << 28 | first, 0, 59, 1) + b"\x20\1" * 8 + b"\x20\1" + bytes(6) + ISATAP[0] + to
    rules = EncapsulationRules(source, b"", isatap=True, ttl=ttl)
    program = bpf_assembler.load(encap(rules, 1), "test_encap")
    try:
        verdict, made = run(program, ethernet(packet, b"\x86\xdd"))
    finally:
        os.close(program)
    assert (verdict == REDIRECT) == (encapsulation.usable(to) and to != source)
    if verdict == REDIRECT:
        words = struct.unpack("!10H", made[14:34])
        total = sum(words)
        assert (total & 0xFFFF) + (total >> 16) == 0xFFFF
        assert made[14:] == rules.encapsulated(packet)


@needs_bpf
@pytest.mark.parametrize("short", [0, 1])
def test_a_carry_that_makes_another_is_brought_round_too(short):
    rest = 0x4500 + 0x3C + 0x4000 + (64 << 8 | 41) + (0xC612 + 1) + 0xC612
    low = (0xFFFF - short - rest) & 0xFFFF
    assert (rest + low) >> 16 > short, "else there is no second carry"
    to = struct.pack("!HH", 0xC612, low)
    rules = EncapsulationRules(HERE, to, isatap=False, ttl=64)
    packet = struct.pack("!IHBB", 6 << 28, 0, 59, 1) + b"\x20\1" * 16
    program = bpf_assembler.load(encap(rules, 1), "test_encap")
    try:
        assert run(program, ethernet(packet, b"\x86\xdd"))[1][14:] == rules.encapsulated(packet)
    finally:
        os.close(program)


@needs_bpf
@given(check=st.integers(1, 0xFFFF), identification=st.integers(0, 0xFFFF))
def test_a_header_whose_words_sum_up_to_all_ones_is_right(check, identification):
    head = struct.pack("!BBHHHBBH", 0x45, 0, 60, identification, 0x4000, 64, 41, check) + PEER
    # The ones' complement sum of all 32-bit words, as this host reads them, is 0xFFFFFFFF.
    local = struct.pack("<I", 0xFFFFFFFF - sum(struct.unpack("<4I", head)) % 0xFFFFFFFF)
    packet = head + local + struct.pack("!IHBB", 6 << 28, 0, 59, 1) + b"\x20\1" * 16
    rules = EncapsulationRules(local, PEER, isatap=False, ttl=64)
    program = bpf_assembler.load(decap(rules, 1), "test_decap")
    try:
        verdict, made = run(program, ethernet(packet, b"\x08\x00"))
    finally:
        os.close(program)
    assert verdict == REDIRECT
    assert made[14:] == rules.decapsulated(packet) == packet[20:]


@needs_bpf
@pytest.mark.parametrize("length", [0, 65475, 65476, 65535])
def test_what_is_too_long_for_ipv4_is_dropped(programs, length):
    packet = struct.pack("!IHBB", 6 << 28, length, 59, 1) + b"\x20\1" * 16
    verdict, _ = run(programs["6in4"][0], ethernet(packet, b"\x86\xdd"))
    assert verdict == (REDIRECT if length <= encapsulation.LONGEST_PAYLOAD else DROP)
    assert bool(RULES["6in4"].encapsulated(packet)) == (verdict == REDIRECT)


@needs_bpf
@pytest.mark.parametrize("kind", [b"\x08\x00", b"\x08\x06", b"\x86\xdd"])
def test_frames_of_another_kind_are_no_affair_of_theirs(programs, kind):
    frame = ethernet(b"\x40" + bytes(59), kind)
    out, back = programs["6in4"]
    assert run(out, frame)[0] == DROP
    assert run(back, frame)[0] == NEXT


@needs_bpf
def test_what_the_ethernet_frame_meant_for_another_is_left(programs):
    packet = encapsulation.outer(PEER, HERE, 0, 64, 40) + struct.pack("!IHBB", 6 << 28, 0, 59, 1) + b"\x20\1" * 16
    back = programs["6in4"][1]
    assert run(back, ethernet(packet, b"\x08\x00"))[0] == REDIRECT
    assert run(back, b"\x02" + ethernet(packet, b"\x08\x00")[1:])[0] == NEXT
    assert run(back, b"\xff" * 6 + ethernet(packet, b"\x08\x00")[6:])[0] == NEXT


@needs_bpf
def test_a_program_that_the_kernel_refuses_is_an_error_with_its_words():
    wrong = bpf_assembler.Assembler()
    wrong.combine(bpf_assembler.R0, "=", bpf_assembler.R9)
    wrong.exit()
    with pytest.raises(OSError, match="R9 !read_ok"):
        bpf_assembler.load(wrong.code(), "wrong")


def test_instructions_are_those_of_the_standard():
    made = bpf_assembler.Assembler()
    made.compute(bpf_assembler.R1, "=", -1)
    made.jump("end", bpf_assembler.R1, "!=", 0xFFFF0000)
    made.load(bpf_assembler.HALF, bpf_assembler.R2, bpf_assembler.STACK, -8)
    made.label("end")
    made.exit()
    assert made.code().hex(" ", 8) == "b7010000ffffffff 560101000000ffff 69a2f8ff00000000 9500000000000000"


@pytest.mark.parametrize(
    ("machine", "said"), [("x86_64", ""), ("s390x", "riscv64 of little-endian order, and this is")]
)
def test_machines_that_it_is_not_made_for_are_told_in_words(monkeypatch, machine, said):
    monkeypatch.setattr("platform.machine", lambda: machine)
    assert said in bpf_assembler.unusable()
    assert bool(said) == bool(bpf_assembler.unusable())
