"""Our ends and those of the kernel's own driver on one wire: the client is a machine with a kernel of its own.

It takes the place of the lab's client on the client's port, and its tunnels are made as an administrator makes them,
by `ip tunnel`, without any part of the project.
"""

from __future__ import annotations

import json

import pytest

from pytest_ipperf.transports.base import CLIENT, ROUTER, SERVER
from tests.support.hosts.uml_guest import Guest, missing
from tests.support.pings import ping, whole
from tests.system.paths.arms import FROM, ISATAP, LAB, TO, TUNNEL, every, tunnelled
from tests.system.paths.conftest import live_lab

AWAY = """
ip addr flush dev eth0
echo 1 >/proc/sys/net/ipv6/conf/eth0/disable_ipv6
"""
MADE = f"""
set -e
echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad
echo 0 >/proc/sys/net/ipv6/conf/vec0/accept_dad
ip link set vec0 up
ip addr add 198.18.0.1/24 dev vec0
ip addr add 2001:2:0:10::1/64 dev vec0
ip route add 198.18.1.0/24 via 198.18.0.2
ip -6 route add 2001:2:0:11::/64 via 2001:2:0:10::2
ip tunnel add ours mode sit local 198.18.0.1 remote 198.18.1.1 ttl 64
ip link set ours up
ip -6 addr add {FROM[TUNNEL]}/64 dev ours
ip tunnel add site mode isatap local 198.18.0.1 ttl 64
ip tunnel prl dev site prl-default 198.18.0.2
ip link set site up
ip -6 addr add {FROM[ISATAP]}/64 dev site
ip -6 route add 2001:2:0:12::/64 via fe80::5efe:c612:2 dev site
while ip -6 addr show tentative | grep -q inet6; do sleep 0.05; done
"""
CAPTURED, PINGS = 1000, 3
TRANSFER_S, TIMED_OUT = 30, 124


@pytest.fixture(scope="module", params=["ebpf", "userspace"])
def paths(request, me):
    """A lab whose router and server have our ends, and whose client has none."""
    if why := missing():
        pytest.skip(why)
    with live_lab(request.param, me, CLIENT) as lab:
        yield lab


@pytest.fixture(scope="module")
def client(paths):
    """The machine that is the client."""
    assert not paths.run(CLIENT, "sh", "-ec", AWAY)
    with Guest(["vec0:transport=raw,ifname=eth0,depth=128,gro=1"], paths.entries[CLIENT]) as guest:
        made = guest.sh(MADE)
        assert made.returncode == 0, made.stderr
        yield guest


def from_client(client, address, *options):
    """Return the output of pings of an address by the driver's machine."""
    return client.run(ping(address, *options, count=PINGS)).stdout


def answered(output):
    assert whole(output, PINGS), output
    return True


@every
def test_the_drivers_pings_are_answered(client, arm):
    assert answered(from_client(client, TO[arm]))


@tunnelled
def test_the_driver_answers_pings(paths, client, arm):
    assert answered(paths.run(SERVER, *ping(FROM[arm], count=PINGS)))


@tunnelled
def test_fragments_are_put_together_at_both_ends(client, arm):
    from_client(client, TO[arm], "-s", "4000")  # which tells the server how large its own may be
    assert answered(from_client(client, TO[arm], "-s", "4000"))


def test_the_isatap_router_answers_the_driver_by_its_link_local_address(client):
    assert answered(from_client(client, "fe80::5efe:c612:2%site"))


def test_the_driver_answers_the_isatap_router_by_its_own(paths, client):
    device = LAB.path(ISATAP).devices[ROUTER]
    assert answered(paths.run(ROUTER, *ping(f"fe80::5efe:c612:1%{device}", count=PINGS)))


@pytest.mark.parametrize("back", [False, True], ids=["to the server", "to the client"])
@tunnelled
def test_a_megabyte_arrives_with_right_checksums_all_the_way(paths, client, arm, back):
    argv = ["timeout", str(TRANSFER_S), "iperf3", "-c", TO[arm], "-n", "4M", "-J", *["-R"] * back]
    # Of some hundreds of transfers one did not end, within a minute.
    for _ in range(3):
        # TCP alone, as devices report their multicast groups when they like.
        watched = paths.captured(ROUTER, "eth0", CAPTURED, "ip proto 41 and ip[26] == 6")
        served = paths.started(SERVER, "iperf3", "-s", "-1", "--forceflush", ready="listening on")
        with watched as packets, served:
            done = client.run(argv)
        if done.returncode != TIMED_OUT:
            break
    reported = json.loads(done.stdout)
    assert (
        reported["end"]["sum_received"]["bytes"] > 1 << 20
    )  # what is still under way at the end, iperf3 does not count
    assert len(packets) == CAPTURED
    wrong = [each for each in packets if "bad cksum" in each or "incorrect" in each or "(correct)" not in each]
    assert not wrong, wrong[:3]
