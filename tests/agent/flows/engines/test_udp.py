"""The UDP engine between real hosts, counted against tcpdump on both of them."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import json
import math
import re
import socket
import struct
from array import array

import pytest

from pytest_ipperf.agent.flows.engines import ENGINES
from pytest_ipperf.agent.flows.spec import FlowReport, FlowSpec, SenderClock
from pytest_ipperf.agent.flows.udp import sockets
from pytest_ipperf.agent.paths import clock_exchange
from pytest_ipperf.agent.sockets import batch_io
from pytest_ipperf.core.measurement.run_data import RunData
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.metrics import METRICS
from tests.support.needs import require

USED = """
import json, os, subprocess, sys, tempfile
from udp_ends import *
"""
COUNTED = (
    USED
    + """
found = []
with tempfile.TemporaryDirectory() as folder, Routed() as hosts:
    for ipver, rate, ways in ((4, 2e7, 0), (6, 5e7, 0), (4, 2e7, 1)):
        if ways:
            run("ip route replace blackhole 198.18.0.2", hosts.router)
        else:
            run("tc qdisc replace dev right root tbf rate 30mbit burst 16kb limit 30000", hosts.router)
        wires = [Wire(f"{folder}/{end}", end, enter) for end, enter in (("near", ()), ("far", hosts.enter))]
        near, far = hosts.flow(ipver=ipver, rate=rate, run_s=0.3)
        left, came = [wire.numbers(spec_of().ident) for wire in wires]
        found.append({
            "sent": near.facts["sent"], "left": len(left), "unique": far.facts["unique"], "came": len(set(came)),
            "copies": len(came) - len(set(came)), "duplicates": far.facts["duplicates"],
            "rows": sorted(row[0] for row in rows(far)) == sorted(came),
            "failed": far.failed, "attempted": far.attempted, "notes": [*near.notes, *far.notes],
        })
print(json.dumps(found))
"""
)


@pytest.fixture
def watched(isolated, own_network):
    """Return `isolated` with tcpdump."""
    if "--user" in own_network:
        pytest.skip("tcpdump needs root")
    require("tcpdump")
    return isolated


def test_it_counts_what_passed_the_wires_at_any_loss(watched):
    """Below the bottleneck, above it, and with a router that drops everything."""
    for number, found in enumerate(json.loads(watched(COUNTED))):
        assert found["sent"] == found["left"]
        assert found["unique"] == found["came"]
        assert found["duplicates"] == found["copies"]
        assert found["rows"]
        assert found["attempted"] == found["sent"]
        assert found["failed"] == {"lost": found["sent"] - found["unique"]}
        if number == 1:
            assert 0 < found["unique"] < 0.9 * found["sent"]
        if number == 2:
            assert found["unique"] == 0
            assert found["notes"][-1:] == [f"none of {found['sent']} datagrams arrived"]


FRAGMENTED = (
    USED
    + """
found, names = [], {4: "ipv4/ipfrag", 6: "ipv6/ip6frag"}

def limit(what, value):
    for name in names.values():
        subprocess.run([*hosts.enter, "sh", "-c", f"echo {value} > /proc/sys/net/{name}_{what}"], check=True)

with tempfile.TemporaryDirectory() as folder, Routed() as hosts:
    limit("time", 1)
    for ipver, ways in ((4, "overload"), (6, "overload"), (4, "no room"), (6, "no room")):
        # Without a warm-up the queue is empty when the run begins, and has room for its first two dozen datagrams. Of a
        # queue for a few packets, the fragment that finds no room may be one of each datagram.
        warmup_s = 0.0 if ways == "overload" else 0.05
        if ways == "overload":
            run("tc qdisc replace dev right root tbf rate 20mbit burst 16kb limit 200000", hosts.router)
        else:
            time.sleep(1.5)  # what the overload has left there is gone
            limit("low_thresh", 4000)
            limit("high_thresh", 4000)
            run("tc qdisc replace dev right root tbf rate 1gbit burst 64kb limit 3000000", hosts.router)
        wires = [FragmentWire(f"{folder}/{end}", end, enter) for end, enter in (("near", ()), ("far", hosts.enter))]
        near, far = hosts.flow(ipver=ipver, rate=1.2e8, run_s=0.3, warmup_s=warmup_s, payload_bytes=8192)
        left, came = [wire.numbers(spec_of().ident) for wire in wires]
        facts = ("unique", "receiver_drops", "lost_in_reassembly", "lost_on_path")
        found.append({
            "left": len(left), "came": len(came), "sent": near.facts["sent"] - near.facts["refused"],
            "notes": far.notes, **{name: far.facts[name] for name in facts},
        })
