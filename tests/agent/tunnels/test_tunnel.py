"""Tunnel endpoints and further routes: nothing of others is touched, and advertised routes are kept.

Carrying packets is tested with each backend; these tests are for their common part.
"""

from __future__ import annotations

import ast
import textwrap

import pytest

UP = """
for each in all default; do echo 1 > /proc/sys/net/ipv6/conf/$each/addr_gen_mode; done
ip link set lo up; ip link add va type veth peer name vb; ip link set va up; ip link set vb up
ip addr add 192.0.2.1/24 dev va; ip addr add 2001:db8::1/64 dev va nodad
"""
HOST = """
import contextlib, os, socket, struct, subprocess, sys, time
from pathlib import Path
from pytest_ipperf.agent.tunnels.backends.base import Backend
from pytest_ipperf.agent.tunnels import tunnel
from pytest_ipperf.agent.host_state.changes import Changes
from pytest_ipperf.agent.host_state.snapshot import snapshot
from pytest_ipperf.agent.tunnels.tunnel import add_routes, create_tunnel
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.transports.base import TunnelEndpoint, HostRoutes

CONF = Path("/proc/sys/net/ipv6/conf")

class Plain(Backend):
    '''A device and nothing behind it, where no driver for tunnels can be had.'''

    def missing(self):
        return ""

    def up(self, end, changes, stack):
        changes.run(["ip", "link", "add", end.device, "type", "ifb"], ["ip", "link", "del", end.device])
        changes.run(["ip", "link", "set", end.device, "mtu", str(end.mtu), "up"], None)

tunnel.BACKENDS = {"plain": Plain()}
def end(hop="2001:2:0:41::9"):
    routes = (("2001:2:0:12::/64", hop),)
    return TunnelEndpoint("tunnel", "ipperf-6in4", "192.0.2.1", "192.0.2.2", ("2001:2:0:41::1/64",), routes)

def sh(text):
    return subprocess.run(["sh", "-ec", text], check=True, capture_output=True, text=True).stdout

def why(do, *arguments):
    try:
        do(*arguments, changes, *[contextlib.ExitStack()] * (do is create_tunnel))
    except LabError as error:
        return str(error)

def rollback_helper():
    own = os.stat("/proc/self/ns/net").st_ino
    for found in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            named = (found / "cmdline").read_bytes().endswith(b"\\0pytest-ipperf-rollback\\0")
            if named and os.stat(found / "ns/net").st_ino == own:
                return int(found.name)

changes, before = Changes(), snapshot()
"""
ADVERTISE = """
def advertise(device):
    '''What a router does that is the default router for half an hour (RFC 4861, section 4.2).'''
    network = socket.inet_pton(socket.AF_INET6, "2001:db8:5::")
    prefix = struct.pack("!BBBBIII16s", 3, 4, 64, 0xC0, 3600, 1800, 0, network)
    with socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6) as sock:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, socket.if_nametoindex(device))
        sock.sendto(struct.pack("!BBHBBHII", 134, 0, 0, 64, 0, 1800, 0, 0) + prefix, ("ff02::1", 0))

def learned():
    return sh("ip -6 route show default proto ra").strip().partition(" metric")[0]

def learn():
    '''From a router at the other end of the link, in a network of its own.'''
    router = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec cat"], stdin=-1, stdout=-1)
    router.stdout.readline()
    sh(f"ip link set vb netns {router.pid}; ip addr add fe80::1/64 dev va nodad; echo 1 > {CONF}/va/accept_ra")
    enter = ["nsenter", f"--net=/proc/{router.pid}/ns/net"]
    subprocess.run([*enter, "sh", "-ec", "ip addr add fe80::9/64 dev vb nodad; ip link set vb up"], check=True)
    process = subprocess.Popen([*enter, sys.executable, "-c", CODE], stdin=-1)
    end = time.monotonic() + 20
    while not learned() and time.monotonic() < end:
        time.sleep(0.01)
    process.communicate()
    return router
"""


@pytest.fixture(autouse=True)
def _own_run_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("IPPERF_RUN", str(tmp_path / "run"))


@pytest.fixture
def host(isolated):
    """Run code on a new host; return the value that it printed last, or every one."""

    def run(code, up=UP, *, every=False):
        printed = [ast.literal_eval(line) for line in isolated(HOST + textwrap.dedent(code), up).splitlines()]
        return printed if every else printed[-1]

    return run


