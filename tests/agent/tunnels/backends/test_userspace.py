"""Tunnels by the forwarder, between real namespaces, as root and in a user namespace; and the forwarder's rules."""

from __future__ import annotations

import ast
import ipaddress
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_ipperf.agent.tunnels import encapsulation
from pytest_ipperf.agent.tunnels.backends import BACKENDS, preferred, userspace
from pytest_ipperf.agent.tunnels.encapsulation import EncapsulationRules
from pytest_ipperf.lab.agents.code_archive import code_archive
from pytest_ipperf.transports.base import TunnelEndpoint
from tests.support.needs import needs

ROOT, HERE = Path(__file__).parents[4], Path(__file__).parents[1]
LOCAL, PEER = (ipaddress.IPv4Address(f"198.18.0.{number}").packed for number in (1, 2))
TUNNEL = EncapsulationRules.of(TunnelEndpoint("tunnel", "t", "198.18.0.1", "198.18.0.2", ()))
ISATAP = EncapsulationRules.of(TunnelEndpoint("isatap", "i", "198.18.0.1", "198.18.0.3", ()))
NATIVE, SITE = "2001:db8::1", "2001:2:0:5e:0:5efe"


def inner(source=NATIVE, to=NATIVE, traffic_class=0):
    addresses = ipaddress.IPv6Address(source).packed + ipaddress.IPv6Address(to).packed
    return struct.pack("!IHBB", 6 << 28 | traffic_class << 20, 4, 59, 1) + addresses + b"data"


def outer(packet, source=PEER, to=LOCAL, traffic_class=0):
    return encapsulation.outer(source, to, traffic_class, 64, len(packet)) + packet


@pytest.mark.parametrize(
    ("rules", "to", "where"),
    [
        (TUNNEL, NATIVE, "198.18.0.2"),
        (TUNNEL, "ff02::1", "198.18.0.2"),
        (TUNNEL, f"{SITE}:198.18.0.9", "198.18.0.2"),
        (ISATAP, NATIVE, "198.18.0.3"),
        (ISATAP, f"{SITE}:198.18.0.9", "198.18.0.9"),
        (ISATAP, "fe80::200:5efe:198.18.0.9", "198.18.0.9"),
        (ISATAP, "fe80::100:5efe:198.18.0.9", "198.18.0.3"),
        (ISATAP, "ff02::1", ""),
        (ISATAP, "ff02::5efe:198.18.0.9", ""),
        (ISATAP, f"{SITE}:198.18.0.1", ""),
        (ISATAP, f"{SITE}:0.0.0.0", ""),
        (ISATAP, f"{SITE}:0.1.2.3", ""),
        (ISATAP, f"{SITE}:127.0.0.1", ""),
        (ISATAP, f"{SITE}:224.0.0.1", ""),
        (ISATAP, f"{SITE}:240.0.0.1", ""),
        (ISATAP, f"{SITE}:255.255.255.255", ""),
        (EncapsulationRules(LOCAL, b"", isatap=True, ttl=64), NATIVE, ""),
    ],
)
def test_where_a_packet_goes(rules, to, where):
    made = rules.encapsulated(inner(to=to))
    assert made[16:20] == (ipaddress.IPv4Address(where).packed if where else b"")