print(json.dumps(found))
"""
)


def test_of_fragmented_datagrams_it_tells_what_the_path_lost_from_what_reassembly_did(watched):
    """tcpdump sees all fragments of what the receiving host then has no room to put together."""
    found = json.loads(watched(FRAGMENTED))
    for each in found:
        assert each["sent"] == each["left"], each
        assert each["lost_on_path"] == each["left"] - each["came"], each
        assert each["receiver_drops"] == 0
        assert each["unique"] + each["lost_on_path"] + each["lost_in_reassembly"] == each["sent"], each
    for overloaded in found[:2]:
        assert 0 < overloaded["came"] == overloaded["unique"] < 0.9 * overloaded["left"]
    for full in found[2:]:
        assert full["came"] == full["left"]
        assert full["lost_in_reassembly"] == full["left"] - full["unique"] > 0
        assert full["notes"][-1].endswith(
            "so it bounds this figure (net.ipv4.ipfrag_high_thresh, net.ipv6.ip6frag_high_thresh)"
        )


FLOODED = (
    USED
    + """
from pathlib import Path

# What the processors had no room for in their queues of received packets (net.core.netdev_max_backlog).
def backlog_drops():
    return sum(int(line.split()[1], 16) for line in Path("/proc/net/softnet_stat").read_text().splitlines())

found = []
with Hosts() as hosts:
    for ipver, size in ((4, 32), (6, 1400), (4, 1453), (4, 8192), (6, 65507)):
        before = backlog_drops()
        near, far = hosts.flow(ipver=ipver, payload_bytes=size, rate="flood", run_s=0.05, warmup_s=0.02)
        dropped = far.facts["receiver_drops"] + backlog_drops() - before
        found.append((near.facts, far.facts, near.detail, far.detail, far.failed, len(far.samples), dropped))
print(json.dumps(found))
"""
)


def test_of_a_flood_every_segment_is_counted(isolated):
    """Also with a size that is no multiple of a word, and with one that is sent in fragments."""
    cut = {32: 128, 1400: 46, 1453: 45, 8192: 1, 65507: 1}
    for size, (near, far, sender, receiver, failed, kept, dropped) in zip(
        cut, json.loads(isolated(FLOODED)), strict=True
    ):
        assert near["segments"] == cut[size]
        assert sender["sent_by"] == (
            f"sendmmsg, UDP_SEGMENT x{cut[size]}" if cut[size] > 1 else f"sendmmsg x{min(64, 2**18 // size)}"
        )
        assert receiver["received_by"].startswith("recvmmsg")
        assert near["sent"] > 0
        assert near["offered_bit_s"] == 0
        assert near["sent_bit_s"] == pytest.approx(near["sent"] * 8 * size / near["seconds"])
        assert failed == {"lost": near["sent"] - far["unique"]}
        assert far["unique"] == near["sent"] or dropped
        assert far["duplicates"] == far["reordered"] == 0
        assert kept == 0


EVEN = (
    USED
    + """
found = []
with Hosts() as hosts:
    for ipver, size in ((4, 32), (6, 1400), (4, 65496), (6, 65496)):
        near, far = hosts.flow(ipver=ipver, payload_bytes=size, rate=size * 8e3, run_s=0.1, backlog_bytes=5 * size)
        sockets = (near.sources, near.peers, near.families)
        found.append((near.facts | far.facts, near.detail | far.detail, rows(far), *sockets))
print(json.dumps(found))
"""
)


def test_an_even_stream_is_of_the_rate_and_on_one_clock_on_one_machine(isolated):
    """From the smallest to the largest datagrams, whose fragments are reassembled."""
    cases = ((4, 32, 1), (6, 1400, 1), (4, 65496, 45), (6, 65496, 46))
    report = json.loads(isolated(EVEN))
    for (ipver, size, packets), (facts, detail, rows, sources, peers, families) in zip(cases, report, strict=True):
        assert 0 < facts["sent"] == facts["unique"] == 100 - facts["missed"]
        assert facts["duplicates"] == facts["reordered"] == facts["refused"] == facts["receiver_drops"] == 0
        assert facts["offered_bit_s"] == pytest.approx(1e3 * 8 * size)
        assert facts["sent_bit_s"] == pytest.approx(facts["sent"] * 8 * size / facts["seconds"])
        assert facts["segments"] == 1
        assert facts["clock_error_s"] == 0
        assert 0 <= facts["pacing_error_s"] <= facts["pacing_error_p99_s"]
        assert detail["datagram_packets"] == packets
        assert detail["qdisc"] == "noqueue"
        numbers = [row[0] for row in rows]
        assert numbers == sorted(set(numbers) & set(range(100)))
        assert len(numbers) == facts["sent"]
        assert rows[0][1] == 0
        for _, sent_s, received_s in rows:
            assert received_s > sent_s
        network = {4: "198.18.0.", 6: "2001:2::"}[ipver]
        assert sources == [f"{network}1"]
        assert peers == {f"{network}2": 1}
        assert families == [f"AF_INET{'6' * (ipver == 6)}"]


STOPPED = (
    USED
    + """
