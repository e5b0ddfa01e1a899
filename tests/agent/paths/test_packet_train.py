"""Rate by a packet train: from the timestamps of a simulated token bucket, and through real queues of the kernel."""

from __future__ import annotations

import ast
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.agent.paths.packet_train import TrainReceiver, length, rate_bit_s, send_train
from pytest_ipperf.core.measurement.token_bucket import bucket_bytes
from pytest_ipperf.core.portable.errors import LabError

WIRE = 1538


def bucket(rate, datagrams, ready_s, late_s):
    """Return when datagrams leave a token bucket that was full, in ns.

    Each can leave only when the sender has it `ready_s`; the queue serves it `late_s` too late, without losing tokens
    unless the bucket overflows meanwhile.
    """
    held = bucket_bytes(rate)
    tokens, then, found = float(held), 0.0, []
    for number in range(datagrams):
        due = max(then, ready_s[number], then + (WIRE - tokens) * 8 / rate) + late_s[number]
        tokens = min(held, tokens + (due - then) * rate / 8) - WIRE
        found.append(due)
        then = due
    return [round(10**18 + 1e9 * due) for due in found]


def punctual(datagrams):
    return [0.0] * datagrams


@given(st.floats(1e6, 1e9), st.integers(45, 400))
def test_a_punctual_train_has_the_rate_of_the_bucket(rate, datagrams):
    stamps = bucket(rate, datagrams, punctual(datagrams), punctual(datagrams))
    assert rate_bit_s(stamps, WIRE) == pytest.approx(rate, rel=1e-3)


@given(st.floats(1e6, 3e8), st.integers(60, 400), st.integers(0, 2**32))
def test_a_queue_that_is_late_within_its_bucket_changes_nothing(rate, datagrams, seed):
    """A fifth of the datagrams are late by up to a quarter of the bucket's room; those behind them make up for it."""
    drawn = random.Random(seed)
    late = [
        drawn.uniform(0, (bucket_bytes(rate) - WIRE) * 2 / rate) if not drawn.randrange(5) else 0.0
        for _ in range(datagrams)
    ]
    found = rate_bit_s(bucket(rate, datagrams, punctual(datagrams), late), WIRE)
    assert found == pytest.approx(rate, rel=0.01)


@given(st.floats(1e7, 3e8), st.integers(60, 400), st.data())
def test_a_pause_of_the_sender_never_makes_a_train_look_faster(rate, datagrams, data):
    """Nor does a pause during the first bucketful, after which the bucket passes another one at once."""
    at = data.draw(st.integers(0, datagrams - 1))
    pause_s = data.draw(st.floats(0, 0.1))
    ready = [0.0] * at + [pause_s] * (datagrams - at)
    found = rate_bit_s(bucket(rate, datagrams, ready, punctual(datagrams)), WIRE)
    assert found
    assert found <= rate * 1.0001


def test_a_pause_in_one_half_is_not_seen_by_a_short_look_at_the_other():
    ready = [0.0] * 20 + [0.0015] * 300
    assert rate_bit_s(bucket(1e8, 320, ready, punctual(320)), WIRE) == pytest.approx(1e8, rel=1e-4)


@pytest.mark.parametrize("datagrams", [0, 1, 40])
def test_of_too_few_there_is_no_rate(datagrams):
    assert rate_bit_s(bucket(1e8, datagrams, punctual(datagrams), punctual(datagrams)), WIRE) is None


def test_what_came_all_at_once_has_no_rate():
    assert rate_bit_s([10**18] * 60, WIRE) is None


@given(st.floats(1e6, 1e10))
def test_a_train_takes_20_ms_within_limits_and_leaves_room_in_the_queue(rate):
    datagrams, backlog = length(rate, WIRE)
    assert 60 <= datagrams <= 2000
    if 60 < datagrams < 2000:
        assert math.isclose(datagrams * WIRE * 8 / rate, 0.02, rel_tol=0.02)
    assert backlog * WIRE <= max(rate * 0.02 / 8 + 8192, 4 * WIRE)


