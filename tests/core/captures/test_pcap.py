"""Capture files: every form that tcpdump and Wireshark write, damaged ones, and anything at all."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.captures.flow import flows_of
from pytest_ipperf.core.captures.pcap import CaptureReader
from pytest_ipperf.core.portable.errors import UsageError
from tests.core.captures.frames import block, enhanced, interface, option, pcap, section

AT_NS = 1_700_000_000_123_456_789
FRAMES = [(AT_NS, b"one" * 20), (AT_NS + 10**9, b"two" * 7)]


def read(content):
    reader = CaptureReader(content)
    return [tuple(each) for each in reader], reader.cut


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("nano", [False, True])
def test_pcap_is_read_in_both_orders_and_units(order, nano):
    wanted = [(at_ns if nano else at_ns // 1000 * 1000, 113, data) for at_ns, data in FRAMES]
    assert read(pcap(FRAMES, 113, order, nano=nano)) == (wanted, False)


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng_is_read_in_both_orders(order):
    ticks = AT_NS // 1000
    content = section(order) + interface(101, order) + enhanced(ticks, b"abcde", order) + block(5, bytes(8), order)
    assert read(content) == ([(ticks * 1000, 101, b"abcde")], False)


def test_each_interface_of_pcapng_has_its_unit_and_its_offset():
    nano, binary = option(9, b"\x09") + option(0, b""), option(9, b"\x8a") + option(14, struct.pack("<q", 100))
    content = section() + interface(1, options=option(2, b"eth0") + nano) + interface(276, options=binary)
    content += enhanced(AT_NS, b"a") + enhanced(5 * 1024 + 512, b"b", place=1)
    assert read(content) == ([(AT_NS, 1, b"a"), (105_500_000_000, 276, b"b")], False)


def test_a_new_section_of_pcapng_has_interfaces_of_its_own():
    first = section() + interface(1) + enhanced(1, b"a")
    assert read(first + section(">") + interface(101, ">") + enhanced(2, b"b", ">"))[0] == [
        (1000, 1, b"a"),
        (2000, 101, b"b"),
    ]


def test_an_old_packet_block_is_read():
    body = struct.pack("<HHIIII", 0, 0, 0, 7, 3, 3) + b"abc"
    assert read(section() + interface(1) + block(2, body)) == ([(7000, 1, b"abc")], False)


@pytest.mark.parametrize("content", [pcap(FRAMES), section() + interface() + enhanced(1, b"one") + enhanced(2, b"two")])
def test_a_file_that_ends_within_a_packet_is_read_up_to_it(content):
    packets, cut = read(content[:-1])
    assert (len(packets), cut) == (1, True)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it is no capture: it has 0 bytes"),
        (b"GET / HTTP/1.1", "it is no pcap or pcapng file: it begins with 47 45 54 20"),
        (b"\x1f\x8b\x08\x00" + bytes(9), "it is compressed with gzip; uncompress it first"),
        (pcap(FRAMES)[:20], "it ends within its header, after 20 of 24 bytes"),
        (
            pcap([(0, b"a")])[:24] + struct.pack("<IIII", 0, 0, 1 << 30, 9),
            "it is damaged at packet 1, which would have",
        ),
        (section() + struct.pack("<II", 6, 7) + bytes(8), "it is damaged after packet 0, where a block would have 7"),
        (section() + enhanced(1, b"a"), "it is damaged at packet 1, which is from an interface 0 that is not there"),
        (section() + interface() + enhanced(1, b"a", kept=99), "it is damaged at packet 1, which would have 99 bytes"),
        (section() + interface() + block(3, bytes(8)), "packet 1 has no time, as its block is a simple one"),
        (section()[:8] + b"abcd" + section()[12:], "it is damaged: a section's byte order is 61 62 63 64"),
    ],
)
def test_what_is_no_capture_is_named_in_one_sentence(content, said):
    with pytest.raises(UsageError) as refused:
        read(content)
    assert said in str(refused.value)


@given(st.sampled_from([pcap(FRAMES), section() + interface() + enhanced(1, b"one" * 20)]), st.data())
def test_a_damaged_file_is_read_or_refused(content, data):
    """No byte in any place leads to another error."""
    at = data.draw(st.integers(0, len(content) - 1))
    changed = content[:at] + data.draw(st.binary(min_size=1, max_size=4)) + content[at + 1 :]
    with contextlib.suppress(UsageError):
        flows_of(CaptureReader(changed))
