"""Effects of a lab's links on packets, and the program that delays them."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import hashlib
import json
import math
import random
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.measurement.token_bucket import bucket_bytes
from pytest_ipperf.lab.epoch.build import build_testbed
from pytest_ipperf.lab.inventory.builtin import BUILTIN, lab
from pytest_ipperf.lab.inventory.model import Links
from pytest_ipperf.lab.netns import delay_line
from pytest_ipperf.lab.netns.namespaces import namespaces, unusable
from pytest_ipperf.lab.netns.veth import create_veths, veth_pairs
from pytest_ipperf.lab.runs.link_rate import train_rates
from pytest_ipperf.lab.tunnels.backend_choice import lab_backend
from tests.support.attempts import lasting
from tests.support.hosts import uml_guest
from tests.support.needs import require
from tests.support.pings import ping, whole

uml = uml_guest.uml

pytestmark = pytest.mark.skipif(bool(unusable()), reason=f"the lab cannot be built: {unusable()}")

ARMS = {Arm(4, "native"): 1500, Arm(6, "native"): 1500, Arm(6, "tunnel"): 1480, Arm(6, "isatap"): 1480}
PINGS = 800
DELAY_S = 0.02


@pytest.fixture(autouse=True)
def _own_tmpdir(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))


@contextlib.contextmanager
def live_lab(testbed):
    """Set up a lab with its tunnels, and those of its arms that work on this machine."""
    backend, why = lab_backend(dataclasses.replace(testbed, links=Links(rate_bit_s=1e9)), "auto")
    transports = () if why else tuple(testbed.paths)
    with build_testbed(testbed, transports=transports, backend=backend or "auto") as up:
        assert up.tunnels.trouble == {}
        yield up, [arm for arm in ARMS if arm.transport in {"native", *transports}]


def started(entry, argv):
    """Start a ping on a host."""
    require("ping")
    return subprocess.Popen([*entry, *argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def pinging(entry, address, *arguments):
    """Start pings of which some may be lost."""
    return started(entry, ["ping", "-q", *arguments, address])


def ponged(process):
    """Return how many of its pings were answered."""
    said, _ = process.communicate(timeout=60)
    received = re.search(r"(\d+) received", said)
    assert received, said
    return int(received[1])


def _said(entry, *argv):
    return subprocess.run([*entry, *argv], capture_output=True, text=True, check=True).stdout


# --- loss -------------------------------------------------------------------------------------------------------------


def test_a_share_of_the_packets_is_lost_in_each_direction_and_on_every_arm():
    """Packets of both ends are dropped, so a ping has two chances to be lost; 5 standard deviations are 6e-7 each."""
    share = 0.1
    testbed = lab("lossy", 3, Links(loss=share))
    expected = PINGS * (1 - share) ** 2
    five_sd = 5 * math.sqrt(expected * (1 - (1 - share) ** 2))
    with live_lab(testbed) as (up, arms):
        asked = {
            arm: pinging(up.entries["client"], testbed.path(arm).server, f"-c{PINGS}", "-i0.001", "-W1") for arm in arms
        }
        found = {str(arm): ponged(process) for arm, process in asked.items()}
    assert {arm: count for arm, count in found.items() if abs(count - expected) > five_sd} == {}, found


SENDS = """
import socket, sys
with socket.create_server(("0.0.0.0", 5001)) as server:
    print("listening", flush=True)
    with server.accept()[0] as sock:
        sock.sendall(bytes(int(sys.argv[1])))
        sock.shutdown(socket.SHUT_WR)
        assert not sock.recv(1)
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232)
        print(int.from_bytes(info[100:104], "little"))  # tcpi_total_retrans
"""
TAKES = """
import socket, sys
with socket.create_connection((sys.argv[1], 5001)) as sock:
    while sock.recv(1 << 16):
        pass
