"""What tunnels put on the wire, and what they take from it: as RFC 4213 and RFC 5214 have it, whatever carries them.

The client's address in the ISATAP site, and the router's on the client's link, are in hexadecimal here: `c612:1` is
198.18.0.1, as it is in interface identifiers.
"""

from __future__ import annotations

import json
import os
import re

import pytest

from pytest_ipperf.transports.base import CLIENT, ROUTER, SERVER
from tests.support.pings import ping, whole
from tests.system.paths.arms import FROM, ISATAP, LAB, TO, TUNNEL, every, tunnelled
from tests.system.paths.conftest import Elsewhere

ISATAP_DEVICE = LAB.path(ISATAP).devices[CLIENT]
CAPTURED = 400


def pings(paths, role, address, *options, count=1):
    """Return the output of pings that a node sends."""
    return paths.run(role, *ping(address, *options, count=count))


def transfer(paths, arm, *options):
    """What iperf3 tells of 2 MB to the server."""
    with paths.started(SERVER, "iperf3", "-s", "-1", "--forceflush", ready="listening on"):
        return json.loads(paths.run(CLIENT, "iperf3", "-c", TO[arm], "-n", "2M", "-J", *options))


@pytest.fixture(scope="module")
def packets(paths):
    """By arm: the first packets of a TCP connection between the client and the router, as tcpdump tells them."""
    found = {}
    for arm in () if isinstance(paths, Elsewhere) else (TUNNEL, ISATAP):
        with paths.captured(ROUTER, "eth0", CAPTURED, "tcp or (ip proto 41 and ip[26] == 6)") as found[arm]:
            transfer(paths, arm)
    return found


@every
def test_the_server_answers_on_every_path(paths, arm):
    assert whole(pings(paths, CLIENT, TO[arm], count=3), 3)


# --- what is on the wire ----------------------------------------------------------------------------------------------


@tunnelled
def test_all_of_a_connection_travels_as_protocol_41(packets, arm):
    assert sum("proto IPv6 (41)" in each and "next-header TCP (6)" in each for each in packets[arm]) == CAPTURED


@tunnelled
def test_the_inner_checksums_are_right(packets, arm):
    assert sum("(correct)" in each for each in packets[arm]) == CAPTURED


@tunnelled
def test_the_outer_checksums_are_right(packets, arm):
    assert not [each for each in packets[arm] if "bad cksum" in each]


@tunnelled
def test_the_largest_outer_packet_has_1500_bytes(packets, arm):
    assert (
        max(int(length) for each in packets[arm] for length in re.findall(r"proto IPv6 \(41\), length (\d+)", each))
        == 1500
    )


@tunnelled
def test_the_client_offers_a_segment_size_of_1420(packets, arm):
    offers = [each for each in packets[arm] if "Flags [S]," in each]
    assert offers
    assert all("mss 1420," in each for each in offers)


@tunnelled
def test_the_outer_header_says_dont_fragment_and_64_hops(packets, arm):
    assert all("offset 0, flags [DF]," in each for each in packets[arm])
    sent = [each for each in packets[arm] if re.search(r"\n +198\.18\.0\.1 > ", each)]
    assert sent
    assert all("ttl 64," in each for each in sent)


def test_isatap_finds_the_outer_destination_in_the_interface_identifier(packets):
    """RFC 5214, section 6.1: the router sends to the IPv4 address that is in the client's IPv6 address."""
    back = [each for each in packets[ISATAP] if f"> {FROM[ISATAP]}." in each]
    assert back
    assert all("198.18.0.2 > 198.18.0.1: IP6" in each for each in back)


def test_behind_the_isatap_router_there_is_native_ipv6(paths):
    with paths.captured(ROUTER, "eth1", 2, "proto 41 or icmp6[0] == 128 or icmp6[0] == 129") as seen:
        assert whole(pings(paths, CLIENT, TO[ISATAP]))
    assert [bool(re.match(r"\S+ IP6 .* ICMP6, echo re(quest|ply),", each)) for each in seen] == [True] * 2, seen


# --- sizes ------------------------------------------------------------------------------------------------------------


