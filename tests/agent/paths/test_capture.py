"""A capture, compared with tcpdump's reading of it and with tcpdump's own capture of the same packets."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess

import pytest

TCPDUMP = shutil.which("tcpdump", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
UP = """
ip link set lo up; ip link add one type veth peer name two; ip link set one up; ip link set two up
ip addr add 198.18.0.1/24 dev one; ip neigh add 198.18.0.2 lladdr 02:00:00:00:00:02 dev one
"""
SENT = """
import contextlib, os, socket, struct, subprocess, sys, time
from pytest_ipperf.agent.paths.capture import Capture
from tests.support.receive_timestamps import wait_until_stamped
from pytest_ipperf.agent.sockets.receive_timestamps import rx_timestamping
def packets(data):
    assert struct.unpack_from("=IHH", data) == (0xA1B23C4D, 2, 4)
    found, at = [], 24
    while at < len(data):
        seconds, nanoseconds, kept, length = struct.unpack_from("=IIII", data, at)
        found.append((seconds + nanoseconds * 1e-9, length, data[at + 16 : at + 16 + kept]))
        at += 16 + kept
    return found
def sent(destination, sizes=(60, 1000, 1480)):
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, 41) as tunnel, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        for size in sizes:
            tunnel.sendto(b"\\x60" + bytes(5) + b"\\x3b\\x40" + bytes(size - 8), (destination, 0))
            udp.sendto(bytes(size // 2), (destination, 9))
"""  # noqa: E501


@pytest.fixture
def written(isolated, tmp_path):
    """Run code with `FILE`; return the lines that tcpdump reads from it."""
    if TCPDUMP is None:
        pytest.skip("no tcpdump here (Debian: apt-get install tcpdump)")

    def run(code, up=UP):
        file = tmp_path / "packets.pcap"
        result = isolated(f"FILE = {str(file)!r}\n{SENT}{code}", up)
        argv = [TCPDUMP, "-Knn", "--time-stamp-precision=nano", "-tt", "-r", str(file)]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
        return result, done.stderr, done.stdout.splitlines()

    return run


CAPTURED = """
begun = time.time()
capture = Capture(DEVICE, PACKETS)
sent(TO)
data = capture.pcap()
capture.close()
with open(FILE, "wb") as file:
    file.write(data)
print([begun, time.time()])
"""


def test_tcpdump_reads_it_with_protocol_41_and_the_time(written):
    result, about, lines = written(f"DEVICE, PACKETS, TO = 'one', 50, '198.18.0.2'{CAPTURED}")
    assert "link-type EN10MB (Ethernet), snapshot length 128" in about
    lines = [line for line in lines if "198.18.0.1" in line]  # without IPv6 neighbour discovery
    assert len(lines) == 6
    assert all("IP 198.18.0.1 > 198.18.0.2: IP6 :: > ::: no next header" in line for line in lines[::2])
    assert [line.rsplit(None, 1)[1] for line in lines[1::2]] == ["30", "500", "740"]
    begun, ended = ast.literal_eval(result)
    assert all(begun - 1 < float(line.split()[0]) < ended + 1 for line in lines)


def test_the_first_packets_are_kept_and_no_more(written):
    _, _, lines = written(
        f"sent = lambda to, old=sent: old(to, range(40, 1440))\nDEVICE, PACKETS, TO = 'lo', 37, '127.0.0.1'{CAPTURED}"
    )
    assert len(lines) == 37
    assert "IP 127.0.0.1 > 127.0.0.1: IP6" in lines[0]


def test_on_the_loopback_device_each_packet_is_there_once(written):
    _, _, lines = written(f"DEVICE, PACKETS, TO = 'lo', 50, '127.0.0.1'{CAPTURED}")
    assert [line.count("ICMP") for line in lines].count(0) == 6


@pytest.mark.skipif(not os.access("/dev/net/tun", os.R_OK | os.W_OK), reason="no right to /dev/net/tun")
def test_a_device_without_ethernet_gives_bare_ip(written):
    bare = """
import fcntl
tun = open("/dev/net/tun", "r+b", buffering=0)
fcntl.ioctl(tun, 0x400454CA, struct.pack("16sH22x", b"bare", 0x1001))  # TUNSETIFF, IFF_TUN | IFF_NO_PI
subprocess.run("ip link set bare up; ip addr add 198.18.9.1/24 dev bare", shell=True, check=True)
"""
    _, about, lines = written(f"{bare}DEVICE, PACKETS, TO = 'bare', 50, '198.18.9.2'{CAPTURED}")
    assert "link-type RAW (Raw IP)" in about
    assert len([line for line in lines if "IP 198.18.9.1" in line]) == 6


@pytest.mark.skipif(os.geteuid() != 0, reason="tcpdump itself needs root to capture")
def test_it_has_the_very_bytes_and_lengths_that_tcpdump_has(isolated):
    if TCPDUMP is None:
        pytest.skip("no tcpdump here (Debian: apt-get install tcpdump)")
    code = f"""
stamped = rx_timestamping()
wait_until_stamped()
argv = {TCPDUMP!r} + " -Z root -ni one -s 128 --immediate-mode -U -w - --time-stamp-precision=nano ip"
beside = subprocess.Popen(argv.split(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
while b"listening" not in beside.stderr.readline():
    pass
capture = Capture("one", 100)
sent("198.18.0.2")
said, theirs = b"", []
while len(theirs) < 6:
    assert (more := os.read(beside.stdout.fileno(), 65536)), "tcpdump has ended"
    said += more
    with contextlib.suppress(struct.error):  # the last one may be there in part
        theirs = packets(said)
beside.terminate()
theirs = packets(said + beside.communicate()[0])
ours = [each for each in packets(capture.pcap()) if each[2][12:14] == b"\\x08\\x00"]
capture.close(); stamped.close()
print([len(ours), [each[1:] for each in ours] == [each[1:] for each in theirs],
       max(abs(mine[0] - other[0]) for mine, other in zip(ours, theirs))])
"""
    count, same, apart_s = ast.literal_eval(isolated(SENT + code, UP))
    assert count == 6
    assert same
    assert apart_s < 1


def test_nothing_is_there_before_anything_has_passed(written):
    _, _, lines = written(f"sent = lambda to: None\nDEVICE, PACKETS, TO = 'lo', 5, '127.0.0.1'{CAPTURED}")
    assert lines == []


def test_a_device_that_does_not_exist_is_a_sentence(isolated):
    code = """
from pytest_ipperf.agent.paths.capture import Capture
from pytest_ipperf.core.portable.errors import LabError
try:
    Capture("no-such", 10)
except LabError as error:
    print(error)
"""
    assert isolated(code) == "nothing can be captured on 'no-such': there is no such device"
