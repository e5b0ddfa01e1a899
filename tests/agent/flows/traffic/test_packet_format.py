"""Packets of modelled traffic on the wire: numbered ones, and RTP as RFC 3550 has it and tshark reads it."""

from __future__ import annotations

import json
import socket
import struct
import subprocess

import pytest

from pytest_ipperf.agent.flows.traffic.datagram_link import DatagramLink
from pytest_ipperf.agent.flows.traffic.packet_format import CONTROL, HEAD_BYTES, HELLO, Numbered, Rtp, packet_format
from pytest_ipperf.core.portable.traffic.distribution import Distribution, Variable
from pytest_ipperf.core.portable.traffic.model import RtpFormat
from pytest_ipperf.core.portable.traffic.schedule import Packet, packets
from tests.agent.flows.traffic_ends import RTP, model_with, stream
from tests.support.needs import require

PORT = 21000


def sent_on_loopback(form, schedule, count):
    """The datagrams of a schedule, as another socket receives them."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(10)
        sender.connect(receiver.getsockname())
        link = DatagramLink(sender, form, 0xABCD, "here")
        found = []
        for packet, _ in zip(schedule, range(count), strict=False):
            assert link.send(packet, True, 1_000_000_000 + packet.number)  # noqa: FBT003
            found.append(receiver.recv(65535))
        return found


def spurts(**more):
    talk, pause = (Variable((Distribution(name="constant", parameters={"value": value}),)) for value in (0.1, 0.2))
    return model_with(
        type(stream())(
            direction="up",
            interval_s=Variable.of(0.02),
            size_bytes=Variable.of(32),
            talk_s=talk,
            pause_s=pause,
        ),
        rtp=RTP,
        **more,
    )


def schedule_of(model, until_s=2.0):
    return list(packets(model, "up", 1, "3", least_bytes=24, until_s=until_s))


def test_rtp_has_version_sequence_timestamp_source_and_marker():
    """A parser of the fixed header of RFC 3550, section 5.1, by the letter."""
    schedule = schedule_of(spurts())
    found = sent_on_loopback(packet_format(RTP), schedule, len(schedule))
    assert len(found) > 20
    for packet, data in zip(schedule, found, strict=True):
        first, second, sequence, timestamp, source = struct.unpack_from("!BBHII", data)
        assert (first >> 6, first >> 5 & 1, first >> 4 & 1, first & 15) == (2, 0, 0, 0)
        assert (second & 127, second >> 7) == (18, int(packet.first))
        assert sequence == packet.number
        assert timestamp == round(packet.due_s * 8000)
        assert source == 0xABCD << 16 | packet.stream
        assert len(data) == packet.size_bytes == 32
    assert 0 < sum(packet.first for packet in schedule) < len(schedule) / 2


def test_sequence_and_timestamp_wrap_around():
    form, buffer = Rtp(RtpFormat(payload_type=0, clock_hz=8000)), bytearray(92)
    form.pack(buffer, 1, Packet(600_000.0, 3, 65537, 92, first=False), 5, counts=True)
    _, _, sequence, timestamp, _ = struct.unpack_from("!BBHII", buffer)
    assert sequence == 1
    assert timestamp == 600_000 * 8000 % 2**32
    (head,) = form.heads(bytes(buffer[:HEAD_BYTES]))
    assert head == (1, 3, 65537, True, 5)


def test_tshark_reads_the_packets_as_rtp_without_loss(tmp_path):
    require("tshark")
    schedule = schedule_of(spurts())
    found = sent_on_loopback(packet_format(RTP), schedule, len(schedule))
    capture = tmp_path / "rtp.pcap"
    capture.write_bytes(pcap(found, [packet.due_s for packet in schedule]))
    fields = ["rtp.version", "rtp.p_type", "rtp.marker", "rtp.seq", "rtp.timestamp", "rtp.ssrc"]
    argv = [
        "tshark",
        "-r",
        capture,
        "-d",
        f"udp.port=={PORT},rtp",
        "-T",
        "json",
        *(w for f in fields for w in ("-e", f)),
    ]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=120)
    read = [{key: value[0] for key, value in each["_source"]["layers"].items()} for each in json.loads(done.stdout)]
    assert [int(each["rtp.seq"]) for each in read] == [packet.number for packet in schedule]
    assert {each["rtp.version"] for each in read} == {"2"}
    assert {each["rtp.p_type"] for each in read} == {"18"}
    assert {int(each["rtp.ssrc"], 16) for each in read} == {0xABCD0000}
    assert [each["rtp.marker"] in ("1", "True") for each in read] == [packet.first for packet in schedule]
    streams = subprocess.run(
        ["tshark", "-r", capture, "-d", f"udp.port=={PORT},rtp", "-q", "-z", "rtp,streams"],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    (line,) = [each for each in streams.stdout.splitlines() if "0xABCD0000" in each]
    assert "G729" in line.upper().replace(".", "")
    assert "0 (0.0%)" in line


@pytest.mark.parametrize("form", [Numbered(), Rtp(RTP)])
def test_a_packet_is_read_as_it_was_written(form):
    buffer = bytearray(max(64, form.least_bytes))
    form.pack(buffer, 0xFFFE, Packet(1.0, 7, 2**31 - 1, 64, first=True), 2**63, counts=False)
    form_two = bytearray(buffer)
    form.pack(form_two, 1, Packet(1.0, 0, 0, 64, first=False), 0, counts=True)
    heads = list(form.heads(bytes(buffer[:HEAD_BYTES] + form_two[:HEAD_BYTES])))
    assert heads == [(0xFFFE, 7, 2**31 - 1, False, 2**63), (1, 0, 0, True, 0)]


def test_a_control_packet_has_its_kind_and_value():
    for form in (Numbered(), Rtp(RTP)):
        data = form.control(9, HELLO, 77)
        assert len(data) == form.least_bytes
        assert list(form.heads(data.ljust(HEAD_BYTES, b"\0"))) == [(9, CONTROL, HELLO, False, 77)]


def test_packets_of_another_version_are_no_rtp():
    assert [head[0] for head in Rtp(RTP).heads(bytes(2 * HEAD_BYTES))] == [-1, -1]


def pcap(payloads, at_s):
    """A capture file of UDP datagrams over IPv4 on raw IP links (LINKTYPE_RAW)."""
    parts = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101)]
    for payload, time_s in zip(payloads, at_s, strict=True):
        udp = struct.pack("!HHHH", PORT + 1, PORT, 8 + len(payload), 0) + payload
        head = struct.pack(
            "!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0, socket.inet_aton("198.18.0.1"),
            socket.inet_aton("198.18.0.2"),
        )  # fmt: skip
        packet = head + udp
        parts.append(struct.pack("<IIII", int(time_s), int(time_s % 1 * 1e6), len(packet), len(packet)) + packet)
    return b"".join(parts)