@pytest.mark.parametrize(
    ("rules", "source", "sender", "taken"),
    [
        (TUNNEL, NATIVE, "198.18.0.2", True),
        (TUNNEL, "::", "198.18.0.2", True),
        (TUNNEL, NATIVE, "198.18.0.3", None),
        (TUNNEL, "ff02::1", "198.18.0.2", False),
        (TUNNEL, "::1", "198.18.0.2", False),
        (TUNNEL, "::198.18.0.2", "198.18.0.2", False),
        (TUNNEL, "::ffff:198.18.0.2", "198.18.0.2", False),
        (ISATAP, NATIVE, "198.18.0.3", True),
        (ISATAP, NATIVE, "198.18.0.9", None),
        (ISATAP, f"{SITE}:198.18.0.9", "198.18.0.9", True),
        (ISATAP, "fe80::200:5efe:198.18.0.9", "198.18.0.9", True),
        (ISATAP, "fe80::300:5efe:198.18.0.9", "198.18.0.9", None),
        (ISATAP, f"{SITE}:198.18.0.8", "198.18.0.9", None),
        (ISATAP, f"{SITE}:198.18.0.1", "198.18.0.1", None),
        (ISATAP, f"{SITE}:127.0.0.1", "127.0.0.1", None),
        (ISATAP, f"{SITE}:224.0.0.1", "224.0.0.1", None),
        (ISATAP, f"{SITE}:255.255.255.255", "255.255.255.255", None),
        (ISATAP, "ff02::5efe:198.18.0.9", "198.18.0.9", False),
    ],
)
def test_what_is_taken_refused_or_left(rules, source, sender, taken):
    packet = inner(source)
    found = rules.decapsulated(outer(packet, ipaddress.IPv4Address(sender).packed))
    assert found == {True: packet, False: b"", None: None}[taken]


@pytest.mark.parametrize("traffic_class", [0, 1, 3, 0xB8, 0xFF])
def test_the_traffic_class_is_copied(traffic_class):
    assert TUNNEL.encapsulated(inner(traffic_class=traffic_class))[1] == traffic_class


@pytest.mark.parametrize(("met", "had", "has"), [(3, 0, None), (3, 1, 3), (3, 2, 3), (3, 3, 3), (0, 1, 1), (2, 1, 1)])
def test_congestion_met_by_the_outer_header_is_told_to_the_inner_one(met, had, has):
    found = TUNNEL.decapsulated(outer(inner(traffic_class=0xB8 | had), traffic_class=met))
    assert found == (b"" if has is None else inner(traffic_class=0xB8 | has))


def test_what_a_configured_tunnel_takes_isatap_leaves():
    packet = outer(inner(f"{SITE}:198.18.0.2"))
    assert ISATAP.decapsulated(packet) == packet[20:]
    assert ISATAP.decapsulated(packet, {PEER}) is None