"""


def test_tcp_takes_what_is_lost_for_lost():
    """Packets refused by the sender's own device would be sent again without being counted as lost."""
    testbed = lab("lossy", 2, Links(loss=0.05))
    with contextlib.ExitStack() as stack:
        up, _ = stack.enter_context(live_lab(testbed))
        sends, takes = ([*up.entries[role], sys.executable, "-I", "-c"] for role in ("server", "client"))
        sender = stack.enter_context(subprocess.Popen([*sends, SENDS, "1000000"], stdout=subprocess.PIPE, text=True))
        assert sender.stdout
        assert sender.stdout.readline() == "listening\n"
        subprocess.run([*takes, TAKES, testbed.server.ipv4], check=True, timeout=60)
        retransmitted = int(sender.stdout.readline())
    # Of some 690 segments; that fewer than 10 of them are lost has a probability below 1e-5.
    assert retransmitted >= 10


def test_what_finds_neighbours_is_not_lost():
    """With nearly all other packets lost, each of six neighbour solicitations is answered."""
    testbed = lab("lossy", 2, Links(loss=0.999))
    with namespaces(testbed) as entries:
        entry = entries["client"]
        for address in (testbed.server.ipv4, testbed.server.ipv6):
            for _ in range(3):
                subprocess.run([*entry, "ip", "neigh", "flush", "dev", "eth0"], check=True)
                ponged(pinging(entry, address, "-c1", "-W0.01"))
                known = solicited(entry, address)
                assert known.get("lladdr"), known


def solicited(entry, address):
    """Return what a host knows of its neighbour once it has an answer, or has given up asking."""
    while True:
        (known,) = json.loads(_said(entry, "ip", "-j", "neigh", "show", address))
        if known["state"] != ["INCOMPLETE"]:
            return known
        time.sleep(0.01)


# --- delay ------------------------------------------------------------------------------------------------------------


def test_every_packet_is_delayed_once_each_way_on_every_arm():
    testbed = lab("far", 3, Links(delay_s=DELAY_S))
    with live_lab(testbed) as (up, arms):
        # To the router's near side nothing is delayed.
        below_s = {"198.18.0.2": DELAY_S} | {testbed.path(arm).server: 3 * DELAY_S for arm in arms}
        fastest_s = fastest(up.entries["client"], below_s)
        (port,) = json.loads(_said(up.entries["client"], "ip", "-j", "-d", "link", "show", "eth0"))
    assert port["gso_max_segs"] == 1
    assert fastest_s.pop("198.18.0.2") < DELAY_S
    assert len(fastest_s) == len(arms)
    for each_s in fastest_s.values():
        assert 2 * DELAY_S <= each_s < 3 * DELAY_S


def fastest(entry, below_s):
    """Return the shortest time to each address, of as many pings as needed to get below its bound, up to 800.

    A packet that is delayed twice is never below, so a busy machine, which delays most packets, gets more pings.
    """
    found = dict.fromkeys(below_s, math.inf)
    for _ in range(20):
        slow = [address for address, bound_s in below_s.items() if found[address] >= bound_s]
        asked = {address: started(entry, ping(address, count=40, interval_s=0.01)) for address in slow}
        for address, process in asked.items():
            said, _ = process.communicate(timeout=60)
            assert whole(said, 40), said
            fastest_s = min(map(float, re.findall(r" time=([\d.]+) ms", said))) / 1000
            found[address] = min(found[address], fastest_s)
    return found


DATAGRAMS = """
import os, socket, sys
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # what two processors send may overtake each other
address, count, send = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sock:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    sock.settimeout(60)
    if send:
        # What waits for a neighbour is overtaken by what is sent when it has been found.
        sock.sendto(b"", (address, 5002))
        sock.recv(9)
        for number in range(count):
            sock.sendto(number.to_bytes(4, "big"), (address, 5002))
    else:
        sock.bind((address, 5002))
        print("listening", flush=True)
        sock.sendto(b"", sock.recvfrom(9)[1])
        print([int.from_bytes(sock.recv(9), "big") for _ in range(count)] == list(range(count)))
"""


