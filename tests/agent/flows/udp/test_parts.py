"""Parts of the UDP engine: schedule, counter, clocks, fragments."""

from __future__ import annotations

import ast
import itertools
import math
import socket
import struct
import time
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.agent.flows.engines.udp import _limits
from pytest_ipperf.agent.flows.udp import paced_sender, receiver
from pytest_ipperf.agent.flows.udp.counter import SequenceCounter
from pytest_ipperf.agent.flows.udp.paced_sender import PacedResult, PacedSender
from pytest_ipperf.agent.flows.udp.sequence import SequenceHeaders
from pytest_ipperf.agent.flows.udp.unpaced_sender import UnpacedSender
from pytest_ipperf.agent.paths.clock_sync import ClockMap, check_not_set, clock_ahead_ns
from pytest_ipperf.core.portable.errors import LabError

BASE = 5 << 31


@given(st.lists(st.lists(st.integers(-3, 12), max_size=8), max_size=12))
def test_a_tally_is_that_of_the_definitions(batches):
    """By definition: a copy is a number that has come before; reordered ones came after a higher number."""
    tally = SequenceCounter(BASE)
    for batch in batches:
        tally.note([BASE + number for number in batch])
    seen: list[int] = []
    reordered = copies = 0
    for number in itertools.chain(*batches):
        if number < 0:
            continue
        if number in seen:
            copies += 1
        else:
            reordered += number < max(seen, default=-1)
            seen.append(number)
    assert (tally.unique, tally.duplicates, tally.reordered) == (len(seen), copies, reordered)


@given(st.integers(1, 10), st.lists(st.integers(0, 3), max_size=200))
def test_gaps_between_batches_are_of_what_was_lost(length, lost):
    tally, at = SequenceCounter(BASE), BASE
    for each in lost:
        at += each
        if each % 2:
            tally.note(list(range(at, at + length)))
        else:
            tally.note_all(at, at + length)
        at += length
    assert (tally.unique, tally.duplicates, tally.reordered) == (length * len(lost), 0, 0)


def test_another_streams_numbers_are_none_of_this():
    tally = SequenceCounter(BASE)
    tally.note([BASE - 1, BASE + (1 << 31), 0])
    assert (tally.unique, tally.duplicates) == (0, 0)


@given(st.lists(st.tuples(st.integers(0, (1 << 31) - 1), st.integers(1, 512)), max_size=6))
def test_consecutive_words_are_that(asked):
    base = 7 << 32 | 1 << 31
    numbers = SequenceHeaders(base)
    for first, most in [*asked, (65535, 512), ((1 << 31) - 600, 512), (0, 1)]:
        count = min(most, (1 << 31) - first)
        assert numbers.words(base + first, count).tolist() == list(range(base + first, base + first + count))
    with pytest.raises(ValueError, match="are not here"):
        numbers.words(base + (1 << 32), 1)
    with pytest.raises(ValueError, match="are not here"):
        numbers.words(base, 513)