@needs("ip", "tc", "ping")
def test_both_tunnels_carry_and_refuse_without_root():
    words = ["unshare", "--user", "--map-root-user", "--net", "--mount"]
    if subprocess.run([*words, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no rights for a user namespace")
    code = f"""
import sys; sys.path[:0] = [{str(ROOT)!r}, {str(HERE)!r}]
from ends import *
with Pair("userspace", "userspace") as pair:
    print([[pings(a), pings(a, "-s", "4000"), streams(a), wire(a, 1432, 0xb8)[:4]] for a in REACHED.values()])
    inside, behind = REACHED["tunnel"], "2001:2:0:12::1"
    print(pair.gets_in(FAR, inside, "tunnel"), pair.gets_in(ROUTER, inside, "tunnel"),
          pair.gets_in(FAR, "::ffff:198.18.0.2", "tunnel"))
    print(pair.gets_in(SITE_FAR, "2001:2:0:5e:200:5efe:" + SITE_FAR, "isatap"),
          pair.gets_in(SITE_FAR, "2001:2:0:5e:0:5efe:198.18.0.77", "isatap"),
          pair.gets_in(SITE_FAR, behind, "isatap"), pair.gets_in(ROUTER, behind, "isatap"))
print(devices())
"""
    argv = [*words, sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    carried, tunnel, isatap, left = done.stdout.splitlines()
    assert ast.literal_eval(carried) == 2 * [[True, True, True, b"\x45\xb8\x05\xdc"]]
    assert (tunnel, isatap) == ("True False False", "True False False True")
    assert left == "['lo']"


@pytest.mark.parametrize("backend", ["ebpf", "userspace"])
def test_what_comes_from_a_tunnel_s_peer_is_let_in_once_and_by_the_tunnel(isolated, backend):
    if why := BACKENDS[backend].missing():
        pytest.skip(f"{backend}: {why}")
    code = f"""
from ends import *
with Pair("", "userspace") as pair:
    changes = Changes()
    pair.stack.callback(lambda: undone(changes))
    isatap = f"2001:2:0:5e:0:5efe:{{NEAR}}"
    # The peer is the ISATAP router too, and ISATAP was there before.
    create_tunnel({backend!r}, TunnelEndpoint("isatap", "i", NEAR, FAR, (f"{{isatap}}/64",)), changes, pair.stack)
    create_tunnel({backend!r}, TunnelEndpoint("tunnel", "t", NEAR, FAR, (OWN["tunnel"] + "/64",)), changes, pair.stack)
    with datagrams("::") as sock:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
        for _ in range(3):  # one of the first may be lost on a busy machine, and then all are sent again
            sock.settimeout(10)
            found = []
            for to in (OWN["tunnel"], isatap):
                inner = datagram(REACHED["tunnel"], to)
                packet = encapsulation.outer(socket.inet_aton(FAR), socket.inet_aton(NEAR), 0, 64, len(inner)) + inner
                pair.expect(packet.hex() + "\\n", "sent")
            with contextlib.suppress(BlockingIOError, TimeoutError):
                while True:
                    (_, _, about), *_ = sock.recvmsg(100, 100)[1]
                    found.append(socket.if_indextoname(struct.unpack("16xI", about)[0]))
                    if len(found) == 2:
                        time.sleep(0.2)  # for what may come twice
                        sock.setblocking(False)
            if len(found) > 1:
                break
        print(*found)
"""
    assert isolated(code) == "t t"


def test_nothing_is_left_when_its_holder_is_killed(isolated):
    code = """
from ends import *
ip(f"addr add {NEAR}/24 dev lo\\naddr add {SITE_NEAR}/24 dev lo")
before = devices()
popen, forwarders = holder("userspace")
print(len(forwarders), len(devices()))
popen.kill(); popen.communicate()
print(waited(lambda: all(map(gone, forwarders)) and devices() == before))
"""
    assert isolated(code) == "2 5\nTrue"


def test_the_forwarder_runs_from_code_that_has_travelled(isolated, tmp_path):
    packed = tmp_path / "cargo.zip"
    packed.write_bytes(code_archive())
    code = f"""
import os, sys
file = os.open({str(packed)!r}, os.O_RDONLY)
sys.path[:1] = [f"/proc/self/fd/{{file}}"]
from ends import *
ip(f"addr add {{NEAR}}/24 dev lo")
with contextlib.ExitStack() as stack:
    changes = Changes(file)
    create_tunnel("userspace", TunnelEndpoint("tunnel", "ipperf-6in4", NEAR, FAR, ()), changes, stack)
    print(devices())
print(changes.undo(), devices())
"""
    assert isolated(code) == "['ipperf-6in4', 'ipperf-6in4-f', 'lo']\n[] ['lo']"


def test_a_forwarder_that_cannot_start_is_an_error_in_words(isolated):
    code = """
from ends import *
from pytest_ipperf.core.portable.errors import LabError
changes = Changes()
with contextlib.ExitStack() as stack:
    try:
        create_tunnel("userspace", TunnelEndpoint("tunnel", "ipperf-6in4", "192.0.2.1", FAR, ()), changes, stack)
    except LabError as error:
        print(error)
print(changes.undo(), devices())
"""
    said = "the forwarder of ipperf-6in4 did not start: OSError: [Errno 99] Cannot assign requested address"
    assert isolated(code) == f"{said}\n[] ['lo']"


def test_what_is_missing_is_told_in_words(monkeypatch):
    monkeypatch.setattr(userspace, "program", lambda _: "")
    assert userspace.backend.missing() == "ip is not installed (Debian: apt-get install iproute2)"
    monkeypatch.setattr(userspace, "program", lambda name: f"/usr/sbin/{name}")

    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(socket, "socket", refuse)
    said = "packet and raw sockets are refused (Operation not permitted); it works as root or in a user namespace"
    assert userspace.backend.missing() == said


def test_only_the_slow_backend_asks_for_a_rate():
    assert [name for name in BACKENDS if BACKENDS[name].needs_rate] == ["userspace"]


def test_what_real_hosts_use_is_tried_first():
    assert preferred() == ("kernel", "ebpf", "userspace")
    assert sorted(each.rank for each in BACKENDS.values()) == list(range(len(BACKENDS)))
