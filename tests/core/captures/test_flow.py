"""Flows of a capture: their ends, their packets, and which one is meant."""

from __future__ import annotations

import pytest

from pytest_ipperf.core.captures.flow import chosen_flow, flows_of
from pytest_ipperf.core.captures.pcap import CapturedPacket
from pytest_ipperf.core.portable.errors import UsageError
from tests.core.captures.frames import CLIENT, CLIENT6, SERVER, SERVER6, ipv4, ipv6, tcp, udp

CALL = "UDP [2001:2::1]:4000 - [2001:2::2]:5004"
WEB = "TCP 198.18.0.1:4000 - 198.18.1.2:80"


def captured(*packets):
    """Return raw IP packets, one each millisecond."""
    return [CapturedPacket(at * 10**6, 101, packet) for at, packet in enumerate(packets)]


def back(packet, size):
    return packet(size, source=5004, target=4000)


@pytest.fixture
def flows():
    web = [ipv4(6, tcp(0, flags=2)), ipv4(6, tcp(100, sequence=1)), ipv4(6, tcp(50, sequence=101))]
    call = [ipv6(17, udp(172))] * 3 + [ipv6(17, back(udp, 160), SERVER6, CLIENT6)] * 2
    look_up = [ipv4(17, udp(30, target=53))]
    return flows_of(captured(*web, *call, *look_up, b"\x45", ipv4(1, bytes(40))))


def test_the_largest_flow_is_the_first(flows):
    assert [(str(flow), flow.packets) for flow in flows] == [
        (CALL, 5),
        (WEB, 2),
        ("UDP 198.18.0.1:4000 - 198.18.1.2:53", 1),
    ]


def test_packets_have_their_direction_time_and_size(flows):
    call, web, _ = flows
    assert (list(call.up.size_bytes), list(call.down.size_bytes)) == ([172] * 3, [160] * 2)
    assert (list(web.up.at_ns), list(web.up.size_bytes)) == ([1_000_000, 2_000_000], [100, 50])


def test_the_client_is_the_end_that_opened_the_connection():
    late = ipv4(6, tcp(0, flags=0x12, source=80, target=4000), SERVER, CLIENT)
    (flow,) = flows_of(captured(late, ipv4(6, tcp(0, flags=2)), ipv4(6, tcp(10))))
    assert str(flow) == WEB
    (flow,) = flows_of(captured(ipv4(6, tcp(9, source=80, target=4000), SERVER, CLIENT), ipv4(6, tcp(10))))
    assert str(flow) == "TCP 198.18.1.2:80 - 198.18.0.1:4000"


def test_segments_with_nothing_new_are_left_out():
    near_end = 2**32 - 50
    sent = [(100, near_end), (100, near_end), (100, 50), (60, 30), (100, 150), (100, 150)]
    (flow,) = flows_of(captured(*(ipv4(6, tcp(size, sequence=number)) for size, number in sent)))
    assert (list(flow.up.size_bytes), flow.up.repeated) == ([100, 100, 100], 3)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("", CALL),
        ("udp", CALL),
        ("TCP", WEB),
        ("tcp/:80", WEB),
        (":53", "UDP 198.18.0.1:4000 - 198.18.1.2:53"),
        ("198.18.1.2", WEB),
        ("udp/198.18.0.1:4000", "UDP 198.18.0.1:4000 - 198.18.1.2:53"),
        ("udp/[2001:2::2]:5004", CALL),
        ("2001:2::1", CALL),
        ("udp/[2001:2::1]", CALL),
    ],
)
def test_a_flow_is_chosen_by_protocol_address_and_port(flows, wanted, found):
    assert str(chosen_flow(flows, wanted)) == found


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("sctp/:1", "--flow: 'sctp' is no protocol; a flow is given as udp, tcp/:5001"),
        ("udp/localhost:5", "--flow: 'localhost' is no address"),
        ("udp/:66000", "--flow: '66000' is no port"),
        (":x", "--flow: 'x' is no port"),
        ("udp/[2001:2::1]:5004", f"--flow: no flow is 'udp/[2001:2::1]:5004'; there are {CALL}, {WEB}"),
    ],
)
def test_a_wrong_choice_is_named(flows, wanted, said):
    with pytest.raises(UsageError) as refused:
        chosen_flow(flows, wanted)
    assert said in str(refused.value)


def test_a_capture_without_flows_is_named():
    with pytest.raises(UsageError, match="no packet of it is UDP or TCP over IP"):
        chosen_flow(flows_of(captured(ipv4(1, bytes(40)))), "")