@pytest.fixture
def pair():
    """Return a socket connected to another one, which listens."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as far,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as near,
    ):
        far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        far.bind(("127.0.0.1", 0))
        far.settimeout(5)
        near.connect(far.getsockname())
        yield near, far


def test_datagrams_go_in_their_order_and_none_before_its_instant(pair):
    near, far = pair
    near.settimeout(0)
    signs = []
    begin_ns = time.monotonic_ns() + 5_000_000
    report = PacedSender(near, 32, 0.002, lambda: signs.append(1)).send(BASE, 20, begin_ns)
    heads = [memoryview(far.recv(100)).cast("Q") for _ in report.stamps_ns]
    numbers = [head[0] - BASE for head in heads]
    assert numbers == sorted(set(numbers) & set(range(20)))
    assert len(numbers) + report.missed == 20
    assert [head[1] for head in heads] == list(report.stamps_ns)
    assert all(stamp >= begin_ns + 2_000_000 * number for number, stamp in zip(numbers, report.stamps_ns, strict=True))
    assert signs
    assert report.refused == 0


def test_a_sender_that_cannot_keep_up_ends(pair):
    near, _ = pair
    near.settimeout(0)
    report = PacedSender(near, 32, 1e-9, lambda: None).send(BASE, 10**8, time.monotonic_ns())
    assert 0 < len(report.stamps_ns) < 10**8
    assert len(report.stamps_ns) + report.missed == 10**8


class Time:
    """A clock that advances a microsecond with each reading, and once by `stall_ns` at the reading after `at_ns`."""

    def __init__(self, at_ns=0, stall_ns=0):
        self._ns, self._at_ns, self._stall_ns = 0, at_ns, stall_ns

    def monotonic_ns(self):
        self._ns += 1000
        if self._ns > self._at_ns:
            self._ns, self._stall_ns = self._ns + self._stall_ns, 0
        return self._ns

    def sleep(self, seconds):
        self._ns += round(seconds * 1e9)


class Wire(socket.socket):
    """A socket that sends nothing, as its time is not real, and records number and instant of each datagram."""

    def __init__(self):
        super().__init__(socket.AF_INET, socket.SOCK_DGRAM)
        self.heads = []

    def send(self, data, _flags=0, /):
        self.heads.append(tuple(memoryview(data)[:16].cast("Q")))
        return len(data)


@given(st.integers(1, 300), st.integers(50_000, 50_000_000), st.integers(0, 10**9), st.integers(0, 10**9))
def test_a_sender_that_was_put_off_misses_what_is_overdue_and_keeps_to_its_schedule(count, gap_ns, at_ns, stall_ns):
    """Nothing is sent later than 5 ms, or half a gap, and no burst; numbers are places in the schedule."""
    begin_ns = 1_000_000
    with Wire() as wire, pytest.MonkeyPatch.context() as patch:
        patch.setattr(paced_sender, "time", Time(at_ns, stall_ns))
        report = PacedSender(wire, 32, gap_ns / 1e9, lambda: None).send(BASE, count, begin_ns)
    numbers = [word - BASE for word, _ in wire.heads]
    assert [stamp for _, stamp in wire.heads] == list(report.stamps_ns)
    assert len(numbers) + report.missed == count
    assert numbers == sorted(set(numbers))
    assert numbers[0] == 0
    most_ns = max(5_000_000, gap_ns / 2)
    if report.stamps_ns[0] - begin_ns > most_ns:
        begin_ns = report.stamps_ns[0]
        assert report.missed == 0
    late_ns = [stamp - begin_ns - number * gap_ns for number, stamp in zip(numbers, report.stamps_ns, strict=True)]
    assert all(-1 <= each <= most_ns + 1 for each in late_ns)
    assert report.missed <= max(0, math.ceil((stall_ns + 5000 - most_ns) / gap_ns))
    assert {after - before for before, after in itertools.pairwise(numbers)} <= {1, report.missed + 1}


def test_a_sender_that_has_long_to_wait_gives_signs_of_life(monkeypatch):
    clock, signs = Time(), []
    monkeypatch.setattr(paced_sender, "time", clock)
    with Wire() as wire:
        PacedSender(wire, 32, 7.0, lambda: signs.append(clock.monotonic_ns())).send(BASE, 3, 7e9)
    assert len(signs) >= 42
    assert max(after - before for before, after in itertools.pairwise([0, *signs, 21 * 10**9])) <= 500_000_000


def test_a_sender_that_never_sleeps_gives_signs_of_life(monkeypatch):
    clock, signs = Time(), []
    monkeypatch.setattr(paced_sender, "time", clock)
    with Wire() as wire:
        PacedSender(wire, 32, 20e-6, lambda: signs.append(clock.monotonic_ns())).send(BASE, 50_000, 0)
    assert max(after - before for before, after in itertools.pairwise([*signs, 10**9])) <= 500_000_000


def facts(sent, missed, cpu_s, **more):
    asked = 1071 * 8 * 1400.0
    plain = {"sent": sent, "missed": missed, "refused": 0, "seconds": 1.0, "sender_cpu_s": cpu_s, **more}
    return {"offered_bit_s": asked, "sent_bit_s": asked * sent / (sent + missed), **plain}


def test_a_note_tells_which_bound_the_sender_had():
    """It was preempted if it used no processor time for as long as it missed."""
    assert list(_limits(facts(1062, 9, 0.2))) == []
    assert list(_limits(facts(495, 576, 0.2))) == [
        "the sender was preempted and sent 495 of 1071 datagrams, so its host bounds this figure"
    ]
    assert list(_limits(facts(495, 576, 1.0))) == [
        "the sender reached 5.544 Mbit/s of 12 Mbit/s, so its own host or link bounds this figure"
    ]
    assert list(_limits(facts(1071, 0, 0.2, refused=3))) == [
        "the sending host had no room for 3 of 1071 datagrams, which count as lost"
    ]
    assert list(_limits(facts(1071, 0, 1.0, offered_bit_s=0.0, refused=3))) == []


def test_errors_are_of_the_gaps():
    report = PacedResult(array("q", [0, 1_000_000, 2_000_000, 3_000_500, 4_000_500]))
    assert report.errors_s(0.001) == (0.0, 5e-7)
    assert PacedResult().errors_s(0.001) == (0.0, 0.0)


def test_what_the_kernel_does_not_cut_up_goes_by_batches(isolated):
    code = """
