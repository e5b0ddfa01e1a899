"""Facts of a path, each in a network namespace where nothing else happens."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_ipperf.agent.paths import routes

ROOT = Path(__file__).parents[3]
LINKED = """
import os, socket, subprocess, sys, time
from pytest_ipperf.agent.paths import routes as path
from pytest_ipperf.core.portable import dns
from test_epoll_client import NAME

FAR = '''
import sys; sys.path[:0] = %r
from test_epoll_client import name_server
print("here", flush=True); sys.stdin.readline()
with name_server("198.18.0.2") as four, name_server("2001:2::2") as six:
    print(four.port, six.port, flush=True); sys.stdin.read()
''' % sys.path

class Far:
    '''A host at the other end of a veth pair, with a name server on both families.'''

    def __init__(self, near_mtu, far_mtu):
        self.process = subprocess.Popen(["unshare", "--net", sys.executable, "-c", FAR], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()
        pid = self.process.pid
        there = ["nsenter", f"--net=/proc/{pid}/ns/net"]
        def ip(text, enter=()):
            subprocess.run([*enter, "ip", "-batch", "-"], input=text, text=True, check=True)
        ip(f"link add near type veth peer name far netns {pid}")
        for end, mtu, enter in (("near", near_mtu, ()), ("far", far_mtu, there)):
            number = 1 if end == "near" else 2
            ip(f"link set {end} mtu {mtu} up\\naddr add 198.18.0.{number}/24 dev {end}\\n"
               f"addr add 2001:2::{number}/64 dev {end} nodad\\n", enter)
        self.process.stdin.write("\\n"); self.process.stdin.flush()
        four, six = self.process.stdout.readline().split()
        self.ports = {"198.18.0.2": int(four), "2001:2::2": int(six)}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate()
"""


ROUTES = """
import dataclasses
from pytest_ipperf.agent.paths import routes

def route(*asked):
    return dataclasses.asdict(routes.route(*asked))
"""


def said(text):
    return ast.literal_eval(text)


def test_the_route_to_oneself_is_by_the_loopback_device(isolated):
    four, six = (said(isolated(f"{ROUTES}print(route({address!r}))"))
                 for address in ("127.0.0.1", "::1"))  # fmt: skip
    common = {"device": "lo", "gateway": "", "mtu": 65536, "type": 772, "path_mtu": 0, "mss": 0, "error": ""}
    assert four == {**common, "source": "127.0.0.1"}
    assert six == {**common, "source": "::1"}


@pytest.mark.parametrize("address", ["192.0.2.1", "2001:db8::1"])
def test_where_there_is_no_route_is_an_error_in_words(isolated, address):
    found = isolated(f"{ROUTES}print(route({address!r}))")
    assert routes.Route(**said(found)) == routes.Route(error="Network is unreachable")


def test_a_gateway_its_device_and_its_mtu_are_told(isolated):
    up = """
    ip link add one type veth peer name two
    ip link set one mtu 1400 up; ip link set two up
    ip addr add 192.0.2.1/24 dev one; ip route add default via 192.0.2.9 dev one
    ip addr add 2001:db8::1/64 dev one nodad; ip route add default via 2001:db8::9 dev one
    ip route add prohibit 198.51.100.0/24
    """
    asked = ["203.0.113.1", "2001:db8:1::1", "192.0.2.7", "198.51.100.1"]
    four, six, near, none = said(isolated(f"{ROUTES}print([route(a) for a in {asked}])", up))
    common = {"device": "one", "mtu": 1400, "type": 1, "path_mtu": 0, "mss": 0, "error": ""}
    assert four == {**common, "gateway": "192.0.2.9", "source": "192.0.2.1"}
    assert six == {**common, "gateway": "2001:db8::9", "source": "2001:db8::1"}
    assert near["gateway"] == ""
    assert routes.Route(**none) == routes.Route(error="Permission denied")


def test_a_route_is_that_of_a_source_and_of_what_arrives_by_a_device(isolated):
    """IPv6 has routes by source, rules do the same for both, and a router has rules for incoming devices."""
    up = """
    ip link add one type veth peer name two; ip link add three type veth peer name four
    for device in one two three four; do ip link set $device up; done
    echo 1 > /proc/sys/net/ipv4/ip_forward
    ip addr add 192.0.2.1/24 dev one; ip addr add 192.0.2.2/32 dev one; ip addr add 198.51.100.1/24 dev three
    ip addr add 2001:db8::1/64 dev one nodad; ip addr add 2001:db8::2/128 dev one nodad
    ip addr add 2001:db8:3::1/64 dev three nodad
    ip route add 203.0.113.0/24 via 192.0.2.9; ip route add 203.0.113.0/24 via 198.51.100.9 table 7
    ip rule add from 192.0.2.2 lookup 7; ip rule add from 198.51.100.7 iif three to 203.0.113.0/24 lookup 7
    ip route add 2001:db8::/32 via 2001:db8::9; ip route add 2001:db8:7::/64 from 2001:db8::2 via 2001:db8:3::9
    ip route add 2001:db8:7::/64 via 2001:db8:3::9 table 7; ip -6 rule add iif three lookup 7
    """
    asked = [("203.0.113.1", "192.0.2.1"), ("203.0.113.1", "192.0.2.2"), ("203.0.113.1", "192.0.2.7", "one"),
             ("203.0.113.1", "198.51.100.7", "three"), ("203.0.113.1", "192.0.2.7", "five"),
             ("2001:db8:7::1", "2001:db8::1"), ("2001:db8:7::1", "2001:db8::2"),
             ("2001:db8:7::1", "2001:db8::5", "one"), ("2001:db8:7::1", "2001:db8::5", "three")]  # fmt: skip
    found = isolated(f"{ROUTES}print([route(*a) for a in {asked}])", up)
    result = [each["device"] or each["error"] for each in said(found)]
    assert result == ["one", "three", "one", "three", "no interface with this name", "one", "three", "one", "three"]


def test_what_a_route_says_of_sizes_is_told(isolated):
    up = """
    ip link add one type veth peer name two; ip link set one up; ip link set two up
    ip addr add 192.0.2.1/24 dev one; ip addr add 2001:db8::1/64 dev one nodad
    ip route add 203.0.113.0/24 via 192.0.2.9 mtu lock 1300; ip route add 198.51.100.0/24 via 192.0.2.9 advmss 500
    ip route add 2001:db8:7::/64 via 2001:db8::9 mtu 1300 advmss 500
    echo 1400 > /proc/sys/net/ipv6/conf/one/mtu
    """
    asked = ["203.0.113.1", "198.51.100.1", "2001:db8:7::1", "192.0.2.9"]
    found = isolated(f"{ROUTES}print([route(a) for a in {asked}])", up)
    result = [(each["mtu"], each["path_mtu"], each["mss"]) for each in said(found)]
    assert result == [(1500, 1300, 0), (1500, 0, 500), (1400, 1300, 500), (1500, 0, 0)]


@pytest.mark.parametrize("mtu", [1500, 1400])
def test_the_mtu_fits_and_one_byte_more_does_not(isolated, mtu):
    code = f"""
with Far({mtu}, {mtu}) as far:
    print([[path.fits(address, port, NAME, size) for size in path.fit_sizes({mtu}, 6 if ":" in address else 4)]
           for address, port in far.ports.items()])
"""
    assert said(isolated(LINKED + code)) == [["yes", "too big"], ["yes", "too big"]]


def test_what_a_link_behind_the_first_swallows_has_no_answer(isolated):
    code = """
with Far(1500, 1400) as far:
    print([[path.fits(address, port, NAME, size) for size in (1400, 1500)] for address, port in far.ports.items()])
"""
    assert said(isolated(LINKED + code)) == [["yes", "no answer"], ["yes", "no answer"]]


def test_loopback_takes_its_mtu_and_no_more(isolated):
    code = """
from pytest_ipperf.agent.paths.routes import fit_sizes, fits
from pytest_ipperf.agent.servers.server_process import ServerProcess
from pytest_ipperf.servers import SERVERS
from pytest_ipperf.servers.base import Site
import tempfile
with tempfile.TemporaryDirectory() as folder:
    both = ("127.0.0.1", "::1")
    instance = ServerProcess(SERVERS["nameserver"], Site(folder, both, 20000, 1, zone={"a.test": both}))
    instance.start()
    found = [[fits(a, 20000, "a.test", n) for n in fit_sizes(65536, v)] for a, v in (("127.0.0.1", 4), ("::1", 6))]
    print([*found, fits("::1", 20000, "unknown.test", 1000)])  # which has arrived, whatever the answer is
    instance.stop()
"""
    assert said(isolated(code)) == [["yes", "too big"], ["yes", "too big"], "yes"]


def test_nobody_there_is_silence(isolated):
    """Refused, unreachable on the link, no route: none of them is a fault of the instrument."""
    up = """
    ip link set lo up; ip link add one type veth peer name two; ip link set one up; ip link set two up
    ip addr add 192.0.2.1/24 dev one; ip addr add 2001:db8::1/64 dev one nodad
    """
    code = """
from pytest_ipperf.agent.paths import routes as path
path._PROBE_WAIT_S = 0.05
print([path.fits(a, 20000, "a.test", 1000) for a in ("127.0.0.1", "::1", "192.0.2.7", "203.0.113.1", "2001:db8:1::1")])
"""
    assert said(isolated(code, up)) == ["silence"] * 5


def test_only_packets_of_protocol_41_are_counted(isolated):
    code = """
import socket
from pytest_ipperf.agent.paths.routes import Protocol41
counter = Protocol41()
found = [counter.count()]
with (
    socket.socket(socket.AF_INET, socket.SOCK_RAW, 41) as tunnel,
    socket.socket(socket.AF_INET, socket.SOCK_RAW, 47) as gre,
    socket.socket(socket.AF_INET6, socket.SOCK_RAW, 41) as other,
    socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as six,
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as four,
):
    gre.sendto(bytes(60), ("127.0.0.1", 0))
    other.sendto(bytes(60), ("::1", 0))
    six.sendto(b"x" * 100, ("::1", 9))
    four.sendto(b"x" * 100, ("127.0.0.1", 9))
    found.append(counter.count())
    for _ in range(7):
        tunnel.sendto(b"\\x60" + bytes(59), ("127.0.0.1", 0))
    found.append(counter.count())
    # More than its buffer holds, as nothing is ever read.
    for _ in range(5000):
        tunnel.sendto(b"\\x60" + bytes(1000), ("127.0.0.1", 0))
    found += [counter.count(), counter.count()]
counter.close()
print([*found, counter.count()])
"""
    assert said(isolated(code)) == [*({"in": count, "out": count} for count in (0, 0, 7, 5000, 0)), None]


COUNTED = """
import os, socket, subprocess, sys, time
from pytest_ipperf.agent.paths.routes import Protocol41
run = lambda words: subprocess.run(words.split(), check=True, capture_output=True)
def another():
    held = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec cat"], stdin=-1, stdout=-1)
    held.stdout.readline()
    return held
there = another()
run(f"ip link add near type veth peer name far netns {there.pid}")
inside = f"nsenter --net=/proc/{there.pid}/ns/net "
run("ip addr add 198.18.0.1/24 dev near"); run(inside + "ip addr add 198.18.0.2/24 dev far")
run("ip link set near mtu 1500 up"); run(inside + "ip link set far mtu 1500 up")
FAR = '''
import sys; sys.path[:0] = %r
from pytest_ipperf.agent.paths.routes import Protocol41
counter = Protocol41()
for line in sys.stdin:
    print(counter.count(), flush=True)
''' % sys.path
far = subprocess.Popen([*inside.split(), sys.executable, "-c", FAR], stdin=-1, stdout=-1, text=True)
def count_there():
    far.stdin.write("\\n"); far.stdin.flush()
    return eval(far.stdout.readline())
counter = Protocol41()
count_there()
def sent(packets, size, wanted):
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, 41) as tunnel:
        tunnel.setsockopt(socket.IPPROTO_IP, 10, 0)  # fragments, where it is too long
        for _ in range(packets):
            tunnel.sendto(b"\\x60" + bytes(size - 1), ("198.18.0.2", 0))
    here, there = counter.count(), count_there()
    for _ in range(100):  # the kernel may be late with them on a busy machine
        if here["out"] >= wanted <= there["in"]:
            break
        time.sleep(0.05)
        for total, new in ((here, counter.count()), (there, count_there())):
            total.update({way: total[way] + new[way] for way in new})
    return [here, there]