def test_what_is_delayed_stays_in_order_and_is_not_lost():
    testbed = lab("far", 2, Links(delay_s=DELAY_S))
    with namespaces(testbed) as entries:
        python = [sys.executable, "-I", "-c", DATAGRAMS, testbed.server.ipv6, "300"]
        with subprocess.Popen([*entries["server"], *python], stdout=subprocess.PIPE, text=True) as receiver:
            assert receiver.stdout
            assert receiver.stdout.readline() == "listening\n"
            subprocess.run([*entries["client"], *python, "send"], check=True)
            assert receiver.stdout.readline() == "True\n"


DIGEST = """
import hashlib, random, socket, sys
address, size, takes = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
if takes:
    with socket.create_server((address, 5003), family=socket.AF_INET6 if ":" in address else socket.AF_INET) as server:
        print("listening", flush=True)
        with server.accept()[0] as sock:
            digest = hashlib.sha256()
            while data := sock.recv(1 << 16):
                digest.update(data)
    print(digest.hexdigest())
else:
    with socket.create_connection((address, 5003)) as sock:
        sock.sendall(random.Random(5).randbytes(size))
"""


@pytest.mark.parametrize("ipver", [4, 6])
def test_super_packets_and_unfinished_checksums_come_through(ipver):
    """A lab whose devices keep their offloads leaves segmentation and checksums to the link."""
    testbed = lab("far", 3, Links(delay_s=0.002))
    address, size = testbed.server.address(ipver), 3_000_000
    with namespaces(testbed) as entries:
        python = [sys.executable, "-I", "-c", DIGEST, address, str(size)]
        with subprocess.Popen([*entries["server"], *python, "take"], stdout=subprocess.PIPE, text=True) as taker:
            assert taker.stdout
            assert taker.stdout.readline() == "listening\n"
            subprocess.run([*entries["client"], *python], check=True, timeout=60)
            assert taker.stdout.readline().strip() == hashlib.sha256(random.Random(5).randbytes(size)).hexdigest()


def test_a_rate_beside_a_delay_is_the_rate():
    """The bounds are wide because packets wait on this path, and this is no measurement."""
    rate_bit_s = 50e6
    testbed = lab("far", 3, Links(delay_s=0.005, rate_bit_s=rate_bit_s))
    with live_lab(testbed) as (up, arms):

        def attempt():
            found = {
                (arm, sender): found_bit_s
                for arm in arms[::2]
                for sender, found_bit_s in train_rates(testbed, arm, up.agents, ARMS[arm]).items()
            }
            assert len(found) == 2 * len(arms[::2])
            return {key: each for key, each in found.items() if not 0.7 * rate_bit_s < (each or 0) < 1.1 * rate_bit_s}

        # What else goes on in a machine passes; what a link does wrong stays.
        assert not lasting(attempt() for _ in range(5))


# Each line of their input is the identifier of a train.
RECEIVES = """
import sys
from pytest_ipperf.agent.paths.packet_train import TrainReceiver
receiver = TrainReceiver(sys.argv[1], 60)
print(receiver.port, flush=True)
for line in sys.stdin:  # the kernel has stamped and keeps what came meanwhile
    print(receiver.stamps_ns(int(line), 60), flush=True)
"""
TRAINS = """
import sys
from pytest_ipperf.agent.paths.packet_train import send_train
source, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
for line in sys.stdin:
    send_train(source, (address, port), int(line), packet_bytes=1500, datagrams=60, backlog=60)
    print(flush=True)
"""


@contextlib.contextmanager
def answering(entry, *argv):
    """Start a Python program on a host that answers each line of its input by one; yield what asks it."""
    words = [*entry, sys.executable, "-c", *argv]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def asked(line=""):
            assert process.stdin
            assert process.stdout
            if line:
                print(line, flush=True, file=process.stdin)
            return process.stdout.readline().strip()

        yield asked