import socket
from pytest_ipperf.agent.flows.udp.sequence import SequenceHeaders
from pytest_ipperf.agent.flows.udp.unpaced_sender import UnpacedSender
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as near, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as far:
    far.bind(("127.0.0.1", 0))
    near.connect(far.getsockname())
    far.settimeout(10)
    flood = UnpacedSender(near, 3000, cut=True)
    report = flood.send(0, 0.5, lambda: None)  # on a busy machine, a hundredth of that is over before it begins
    print([flood.how, flood.segments, report.sent > 0, len(far.recv(65535))])
"""
    how, segments, sent, size = ast.literal_eval(isolated(code, "ip link set lo mtu 1500 up"))
    assert how.startswith("sendmmsg x64; UDP_SEGMENT x21: ")
    assert (segments, sent, size) == (1, True, 3000)


def test_a_flood_that_nobody_takes_says_so(pair):
    near, far = pair
    far.close()
    with pytest.raises(ConnectionRefusedError):
        UnpacedSender(near, 100, cut=True).send(0, 1.0, lambda: None)


def test_clocks_of_one_host_need_no_marks():
    clock_map = ClockMap([])
    assert (clock_map.error_s, clock_map.to_local_ns(7)) == (0.0, 7)


@given(st.integers(-(10**14), 10**14), st.floats(-1e-4, 1e-4), st.integers(0, 10**11))
def test_a_clock_that_drifts_is_followed(ahead_ns, drift, at_ns):
    def theirs(here_ns):
        return here_ns + ahead_ns + round(drift * here_ns)

    samples = [(here, (theirs(here) - here) / 1e9, 1e-6) for here in (0, 10**11)]
    clock_map = ClockMap(samples)
    assert clock_map.error_s == pytest.approx(1e-6 + 5e-4)  # half-way it may be 1 in 100 000 of 50 s off the line
    assert clock_map.to_local_ns(theirs(at_ns)) == pytest.approx(at_ns, abs=1500 + 1e-8 * 10**11)


def test_a_sample_from_behind_a_queue_is_left_out():
    clock_map = ClockMap([(0, 2.0, 1e-5), (10**10, 2.06, 0.06)])
    assert clock_map.to_local_ns(5 * 10**9) == 3 * 10**9
    assert clock_map.error_s == pytest.approx(1e-5 + 1e-3)  # 1 in 10 000 of 10 s, the largest drift of clocks
    lost = (0, 0.0, math.inf)
    assert ClockMap([lost, (10**10, 2.0, 1e-3)]).error_s == pytest.approx(2e-3)
    assert ClockMap([lost, lost]).error_s == math.inf


def test_a_wall_clock_may_be_slow_but_not_be_set():
    ahead_ns = clock_ahead_ns(time.CLOCK_REALTIME)
    assert abs(ahead_ns - (time.time_ns() - time.monotonic_ns())) < 10**9
    check_not_set("198.18.0.2", ahead_ns, ahead_ns + 1000)
    with pytest.raises(LabError, match=r"^the clock of host 198\.18\.0\.2 was set by -0\.040 s during the run"):
        check_not_set("198.18.0.2", 0, -40_000_000)


WAITING = """
import socket, struct
from pathlib import Path
from pytest_ipperf.agent.kernel import reassembly
from pytest_ipperf.agent.kernel.reassembly import wait_for_drain, waiting_bytes
from pytest_ipperf.core.portable.errors import LabError