def end():
    for process in (far, there):
        process.stdin.close(); process.wait(); process.stdout.close()
"""


def test_what_is_sent_is_counted_apart_from_what_is_received(isolated):
    found = isolated(f"{COUNTED}\nprint(sent(9, 100, 9)); end()")
    assert said(found) == [{"in": 0, "out": 9}, {"in": 9, "out": 0}]


def test_each_fragment_counts(isolated):
    """The second fragment has the protocol in its header too, but nothing of the inner packet."""
    found = isolated(f"{COUNTED}\nprint(sent(4, 2000, 8)); end()")
    assert said(found) == [{"in": 0, "out": 8}, {"in": 8, "out": 0}]


def test_what_a_program_at_the_ingress_takes_has_been_counted(isolated):
    taken = """
run(inside + "tc qdisc add dev far clsact")
# ldh protocol; jeq #0x800, drop, pass: all of IPv4, so that there is ARP still
code = "4,40 0 0 4294963200,21 0 1 2048,6 0 0 2,6 0 0 4294967295"
subprocess.run([*inside.split(), *"tc filter add dev far ingress bpf da bytecode".split(), code], check=True)
"""
    found = isolated(f"{COUNTED}{taken}print(sent(5, 100, 5)); end()")
    assert said(found) == [{"in": 0, "out": 5}, {"in": 5, "out": 0}]


def test_who_may_not_count_says_so():
    if os.geteuid() != 0:
        counter = routes.Protocol41()
        assert counter.count() is None
        return
    code = "from pytest_ipperf.agent.paths.routes import Protocol41; print(Protocol41().count())"
    done = subprocess.run(
        ["setpriv", "--bounding-set", "-net_raw", "--", sys.executable, "-W", "error", "-c", code],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "setpriv" in done.stderr:
        pytest.skip(f"no right can be given up here ({done.stderr.strip()})")
    assert (done.stdout, done.stderr) == ("None\n", "")


def test_packets_are_counted_by_version_and_without_icmp(isolated):
    code = """