def test_an_end_has_its_addresses_at_once_and_its_routes(host):
    found = host("""
        with contextlib.ExitStack() as stack:
            create_tunnel("plain", end(), changes, stack)
        addresses = sh("ip -6 -br addr show dev ipperf-6in4").split()[2:]
        routes = sh("ip -6 route show dev ipperf-6in4").splitlines()
        print([addresses, sh("ip -6 addr show tentative"), routes, changes.undo(), snapshot() == before])
    """)
    assert found[:2] == [["2001:2:0:41::1/64"], ""]
    assert "2001:2:0:12::/64 via 2001:2:0:41::9 metric 1024 pref medium" in found[2]
    assert found[3:] == [[], True]


@pytest.mark.parametrize(
    ("standing", "words"),
    [
        (
            "ip link add ipperf-6in4 type ifb",
            "device ipperf-6in4 exists already and is not ours; remove it: ip link del ipperf-6in4",
        ),
        (
            "ip addr add 2001:2:0:41::1/128 dev vb nodad",
            "address 2001:2:0:41::1 exists already on device vb and is not ours; give the testbed others",
        ),
    ],
)
def test_what_stands_in_its_place_is_named_and_left_alone(host, standing, words):
    found = host(f"""
        sh({standing!r})
        before = snapshot()
        print([why(create_tunnel, "plain", end()), changes.undo(), snapshot() == before])
    """)
    assert found == [words, [], True]


def test_an_end_that_fails_half_way_is_undone_as_a_whole(host):
    found = host("""
        print([why(create_tunnel, "plain", end("::9")), changes.undo(), snapshot() == before])
    """)
    assert found == [
        "ip -6 route add 2001:2:0:12::/64 via ::9 dev ipperf-6in4: RTNETLINK answers: No route to host", [], True
    ]  # fmt: skip


# Changes of a host, and those of a lab's node.
MAKERS = pytest.mark.parametrize("maker", ["Changes()", "UnmanagedChanges()"])


@MAKERS
def test_of_an_end_that_fails_nothing_is_left_in_the_way_of_the_next_try(host, maker):
    found = host(f"""
        from pytest_ipperf.agent.host_state.unmanaged_changes import UnmanagedChanges
        changes, closed = {maker}, []
        class Held(Plain):
            def up(self, end, changes, stack):
                super().up(end, changes, stack)
                stack.callback(lambda: closed.append(socket.if_nametoindex(end.device)))
        tunnel.BACKENDS["held"] = Held()
        with contextlib.ExitStack() as stack:
            for hop in ("::9", "::9", "2001:2:0:41::9"):
                try:
                    create_tunnel("held", end(hop), changes, stack)
                    result = ""
                except LabError as error:
                    result = str(error).rpartition(": ")[2]
                print([result, len(closed), "device ipperf-6in4" in snapshot()])
        print([len(closed), changes.undo(), snapshot() == before])
    """, every=True)  # fmt: skip
    assert found == [
        ["No route to host", 1, False],
        ["No route to host", 2, False],
        ["", 2, True],
        [3, [], maker == "Changes()"],
    ]


@MAKERS
def test_of_a_leg_that_fails_nothing_is_left_in_the_way_of_the_next_try(host, maker):
    found = host(f"""
        from pytest_ipperf.agent.host_state.unmanaged_changes import UnmanagedChanges
        changes = {maker}
        leg = HostRoutes("192.0.2.9", ("2001:2::1/64",), (("2001:2:1::/64", "2001:2::2"), ("2001:2:2::/64", "::9")))
        print([why(add_routes, leg), why(add_routes, leg), snapshot() == before, changes.undo()])
    """)
    words = "ip -6 route add 2001:2:2::/64 via ::9 dev va: RTNETLINK answers: No route to host"
    assert found == [words, words, True, []]


@pytest.mark.parametrize("killed", [False, True])
def test_what_has_been_undone_at_once_is_not_undone_again(host, killed):
    """Somebody may have made the same since."""
    found = host(f"""
        leg = HostRoutes("192.0.2.9", ("2001:2::1/64",), (("2001:2:2::/64", "::9"),))
        changes.write("net/ipv6/conf/va/hop_limit", "33")
        why(add_routes, leg)
        sh("ip addr add 2001:2::1/64 dev va nodad")
        if {killed}:
            os.kill(rollback_helper(), 9)
            while changes._pipe.alive():
                time.sleep(0.01)
        print([changes.undo(), sh("ip -6 -br addr show dev va").split()[2:], (CONF / "va/hop_limit").read_text()])
    """)
    assert found[0][0] == "address 2001:2::1/64 of device va is still there"
    assert found[1:] == [["2001:2::1/64", "2001:db8::1/64"], "64\n"]