def test_a_packet_of_1480_bytes_passes(paths):
    assert whole(pings(paths, CLIENT, TO[TUNNEL], "-M", "do", "-s", "1432"))


def test_one_of_1481_is_refused(paths):
    said = pings(paths, CLIENT, TO[TUNNEL], "-M", "do", "-s", "1433")
    assert re.search("message too long, mtu[:=] ?1480", said), said


def too_big(paths):
    """Pings to the client of which the router has to say that they are too big for the ISATAP site."""
    paths.run(SERVER, "ip", "-6", "route", "flush", "cache")
    return pings(paths, SERVER, FROM[ISATAP], "-M", "do", "-s", "1452", count=2)


def test_the_isatap_router_says_packet_too_big(paths):
    said = too_big(paths)
    assert re.search("From 2001:2:0:12::2 .*Packet too big: mtu=1480", said), said


def test_the_server_keeps_that(paths):
    too_big(paths)
    assert "mtu 1480" in paths.run(SERVER, "ip", "-6", "route", "get", FROM[ISATAP])


@tunnelled
def test_a_ping_of_4000_bytes_goes_and_comes_in_fragments(paths, arm):
    too_big(paths)  # so that the server knows how large its fragments may be
    said = pings(paths, CLIENT, TO[arm], "-s", "4000", count=2)
    assert whole(said, 2), said


# --- routers ----------------------------------------------------------------------------------------------------------


def test_a_hop_limit_of_one_ends_at_the_isatap_router_which_says_so_through_the_tunnel(paths):
    said = pings(paths, CLIENT, TO[ISATAP], "-t", "1")
    assert re.search("From 2001:2:0:5e:0:5efe:c612:2 .*Time exceeded: Hop limit", said), said


def test_the_isatap_router_answers_by_its_link_local_address(paths):
    assert whole(pings(paths, CLIENT, f"fe80::5efe:c612:2%{ISATAP_DEVICE}"))


@tunnelled
def test_datagrams_arrive_as_they_were_sent(paths, arm):
    asked = (TO[arm], "50", "1400")  # few enough for any queue on the way
    source = paths.source("datagrams.py")
    with paths.started(SERVER, paths.user.python, "-c", source, "take", *asked, ready="ready") as taking:
        paths.run(CLIENT, paths.user.python, "-c", source, "send", *asked)
        assert taking.stdout.read() == "50\n"


# --- senders ----------------------------------------------------------------------------------------------------------


def echoes(paths):
    """Echo requests that the client has been given until now."""
    return int(re.findall(r"Icmp6InEchos\s+(\d+)", paths.run(CLIENT, "cat", "/proc/net/snmp6"))[0])


def arrived(paths, arm, role, *addresses):
    """How many echo requests the client is given when a node sends one of its own making, and the server one after.

    All come by the client's one link, where nothing overtakes what the same processor has sent; so the last to come
    tells that no other will.
    """
    before, bound = echoes(paths), ("taskset", "--cpu-list", str(min(os.sched_getaffinity(0))))
    assert not paths.run(role, *bound, paths.user.python, "-c", paths.source("forged.py"), *addresses)
    assert whole(paths.run(SERVER, *bound, *ping(FROM[arm], interval_s=60)))  # a second one would be counted too
    return echoes(paths) - before - 1


def test_what_the_peer_sends_gets_in(paths):
    """It shows that what is forged below would be taken if its source were right."""
    assert arrived(paths, TUNNEL, SERVER, "198.18.1.1", "198.18.0.1", TO[TUNNEL], FROM[TUNNEL]) == 1


def test_what_another_host_sends_in_the_peers_name_does_not(paths):
    """RFC 4213, section 3.6: a packet whose outer source is not the tunnel's other end is dropped."""
    assert arrived(paths, TUNNEL, ROUTER, "198.18.1.2", "198.18.0.1", TO[TUNNEL], FROM[TUNNEL]) == 0


def test_a_false_interface_identifier_does_not(paths):
    """RFC 5214, section 7.3: the outer source has to be in the inner one, or to be a potential router."""
    forged = "2001:2:0:5e:0:5efe:c612:5"
    assert arrived(paths, ISATAP, ROUTER, "198.18.1.2", "198.18.0.1", forged, FROM[ISATAP]) == 0