def fragment(size):
    "The first one of a datagram that has another."
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + size, 7, 0x2000, 64, 17, 0, *[socket.inet_aton("127.0.0.1")] * 2)
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as raw:
        raw.sendto(head + bytes(size), ("127.0.0.1", 0))

def fragment6(size):
    loop = socket.inet_pton(socket.AF_INET6, "::1")
    head = struct.pack("!IHBB16s16sBBHI", 6 << 28, 8 + size, 44, 64, loop, loop, 17, 0, 1, 7)
    with socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW) as raw:
        raw.sendto(head + bytes(size), ("::1", 0))

def kept(version, name, value):
    Path(f"/proc/sys/net/ipv{version}/{name}").write_text(value)

print([wait_for_drain(each) for each in (4, 6, None)])
kept(4, "ipfrag_time", "1")
kept(6, "ip6frag_time", "1")
for ipver in (6, None):
    fragment(1400)
    fragment6(1400)
    print(waiting_bytes(4) > 1400, waiting_bytes(6) > 1400, wait_for_drain(ipver), waiting_bytes(4), waiting_bytes(6))
kept(4, "ipfrag_time", "30")
fragment(1400)
reassembly._TIMEOUT_S = 0.1
print(wait_for_drain(6), wait_for_drain(None))
print(*wait_for_drain(4))
kept(4, "ipfrag_low_thresh", "3000")
kept(4, "ipfrag_high_thresh", "3000")
try:
    wait_for_drain(4)
except LabError as error:
    print(error)
"""


def test_fragments_of_before_are_waited_for_and_said(isolated):
    """Of both versions if they are kept for a second only, and else of the version whose fragments are to come."""
    none, *gone, others, note, trouble = isolated(WAITING).splitlines()
    assert none == "[[], [], []]"
    assert gone == ["True True [] 0 0"] * 2
    assert others == "[] []"
    assert (
        " bytes of incomplete IPv4 datagrams wait at the receiving host, which keeps 4194304 at most: somebody" in note
    )
    assert trouble.endswith("wait half a minute, or allow more there (net.ipv4.ipfrag_high_thresh)")


def test_what_lies_in_the_socket_at_the_end_is_read(pair, monkeypatch):
    """The thread sleeps between two reads; on a busy machine it may do so until the end is requested."""
    near, far = pair
    monkeypatch.setattr(receiver, "_NAP_S", 0.3)
    reading = receiver.DatagramReceiver(far, 100, receiver.first_word(7, counts=True), flood=False)
    for number in range(8):
        near.send(struct.pack("=QQ", receiver.first_word(7, counts=True) + number, 0).ljust(100))
        while not reading.sink.unique():
            time.sleep(0.001)
    reading.end()
    assert reading.sink.unique() == 8