@MAKERS
def test_an_end_has_ipv6_also_where_new_devices_have_none(host, maker):
    found = host(
        f"""
        from pytest_ipperf.agent.host_state.unmanaged_changes import UnmanagedChanges
        changes = {maker}
        with contextlib.ExitStack() as stack:
            create_tunnel("plain", end(), changes, stack)
            given = sh("ip -6 -br addr show dev ipperf-6in4").split()[2:]
        print([given, (CONF / "default/disable_ipv6").read_text(), changes.undo()])
        """,
        UP + "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6",
    )
    assert found == [["2001:2:0:41::1/64"], "1\n", []]


def test_a_leg_is_laid_on_the_device_towards_its_host(host):
    found = host("""
        add_routes(HostRoutes("192.0.2.9", ("2001:2:0:12::1/64",), (("2001:2:0:5e::/64", "2001:2:0:12::2"),)), changes)
        during = sorted({*snapshot()} - {*before})
        print([during, sh("ip -6 addr show tentative"), changes.undo(), snapshot() == before])
    """)
    assert found == [
        [
            "address 2001:2:0:12::1/64 of device va",
            "route 2001:2:0:12::/64 dev va proto kernel metric 256",
            "route 2001:2:0:5e::/64 via 2001:2:0:12::2 dev va metric 1024",
        ],
        "",
        [],
        True,
    ]


@pytest.mark.parametrize(
    ("up", "leg", "words"),
    [
        ("", 'HostRoutes("203.0.113.1")', "no route to 203.0.113.1: Network is unreachable"),
        (
            "",
            'HostRoutes("192.0.2.9", ("2001:db8::1/64",))',
            "address 2001:db8::1 exists already on device va and is not ours; give the testbed others",
        ),
        (
            "echo 1 > /proc/sys/net/ipv6/conf/va/disable_ipv6",
            'HostRoutes("192.0.2.9", ("2001:2::1/64",))',
            "device va has IPv6 switched off: set net.ipv6.conf.va.disable_ipv6 to 0",
        ),
        (
            "ip -6 route add 2001:2:1::/64 dev va",
            'HostRoutes("192.0.2.9", ("2001:2::1/64",), (("2001:2:1::/64", "2001:2::2"),))',
            "ip -6 route add 2001:2:1::/64 via 2001:2::2 dev va: RTNETLINK answers: File exists",
        ),
    ],
)
def test_a_leg_that_cannot_be_laid_says_why_and_changes_nothing(host, up, leg, words):
    found = host(f"print([why(add_routes, {leg}), changes.undo(), snapshot() == before])", UP + up)
    assert found == [words, [], True]


@pytest.fixture
def advertised(host):
    """Return `host` with `learn()`."""
    sender = ADVERTISE.partition("def learned")[0]
    lines = f'import socket, struct\n{sender}\nadvertise("vb")\n'
    return lambda code: host(f"{ADVERTISE}\nCODE = {lines!r}\nrouter = learn()\n" + textwrap.dedent(code))


def test_a_host_that_is_to_forward_keeps_what_routers_have_told_it(advertised):
    found = advertised("""
        before, default = snapshot(), learned()
        add_routes(HostRoutes("192.0.2.9", forwards=True), changes)
        settings = [(CONF / each).read_text().strip() for each in ("all/forwarding", "va/accept_ra")]
        print([default, [learned() == default, *settings], changes.undo(), snapshot() == before])
    """)
    assert found == ["default via fe80::9 dev va", [True, "1", "2"], [], True]


def test_what_a_host_forgets_when_it_forwards_is_told(advertised):
    found = advertised("""
        changes.write("net/ipv6/conf/all/forwarding", "1")
        print([learned(), changes.undo()])
    """)
    assert found == ["", ["route default via fe80::9 dev va proto ra metric 1024 with hoplimit 64 is missing"]]


def test_a_host_that_forwards_anyway_is_left_alone(host):
    found = host("""
        sh("echo 1 > /proc/sys/net/ipv6/conf/all/forwarding")
        before = snapshot()
        add_routes(HostRoutes("192.0.2.9", forwards=True), changes)
        print([snapshot() == before, (CONF / "va/accept_ra").read_text().strip(), changes.undo()])
    """)
    assert found == [True, "1", []]
