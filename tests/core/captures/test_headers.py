"""Headers of captured packets, each made by hand after its RFC."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.captures.headers import TCP, UDP, segment
from pytest_ipperf.core.portable.errors import UsageError
from tests.core.captures.frames import CLIENT, CLIENT6, ETHERNET, SERVER, SERVER6, ethernet, ipv4, ipv6, tcp, udp

PACKET = ipv4(UDP, udp(100))
PACKET6 = ipv6(UDP, udp(100))


def seen(link_type, data):
    found = segment(link_type, data)
    return found and (found.protocol, found.source, found.target, found.size_bytes)


@pytest.mark.parametrize("packet", [PACKET, PACKET6], ids=["ipv4", "ipv6"])
@pytest.mark.parametrize("link_type", [1, 113, 276, 0, 108, 101, 12, 14, 228, 229])
def test_datagrams_are_found_on_every_link(link_type, packet):
    kind = b"\x86\xdd" if packet is PACKET6 else b"\x08\x00"
    before = {1: bytes(12) + kind, 113: bytes(14) + kind, 276: kind + bytes(18), 0: bytes(4), 108: bytes(4)}
    ends = ((CLIENT6, 4000), (SERVER6, 5004)) if packet is PACKET6 else ((CLIENT, 4000), (SERVER, 5004))
    assert seen(link_type, before.get(link_type, b"") + packet) == (UDP, *ends, 100)


def test_vlan_tags_are_passed_by():
    tagged = ETHERNET + b"\x88\xa8\x00\x01\x81\x00\x00\x02\x08\x00" + PACKET
    assert seen(1, tagged) == (UDP, (CLIENT, 4000), (SERVER, 5004), 100)


def test_options_and_extension_headers_are_no_payload():
    assert seen(101, ipv4(UDP, udp(9), options=bytes(8)))[3] == 9
    hop = bytes([60, 0]) + bytes(6)
    options = bytes([51, 1]) + bytes(14)
    authentication = bytes([TCP, 4]) + bytes(22)
    assert seen(101, ipv6(0, hop + options + authentication + tcp(70)))[::3] == (TCP, 70)


def test_a_fragmented_datagram_counts_once_as_a_whole():
    whole = udp(4000)
    assert seen(101, ipv4(UDP, whole[:1480], fragment=0x2000))[3] == 4000
    assert seen(101, ipv4(UDP, whole[1480:], fragment=185)) is None
    assert seen(101, ipv6(44, bytes([UDP, 0]) + struct.pack("!HI", 1, 7) + whole[:1448]))[3] == 4000
    assert seen(101, ipv6(44, bytes([UDP, 0]) + struct.pack("!HI", 181 << 3, 7) + whole[1448:])) is None


def test_a_packet_in_a_tunnel_is_that_within():
    assert seen(1, ethernet(ipv4(41, PACKET6))) == seen(101, PACKET6)
    assert seen(1, ethernet(ipv6(4, PACKET))) == seen(101, PACKET)


def test_a_segment_of_tcp_has_its_payload_its_number_and_its_opening():
    data, syn, answer = (
        segment(101, ipv4(TCP, packet)) for packet in (tcp(500, sequence=77), tcp(0, flags=0x02), tcp(0, flags=0x12))
    )
    assert data
    assert syn
    assert answer
    assert (data.size_bytes, data.sequence, data.opens, syn.opens, answer.opens) == (500, 77, False, True, False)


def test_sizes_are_right_though_only_the_headers_were_captured():
    assert seen(1, ethernet(ipv4(UDP, udp(1400)))[:60])[3] == 1400
    assert seen(1, ethernet(ipv6(TCP, tcp(1000)))[:90])[3] == 1000
    # Packets beyond 65535 bytes, before their segmentation, say 0.
    assert seen(101, ipv4(TCP, tcp(70000), length=0))[3] == 70000


@pytest.mark.parametrize(
    "data",
    [
        b"",
        ethernet(PACKET)[:30],
        ETHERNET + b"\x08\x06" + bytes(28),
        ethernet(ipv4(1, bytes(64))),
        ethernet(b"\x50" * 40),
    ],
)  # fmt: skip
def test_other_packets_are_none(data):
    assert segment(1, data) is None


def test_an_unknown_link_is_named():
    with pytest.raises(UsageError, match=r"link type 105, which is not known here; there are Ethernet \(1\), Linux"):
        segment(105, PACKET)


@given(st.sampled_from([1, 113, 276, 0, 101]), st.binary(max_size=120))
def test_any_bytes_are_a_packet_or_none(link_type, data):
    found = segment(link_type, data)
    assert found is None or found.protocol in (UDP, TCP)