with Hosts() as hosts:
    for _ in range(10):  # on a busy machine it may be stopped too late
        spec = hosts.listen(spec_of(rate=2e7, run_s=1.0))
        stop = started(["sh", "-c", f"sleep 0.4; kill -STOP {os.getpid()}; sleep 0.3; kill -CONT {os.getpid()}"])
        near = hosts.near(spec)
        stop.wait()
        far = hosts.finish(near)
        if near.facts["missed"] > 0.25 * 2e7 / 8 / 1400:
            break
    print(json.dumps([near.facts | far.facts, far.attempted, far.failed, near.notes + far.notes, rows(far)]))
"""
)


def test_a_sender_that_was_stopped_sends_less_and_says_so(isolated):
    """Stopped for 0.3 s of a second: missed datagrams are neither lost nor sent in a burst, nor part of throughput."""
    facts, attempted, failed, notes, rows = json.loads(isolated(STOPPED))
    gap_s = 8 * 1400 / 2e7
    wanted = round(1 / gap_s)
    assert facts["missed"] > 0.25 / gap_s
    sent = wanted - facts["missed"]
    assert facts["sent"] == facts["unique"] == attempted == sent > 0
    assert failed == {"lost": 0}
    assert facts["seconds"] == pytest.approx(wanted * gap_s)
    assert facts["sent_bit_s"] == pytest.approx(2e7 * facts["sent"] / wanted)
    assert notes == [f"the sender was preempted and sent {sent} of {wanted} datagrams, so its host bounds this figure"]
    found = RunData(attempted=attempted, failed={}, columns=(), samples=array("d"), deadline_s=2.0, facts=facts)
    assert METRICS["throughput"].value(found) == pytest.approx(facts["sent_bit_s"], rel=0.01)
    assert all(sent_s - rows[0][1] >= (number - rows[0][0]) * gap_s - 0.006 for number, sent_s, _ in rows)
    assert len(rows) < rows[-1][0] + 1 - 0.25 / gap_s


OTHER_CLOCK = (
    USED
    + """
with Hosts("unshare", "--time", "--monotonic", "1234", "--fork") as hosts:
    near, far = hosts.flow(run_s=0.1)
    print(json.dumps([far.facts["clock_error_s"], near.sender_clock.clock_marks, rows(far)]))
"""
)


def test_another_hosts_clock_is_compared(isolated):
    error_s, marks, rows = json.loads(isolated(OTHER_CLOCK))
    assert len(marks) == 2
    assert all(abs(mark[1] - 1234) < 1 for mark in marks)
    assert 0 < error_s < 0.1
    delays = [received_s - sent_s for _, sent_s, received_s in rows]
    assert min(delays) > -error_s
    assert min(delays) < error_s + 0.1


REFUSED = (
    USED
    + """
from pytest_ipperf.agent.flows.udp import sockets as udp_sockets
udp_sockets._SEND_BYTES = 1
with tempfile.TemporaryDirectory() as folder, Hosts() as hosts:
    run("tc qdisc add dev near root tbf rate 1mbit burst 3000 limit 100000")
    wire = Wire(f"{folder}/far", "far", hosts.enter)
    near, far = hosts.flow(run_s=0.3)
    came = wire.numbers(spec_of().ident)
    print(json.dumps([near.facts, far.facts, len(came), near.notes]))
"""
)


def test_what_the_sending_host_has_no_room_for_is_lost_and_said(watched):
    near, far, came, notes = json.loads(watched(REFUSED))
    assert near["refused"] > 0
    assert far["unique"] == came == near["sent"] - near["refused"]
    assert notes[-1:] == [
        f"the sending host had no room for {near['refused']} of {near['sent']} datagrams, which count as lost"
    ]


NARROW = (
    USED
    + """
found = []
with Routed() as hosts:
    run("ip link set right mtu 1300", hosts.router)
    for ipver, rate in ((4, 1e7), (6, 1e7), (6, "flood")):
        run("ip route flush cache")
        run("ip -6 route flush cache")
        near, far = hosts.flow(ipver=ipver, rate=rate, run_s=0.05)
        found.append((near.facts["sent"], far.facts["unique"], far.facts["receiver_drops"], near.detail["sent_by"]))