@pytest.mark.parametrize("rate_bit_s", [2e6, 1e7, 1e8])
def test_a_link_passes_its_bucket_at_once_and_no_more(rate_bit_s):
    """Of many trains one is not disturbed by what else goes on in the machine, which delays packets or their stamps."""
    testbed = lab("bottled", 2, Links(rate_bit_s=rate_bit_s))
    most_bytes = bucket_bytes(rate_bit_s)

    def at_once(stamps_ns):
        """Return the bytes of a train by which its first packets were ahead of the rate."""
        ahead = [1538 * (at + 1) - rate_bit_s / 8e9 * (each - stamps_ns[0]) for at, each in enumerate(stamps_ns)]
        return max(ahead[:30])

    with contextlib.ExitStack() as stack:
        entries = stack.enter_context(namespaces(testbed))
        for role in testbed.roles:
            run = [*entries[role], "sh", "-c", "ethtool -K eth0 gso off tso off; ip link set eth0 gso_max_segs 1"]
            subprocess.run(run, check=True)
        stamps = stack.enter_context(answering(entries["server"], RECEIVES, testbed.server.ipv4))
        ends = testbed.client.ipv4, testbed.server.ipv4
        sent = stack.enter_context(answering(entries["client"], TRAINS, *ends, stamps()))
        found = []
        for train in range(1, 31):
            sent(train)
            stamps_ns = ast.literal_eval(stamps(train))
            assert len(stamps_ns) == 60
            found.append(at_once(stamps_ns))
            if found[-1] == pytest.approx(most_bytes, abs=rate_bit_s / 8 * 20e-6 + 10):
                return
            time.sleep(2 * 8 * most_bytes / rate_bit_s)  # in which the bucket has filled again
    raise AssertionError(f"{most_bytes} bytes may pass at once; those that did are {found}")


WIRE = """
import json, subprocess, sys
from pytest_ipperf.lab.inventory.builtin import lab
from pytest_ipperf.lab.netns.namespaces import namespaces
from pytest_ipperf.lab.inventory.model import Links
testbed = lab("far", 3, Links(delay_s=0.02, loss=0.01, rate_bit_s=1e8))
with namespaces(testbed) as entries:
    ping = [*entries["client"], "ping", "-q", "-c5", "-i0.2", "-W2", testbed.server.ipv6]
    print(json.dumps(subprocess.run(ping, capture_output=True, text=True).stdout), flush=True)
    sys.stdin.read()
"""


def command_line(pid):
    with contextlib.suppress(OSError):  # what has just ended
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