REAL = """
import ctypes, os, subprocess, time
from pytest_ipperf.agent.sockets.receive_timestamps import rx_timestamping
from pytest_ipperf.agent.paths.packet_train import TrainReceiver, length, rate_bit_s, send_train
from pytest_ipperf.core.measurement.token_bucket import bucket_bytes
run = lambda words: subprocess.run(words.split(), check=True, capture_output=True)
stamped = rx_timestamping()
held = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec cat"], stdin=-1, stdout=-1)
held.stdout.readline()
run(f"ip link add near type veth peer name far netns {held.pid}")
here, there = os.open("/proc/self/ns/net", 0), os.open(f"/proc/{held.pid}/ns/net", 0)
inside = f"nsenter --net=/proc/{held.pid}/ns/net "
DEVICES = (("", "near", 1), (inside, "far", 2))
for enter, device, number in DEVICES:
    run(f"{enter}ip addr add 198.18.0.{number}/24 dev {device}")
    run(f"{enter}ip addr add 2001:2::{number}/64 dev {device} nodad")
    run(f"{enter}ip link set {device} gso_max_segs 1 up")

def shaped(rate_mbit):
    for enter, device, _ in DEVICES:
        run(f"{enter}tc qdisc replace dev {device} root stab overhead 24 linklayer ethernet"
            f" tbf rate {rate_mbit}mbit burst {bucket_bytes(rate_mbit * 1e6)} latency 20ms")

def listening(address, datagrams):
    enter = ctypes.CDLL(None, use_errno=True).setns  # os.setns came with Python 3.12
    assert enter(there, 0) == 0
    listener = TrainReceiver(address, datagrams)
    assert enter(here, 0) == 0
    return listener

def rates(network, rate_mbit, trains, packet=1500):
    shaped(rate_mbit)
    datagrams, backlog = length(rate_mbit * 1e6, packet + 38)
    listener, found = listening(network + "2", datagrams), []
    for ident in range(trains):
        send_train(network + "1", (network + "2", listener.port), ident, packet_bytes=packet, datagrams=datagrams,
                   backlog=backlog)
        found.append(rate_bit_s(listener.stamps_ns(ident, datagrams), packet + 38))
        if found[-1] and abs(found[-1] / rate_mbit / 1e6 - 1) < 0.01:
            break
    listener.close()
    return found

def end():
    held.stdin.close(); held.wait(); held.stdout.close(); stamped.close(); os.close(here); os.close(there)
"""


@pytest.mark.parametrize("rate_mbit", [10, 100, 300])
def test_through_a_real_queue_it_is_exact_to_a_hundredth(isolated, rate_mbit):
    """Nothing is ever too fast; of many trains on a busy machine at least one is not slowed by it."""
    found = ast.literal_eval(
        isolated(f"{REAL}print([rates(n, {rate_mbit}, 40) for n in ('198.18.0.', '2001:2::')]); end()")
    )
    for trains in found:
        best = max(each for each in trains if each)
        assert best == pytest.approx(rate_mbit * 1e6, rel=0.01)


def test_smaller_packets_have_the_same_rate(isolated):
    """This shows that the bytes of the headers are counted correctly."""
    (best,) = ast.literal_eval(isolated(f"{REAL}print([max(filter(None, rates('198.18.0.', 50, 40, 700)))]); end()"))
    assert best == pytest.approx(50e6, rel=0.01)


def test_a_train_is_known_by_its_number_and_ends_where_one_is_missing(isolated):
    code = """
import socket, struct
from pytest_ipperf.agent.paths.packet_train import _HEAD, TrainReceiver
listener = TrainReceiver("127.0.0.1", 60)
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    for ident, number in ((7, 0), (8, 0), (8, 1), (7, 1), (8, 2), (8, 4), (8, 5)):
        sock.sendto(_HEAD.pack(ident, number), ("127.0.0.1", listener.port))
    sock.sendto(b"short", ("127.0.0.1", listener.port))
print([len(listener.stamps_ns(8, 6)), len(listener.stamps_ns(9, 6))])
listener.close()
"""
    assert ast.literal_eval(isolated(code)) == [3, 0]


def test_what_cannot_be_sent_or_received_is_a_sentence():
    with pytest.raises(LabError, match=r"^no train can be received on 198\.18\.0\.77: Cannot assign requested address"):
        TrainReceiver("198.18.0.77", 60)
    with pytest.raises(LabError, match=r"^no train of packets of 65600 bytes to ::1: too big"):
        send_train("::1", ("::1", 20000), 1, packet_bytes=65600, datagrams=1, backlog=20)