import socket
from pytest_ipperf.agent.paths.routes import ip_packets
def sent(address, kind):
    before = ip_packets()
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as receiver, socket.socket(family, kind) as sender:
        receiver.bind((address, 0))
        for _ in range(10):
            if kind == socket.SOCK_RAW:
                sender.sendto(b"x" * 20, (address, 0))
            else:
                sender.sendto(b"x", receiver.getsockname()[:2])
    after = ip_packets()
    return [after[version] - before[version] for version in ("ipv4", "ipv6")]
def refused(address):
    before = ip_packets()
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for _ in range(10):
            sender.sendto(b"x", (address, 9))  # each of which ICMP answers
    after = ip_packets()
    return [after[version] - before[version] for version in ("ipv4", "ipv6")]
print([sent("127.0.0.1", socket.SOCK_DGRAM), sent("::1", socket.SOCK_DGRAM), refused("127.0.0.1"), refused("::1")])
"""
    assert said(isolated(code)) == [[10, 0], [0, 10], [10, 0], [0, 10]]


def test_a_host_without_ipv6_has_sent_none_of_it(monkeypatch):
    real = Path.exists
    monkeypatch.setattr(Path, "exists", lambda self: str(self) != "/proc/net/snmp6" and real(self))
    assert routes.ip_packets()["ipv6"] == 0