@pytest.mark.parametrize("who", ["me", "nobody"])
def test_a_wire_needs_no_rights_and_goes_with_its_lab(request, processes, who):
    user = request.getfixturevalue(who)
    owner = subprocess.Popen(
        user.argv(WIRE), env=user.env, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    assert owner.stdout
    line = owner.stdout.readline()
    seen = processes.below(owner.pid)
    held = [pid for pid in seen if b"delay_line" in command_line(pid)]
    owner.kill()
    said = owner.communicate()[1]
    assert "% packet loss" in json.loads(line or "null"), said
    assert len(held) == 1 or _kernel_delays()
    assert processes.left() == []


# --- by the kernel, where it can --------------------------------------------------------------------------------------

NETEM = """
tc qdisc add dev lo root netem delay 1ms && tc qdisc add dev lo clsact &&
tc filter add dev lo ingress matchall action mirred egress redirect dev lo
"""
MODULES = """
for name in cls_matchall act_mirred; do
    busybox insmod "$(find /usr/lib/uml/modules/$(uname -r) -name $name.ko)" || exit 1
done
"""


def _kernel_delays():
    asked = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", NETEM]
    return not subprocess.run(asked, capture_output=True, check=False).returncode


def test_the_kernel_holds_the_frames_where_it_can_and_else_the_program():
    with namespaces(lab("far", 2, Links(delay_s=DELAY_S))) as entries:
        alive = _said(entries["client"], "sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert ("delay_line.py" in alive) == (not _kernel_delays())


WIRED = """
for end in 1 2; do
    unshare --net sleep 600 & eval "pid$end=$!"
    while [ "$(readlink /proc/$!/ns/net)" = "$(readlink /proc/$$/ns/net)" ]; do sleep 0.01; done
done
unshare --net {wire} $pid1 eth0 $pid2 eth0 || exit 1
for end in 1 2; do
    eval "pid=\\$pid$end"
    nsenter --target $pid --net sh -c "ip addr add 198.18.0.$end/24 dev eth0; ip link set eth0 up" || exit 1
done
# As many pings as needed for one that no busy machine has held up, which one that is delayed twice never is.
for attempt in $(seq 20); do
    said=$(nsenter --target $pid1 --net ping -q -c 40 -i 0.01 198.18.0.2)
    fastest=$(echo "$said" | sed -n 's:.*= \\([0-9]*\\)[.0-9]*/.*:\\1:p')
    [ "${{fastest:-{bound_ms}}}" -lt {bound_ms} ] && break
done
echo "$said"
cat /proc/[0-9]*/cmdline | tr '\\0' ' '
kill $pid1 $pid2
"""


def test_a_kernel_with_netem_delays_as_the_program_does(uml):
    wire = shlex.join([sys.executable, "-I", "-S", delay_line.__file__, str(DELAY_S)])
    done = uml.sh(MODULES + WIRED.format(wire=wire, bound_ms=round(3000 * DELAY_S)))
    assert done.returncode == 0, done.stderr
    fastest = re.search(r"= ([\d.]+)/", done.stdout)
    assert fastest, done.stdout
    assert 2 * DELAY_S <= float(fastest[1]) / 1000 < 3 * DELAY_S
    assert "sleep infinity" in done.stdout
    assert "delay_line.py" not in done.stdout


def test_a_wire_that_cannot_be_made_is_told_in_the_words_of_ip():
    with namespaces(BUILTIN["pair"]) as entries:
        argv = [*entries["client"], "unshare", "--net", sys.executable, "-I", delay_line.__file__]
        done = subprocess.run(
            [*argv, "0.01", "1", "eth0", "4194000", "eth0"], capture_output=True, text=True, check=False
        )
    assert done.returncode == 1
    assert done.stderr.startswith("ip link add wire")


# --- order ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("nodes", "delayed"), [(2, [("client", "server")]), (3, [("server", "router")])])
def test_one_wire_is_delayed_the_servers(nodes, delayed):
    testbed = lab("far", nodes, Links(delay_s=0.5))
    ran = []
    create_veths(
        testbed, dict.fromkeys(testbed.roles, 7), lambda role, argv, text: ran.append((role, list(argv), text))
    )
    wires = [argv for _, argv, _ in ran if delay_line.__file__ in argv]
    devices = {(one.role, other.role): (one.device, other.device) for one, other in veth_pairs(testbed)}
    assert [wire[-5:] for wire in wires] == [["0.5", "7", devices[each][0], "7", devices[each][1]] for each in delayed]
    pairs = [text for _, argv, text in ran if argv[0] == "ip" and "type veth" in text]
    assert len(pairs) == len(devices) - 1


def test_a_packet_is_lost_before_it_is_shaped_and_at_the_ends_alone():
    testbed = lab("bad", 3, Links(loss=0.25, rate_bit_s=1e6))
    reported: dict[str, str] = {}
    create_veths(
        testbed,
        dict.fromkeys(testbed.roles, 7),
        lambda role, _, text: reported.update({role: text}) if "tc -batch" in text else None,
    )
    assert set(reported) == {"client", "server", "router"}
    for role, text in reported.items():
        assert "tbf rate 1000000bit" in text
        assert ("egress bpf" in text) == (role != "router")
        assert (f" {2**30}," in text) == (role != "router")
