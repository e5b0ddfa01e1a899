"""What a device has sent, beside tcpdump, and where its counts are none."""

from __future__ import annotations

import json

import pytest

from pytest_ipperf.agent.paths.wire_packets import WireCounter
from tests.support.needs import require

# A veth pair whose other end drops everything: nobody has the addresses that are sent to.
UP = """\
ip link set lo up
ip link add near0 type veth peer name far0
for each in near0 far0; do ip link set $each up; done
ip addr add 198.18.0.1/24 dev near0
ip addr add 2001:2::1/64 dev near0 nodad
ip neigh add 198.18.0.2 lladdr 02:00:00:00:00:02 dev near0
ip neigh add 2001:2::2 lladdr 02:00:00:00:00:02 dev near0
"""
CODE = """\
import json, re, socket, subprocess
from pytest_ipperf.agent.paths.wire_packets import WireCounter

ADDRESS = {4: "198.18.0.2", 6: "2001:2::2"}
argv = ["tcpdump", "-Z", "root", "-n", "-v", "-s", "100", "--immediate-mode", "-l", "-i", "near0"]
found = []

def counts(ipver, size):
    # What the counter and tcpdump have seen of three datagrams.
    with (
        subprocess.Popen(argv, stdout=-1, stderr=-1, text=True) as seen,
        socket.socket(socket.AF_INET6 if ipver == 6 else socket.AF_INET, socket.SOCK_DGRAM) as sock,
    ):
        while "listening on" not in seen.stderr.readline():
            pass
        counter = WireCounter("near0")
        for _ in range(3):
            sock.sendto(bytes(size), (ADDRESS[ipver], 9))
        counted = counter.count()
        sock.sendto(b"", (ADDRESS[ipver], 10))
        lengths, ended = [], False
        while not ended:
            line = seen.stdout.readline()
            lengths += map(int, re.findall(" IP [(].* length (\\\\d+)[)]", line))
            lengths += [40 + int(each) for each in re.findall(" IP6 [(].*payload length: (\\\\d+)[)]", line)]
            ended = re.search("[.]10: .*UDP, length 0", line)
        seen.terminate()
    lengths.pop()  # of the datagram that ends the count
    return counted, [len(lengths), sum(lengths)]

for sizes in [(4, 32), (4, 1473), (6, 1452), (6, 1453), (4, 65496), (6, 65496)]:
    # The new device also announces itself, between the beginnings of the two counts.
    tries = (counts(*sizes) for _ in range(8))
    found.append(next((each for each in tries if list(each[0][:2]) == each[1]), None) or counts(*sizes))
print(json.dumps(found))
"""


@pytest.mark.host
def test_the_counts_are_tcpdumps(isolated):
    require("tcpdump")
    for (packets, ip_bytes, fragments), (captured, captured_bytes) in json.loads(isolated(CODE, UP)):
        assert (packets, ip_bytes) == (captured, captured_bytes)
        assert fragments % 3 == 0
        assert 0 <= packets - (fragments or 3) <= 2  # and a few of neighbour discovery


@pytest.mark.host
def test_a_packet_that_the_device_has_to_split_leaves_no_count(isolated):
    code = """\
import socket
from pytest_ipperf.agent.paths.wire_packets import WireCounter

counter = WireCounter("near0")
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    sock.setsockopt(17, 103, 100)  # UDP_SEGMENT
    sock.connect(("198.18.0.2", 9))
    sock.send(bytes(10_000))
print(counter.count())
"""
    assert isolated(code, UP) == "None"


def test_a_loopback_device_has_no_count_as_it_sends_for_both_ends():
    assert WireCounter("lo").count() is None
