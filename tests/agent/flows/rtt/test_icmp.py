"""Echo requests: their checksums, and who may send them."""

from __future__ import annotations

import ast
import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.agent.flows.rtt.icmp import EchoRequest
from tests.support.needs import needs


def checksum(packet):
    """Return the checksum word by word, as RFC 1071 defines it."""
    total = 0
    for at in range(0, len(packet), 2):
        total += int.from_bytes(packet[at : at + 2].ljust(2, b"\0"), "big")
        total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF - total


@given(
    st.integers(0, 2**40),
    st.integers(32, 200),
    st.lists(st.one_of(st.integers(0, 2**32 - 1), st.sampled_from([0xFFFF, 0x10000, 0xFFFF0000])), min_size=1),
)
def test_the_checksum_is_right_whichever_number_follows_which(ident, payload_bytes, numbers):
    request = EchoRequest(ident, payload_bytes, six=False, raw=True)
    for number in numbers:
        request.set_number(number)
        packet = bytes(request.message)
        assert checksum(packet[:2] + bytes(2) + packet[4:]) == int.from_bytes(packet[2:4], "big")
        assert (len(packet), packet[:2], packet[4:8]) == (
            8 + payload_bytes,
            b"\x08\0",
            (ident & 0xFFFF).to_bytes(2, "big") + (number & 0xFFFF).to_bytes(2, "big"),
        )
        reply = bytes(20) + packet
        assert request.is_reply(reply, number)
        assert not request.is_reply(reply, number ^ 1)
        assert not EchoRequest(ident ^ 1, payload_bytes, six=False, raw=True).is_reply(reply, number)


@pytest.mark.parametrize("size", [32, 33, 1400, 65499])
def test_of_any_size(size):
    request = EchoRequest(0xFEDCBA, size, six=False, raw=True)
    request.set_number(0xABCDEF)
    packet = bytes(request.message)
    assert checksum(packet) == 0


@pytest.mark.parametrize(("six", "raw", "kind"), [(False, False, 8), (True, False, 128), (True, True, 128)])
def test_where_the_kernel_sums_there_is_no_checksum(six, raw, kind):
    request = EchoRequest(1, 64, six=six, raw=raw)
    request.set_number(7)
    assert request.message[:8] == bytes([kind, 0, 0, 0, 0, 1, 0, 7])


@needs("tcpdump")
def test_the_packets_are_right_on_the_wire(isolated):
    """So are those that the kernel makes for a device without checksum offload."""
    code = """
import re, subprocess
from rtt_ends import Pair
from pytest_ipperf.agent.kernel.ethtool import set_offloads
with Pair() as pair:
    set_offloads("eth0", {"tx-checksum": False})
    watch = subprocess.Popen(["tcpdump", "-i", "eth0", "-nvvUl", "--immediate-mode", "icmp or icmp6"],
                             stdout=-1, stderr=-1, text=True)
    watch.stderr.readline()
    sent = sum(pair.run(v, "icmp", "application", size)[0].attempted for v in (4, 6) for size in (32, 1401))
    said = ""
    while said.count("echo reply") < sent:
        said += watch.stdout.readline()
    watch.terminate()
    watch.communicate()
wrong = re.findall(r".*(?<!:)\\b(?:wrong|bad)\\b(?!:).*", said)  # but for an address with 0xbad in it
print([sent, said.count("echo request") >= sent, wrong, said.count("icmp6 sum ok") > 4])
"""
    sent, *found = ast.literal_eval(isolated(code))
    assert sent >= 4
    assert found == [True, [], True]


UNPRIVILEGED = """
import codecs, os
from pathlib import Path
from pytest_ipperf.agent.flows.engines.rtt import engine
from pytest_ipperf.core.portable.errors import LabError
from rtt_ends import spec, rows
Path("/proc/sys/net/ipv4/ping_group_range").write_text("{groups}")
codecs.lookup("ascii")  # from where this user may not read
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
report = []
try:
    for address in ("127.0.0.1", "::1"):
        for waiting in ("path", "application", "wire"):
            for size in (32, 65499):
                one = spec(address, address, "icmp", waiting, size)
                near = engine.near(one, lambda: None)
                whole = near.attempted == len(rows(near)) > 0 and near.peers == {{address: near.attempted}}
                report.append((near.detail["socket"], whole))
except LabError as error:
    report = str(error)
print(repr(report))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root, to be somebody else")
def test_who_is_nobody_pings_if_the_host_lets_everybody(isolated):
    report = ast.literal_eval(isolated(UNPRIVILEGED.format(groups="0 2147483647")))
    assert report == [("ping", True)] * 12


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root, to be somebody else")
def test_who_may_not_ping_is_told_what_to_do(isolated):
    report = ast.literal_eval(isolated(UNPRIVILEGED.format(groups="1 0")))
    assert re.fullmatch(
        r"no ICMP echo can be sent here: a raw socket takes CAP_NET_RAW, and a ping socket a group within "
        r"net\.ipv4\.ping_group_range, which is '1 0'; be root, or set it to '0 2147483647'",
        report,
    )