print(json.dumps(found))
"""
)


def test_a_narrow_link_behind_the_first_makes_fragments_and_no_trouble(isolated):
    """A router reports that packets are too large, and the kernel reports that once."""
    *paced, flooded = json.loads(isolated(NARROW))
    for sent, unique, drops, _ in paced:
        assert 0 < sent == unique
        assert drops == 0
    sent, unique, _, how = flooded
    assert how.startswith("sendmmsg x64; UDP_SEGMENT x46: ")
    assert 0 < unique <= sent


DEAD = (
    USED
    + """
with Hosts() as hosts:
    spec = hosts.listen(spec_of(ipver=6, run_s=5.0))
    hosts.far.kill()
    hosts.far.wait()
    try:
        hosts.near(spec)
    except LabError as error:
        print(spec.far.port, error)
"""
)


def test_a_far_end_that_dies_is_trouble(isolated):
    port, _, said = isolated(DEAD).partition(" ")
    assert said == (
        f"nobody receives datagrams at 2001:2::2 port {port} any more: the far end of this run has died, or a firewall "
        "rejects them"
    )


@contextlib.contextmanager
def listening(rate=1e7, **given):
    """Return a far end in this process."""
    plain = {
        "engine": "udp", "ipver": 4, "source": "127.0.0.1", "address": "127.0.0.1", "ports": (21000, 21999),
        "connections": 1, "payload_bytes": 1400, "warmup_s": 0.02, "run_s": 0.1, "deadline_s": 2.0,
        "ident": 0x123456789, **given,
    }  # fmt: skip
    spec = FlowSpec(factors={"rate": rate}, **plain)
    with contextlib.closing(ENGINES["udp"].far(spec)) as far:
        yield dataclasses.replace(spec, far=far.listening), far


def rows_of(report):
    samples = array("d", report.samples)
    return list(zip(samples[::3], samples[1::3], samples[2::3], strict=True))


def nobody():
    """Do nothing as progress callback."""


def crafted(spec, *words):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for at, word in enumerate(words):
            sock.sendto(
                struct.pack("=QQ", word, 1000 * at).ljust(spec.payload_bytes, b"x"), ("127.0.0.1", spec.far.port)
            )
        sock.sendto(b"short", ("127.0.0.1", spec.far.port))


def test_copies_and_such_as_come_late_are_known_and_strays_are_not():
    mine, other = 0x23456789 << 32, 0x23456780 << 32
    run = mine | 1 << 31
    with listening() as (spec, far):
        crafted(spec, mine | 5, run, run | 2, run | 2, other | 1 << 31 | 3, run | 1, run | 4, run | 1, run | 3)
        report = far.finish(FlowReport(facts={"sent": 7}, sender_clock=SenderClock(began_ns=1000, clock_marks=[])))
    assert {name: report.facts[name] for name in ("unique", "duplicates", "reordered")} == {
        "unique": 5, "duplicates": 2, "reordered": 2
    }  # fmt: skip
    assert report.failed == {"lost": 2}
    rows = rows_of(report)
    assert [(row[0], row[1]) for row in rows] == [(0, 0.0), (2, 1e-6), (1, 4e-6), (4, 5e-6), (3, 7e-6)]
    assert [row[2] for row in rows] == sorted(row[2] for row in rows)


def test_what_the_receiving_host_has_no_room_for_is_said(monkeypatch):
    """A buffer for two or three datagrams, which is read a thousand times a second."""
    monkeypatch.setattr(sockets, "_RECEIVE_BYTES", 1)
    run = 0x23456789 << 32 | 1 << 31
    with listening() as (spec, far):
        far._receiver._note()  # as its first datagram would, if no stray were read in one batch with it
        crafted(spec, *range(run, run + 300))
        report = far.finish(FlowReport(facts={"sent": 300}, sender_clock=SenderClock(began_ns=0, clock_marks=[])))
    lost = report.failed["lost"]
    assert lost
    # Datagrams of no run, sent behind them, find no room either.
    assert report.facts["receiver_drops"] in (lost, lost + 1)
    assert (report.facts["lost_on_path"], report.facts["lost_in_reassembly"]) == (0, 0)
    assert report.notes == [
        f"the receiving host had no room for datagrams {report.facts['receiver_drops']} times, so it bounds this figure"
    ]


@pytest.mark.parametrize("rate", [1e7, "flood"])
def test_plain_calls_do_as_well(monkeypatch, rate):
    def missing(name, _extra_arguments):
        raise batch_io.UnsupportedError(f"{name}: none")

    monkeypatch.setattr(batch_io, "_libc_function", missing)
    with listening(rate=rate, run_s=0.05) as (spec, far):
        near = ENGINES["udp"].near(spec, nobody)
        report = far.finish(near)
    assert str(report.detail["received_by"]).startswith("recvmsg; ")
    assert str(near.detail["sent_by"]).startswith("send")
    assert near.facts["sent"] > 0
    assert report.facts["unique"] == near.facts["sent"] or report.facts["receiver_drops"]


def test_a_rate_that_cannot_be_had_is_said_and_the_run_ends():
    with listening(rate=1e12, run_s=0.02, warmup_s=0.0) as (spec, far):
        near = ENGINES["udp"].near(spec, nobody)
        report = far.finish(near)
    assert near.facts["sent_bit_s"] < 0.9e12
    assert near.facts["sent"] < 0.02 * 1e12 / 8 / 1400
    (note,) = near.notes
    assert re.fullmatch(
        r"the sender (reached .* of 1000 Gbit/s|was preempted .*), so its (own host or link|host) bounds this figure",
        note,
    )
    assert near.facts["seconds"] == pytest.approx(0.02)
    assert near.facts["sent"] + near.facts["missed"] == round(0.02 * 1e12 / 8 / 1400)
    assert report.attempted == near.facts["sent"]


def test_more_datagrams_than_have_numbers_are_refused_before_any_is_sent():
    with listening(rate=9e12, payload_bytes=100) as (spec, _), socket.socket(type=socket.SOCK_DGRAM) as sock:
        sock.bind((spec.address, 0))
        sock.settimeout(0)
        far = dataclasses.replace(spec.far, port=sock.getsockname()[1])
        with pytest.raises(LabError, match=r"^rate 9000 Gbit/s is 11250000000 datagrams of 100 bytes in a run, and "):
            ENGINES["udp"].near(dataclasses.replace(spec, run_s=1.0, backlog_bytes=500, far=far), nobody)
        with pytest.raises(BlockingIOError):
            sock.recv(1)


def test_where_no_clocks_can_be_compared_the_delay_is_unknown_and_the_rest_is_not(monkeypatch):
    monkeypatch.setattr(clock_exchange, "_MOST_NS", 1)
    with listening(run_s=0.05) as (spec, far):
        elsewhere = dataclasses.replace(spec.far, clock={}, clock_port=9)
        report = far.finish(ENGINES["udp"].near(dataclasses.replace(spec, far=elsewhere), nobody))
    assert report.facts["clock_error_s"] == math.inf
    assert report.facts["unique"] == report.attempted == len(rows_of(report))


def test_what_the_kernel_refuses_is_a_sentence():
    with (
        listening(payload_bytes=65508) as (spec, _),
        pytest.raises(
            LabError,
            match=r"^the kernel refuses datagrams of 65508 bytes to 127\.0\.0\.1; take smaller ones, or raise the MTU",
        ),
    ):
        ENGINES["udp"].near(spec, nobody)
    with (
        listening() as (spec, _),
        pytest.raises(
            LabError, match=r"^no datagrams can be sent from 198\.18\.7\.7 to 127\.0\.0\.1 port \d+: Cannot assign"
        ),
    ):
        ENGINES["udp"].near(dataclasses.replace(spec, source="198.18.7.7"), nobody)
    with listening() as (spec, _), pytest.raises(LabError, match=r"^host 127\.0\.0\.1 is mixed-endian and this one"):
        ENGINES["udp"].near(dataclasses.replace(spec, far=dataclasses.replace(spec.far, byteorder="mixed")), nobody)


def test_a_clock_that_was_set_meanwhile_is_trouble(monkeypatch):
    with listening(run_s=0.02) as (spec, far):
        near = ENGINES["udp"].near(spec, nobody)
        far._ahead_ns -= 2_500_000_000
        with pytest.raises(
            LabError, match=r"^the clock of host 127\.0\.0\.1 was set by 2\.500 s during the run, so its"
        ):
            far.finish(near)


def test_queues_are_told_by_their_kind(isolated):
    code = "from pytest_ipperf.agent.kernel.qdiscs import disciplines; print(disciplines(['one', 'two', 'lo']))"
    up = """ip link set lo up; ip link add one type veth peer name two
    ip link set two up; ip link set one up
    tc qdisc add dev one root tbf rate 1mbit burst 3000 limit 9000"""
    assert ast.literal_eval(isolated(code, up)) == {"one": "tbf", "two": "noqueue", "lo": "noqueue"}
