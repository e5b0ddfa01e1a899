"""What a device has sent, beside tcpdump, and where its counts are none."""

from __future__ import annotations

import json

import pytest

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
for ipver, size in [(4, 32), (4, 1473), (6, 1452), (6, 1453), (4, 65496), (6, 65496)]:
    said = "length (\\\\d+)" if ipver == 4 else "payload length: (\\\\d+)"
    with (
        subprocess.Popen([*argv, f"host {ADDRESS[ipver]}"], stdout=-1, stderr=-1, text=True) as seen,
        socket.socket(socket.AF_INET6 if ipver == 6 else socket.AF_INET, socket.SOCK_DGRAM) as sock,
    ):
        while "listening on" not in seen.stderr.readline():
            pass
        counter = WireCounter("near0")
        for _ in range(3):
            sock.sendto(bytes(size), (ADDRESS[ipver], 9))
        counted = counter.count()
        sock.sendto(b"", (ADDRESS[ipver], 10))
        lengths = []
        while True:
            line = seen.stdout.readline()
            if re.search("[.]10: .*UDP, length 0", line):
                break
            lengths += map(int, re.findall("^.* IP6? .*" + said + "[)]", line))
        seen.terminate()
    if ipver == 4:
        lengths.pop()  # of the last datagram, whose line follows
        found.append([counted, [len(lengths), sum(lengths)]])
    else:
        found.append([counted, [len(lengths), sum(lengths) + 40 * len(lengths)]])
print(json.dumps(found))
"""


@pytest.mark.host
def test_the_counts_are_tcpdumps(isolated):
    require("tcpdump")
    for (packets, ip_bytes, fragments), (captured, captured_bytes) in json.loads(isolated(CODE, UP)):
        assert (packets, ip_bytes) == (captured, captured_bytes)
        assert fragments == (packets if packets > 3 else 0)


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
