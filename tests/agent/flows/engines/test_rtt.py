"""RTT engine: every probe in every way of waiting, and the treatment of lost and late replies."""

from __future__ import annotations

import ast
import contextlib
import os
import re
import selectors
import socket
import subprocess
import sys
import threading
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_ipperf.agent.flows.engines import ENGINES
from pytest_ipperf.agent.flows.engines.rtt import _cpu_notes, engine
from pytest_ipperf.agent.flows.rtt import datagram_probes
from pytest_ipperf.agent.flows.rtt.frame import HEAD
from pytest_ipperf.agent.flows.rtt.icmp import echo_socket
from pytest_ipperf.agent.flows.spec import FlowReport
from pytest_ipperf.agent.sockets import timestamping
from pytest_ipperf.agent.sockets.receive_timestamps import rx_timestamping
from pytest_ipperf.core.portable.errors import LabError
from tests.agent.flows.rtt_ends import known, rows, spec
from tests.support.needs import require
from tests.support.receive_timestamps import wait_until_stamped
from tests.support.servers.udp import silent_socket

HERE = "127.0.0.1"
ENOUGH = 30  # probes, of which at least the fastest was not delayed by other work
WAYS = [
    (probe, waiting)
    for probe in ("udp", "tcp", "connect", "icmp")
    for waiting in ("path", "application", "wire")
    if waiting != "wire" or probe in ("udp", "icmp")
]


def _may_ping():
    """Skip the test if this network does not let the user send echo requests."""
    try:
        echo_socket(six=False)[0].close()
    except LabError as error:
        assert os.geteuid() != 0
        pytest.skip(str(error))


@contextlib.contextmanager
def answering(one):
    """Yield a spec with a running far end."""
    with contextlib.closing(engine.far(one)) as far, rx_timestamping():
        wait_until_stamped()
        yield replace(one, far=far.listening)


def ran(one):
    with answering(one) as ordered:
        return engine.near(ordered, lambda: None)


MATRIX = """
from rtt_ends import Pair, rows
report = []
with Pair({delay_s}) as pair:
    for ipver in {ipvers}:
        for probe, waiting in {ways}:
            for size in {sizes}:
                number, enough = 0, {enough} if size == 32 and probe in ("udp", "icmp") else 1
                while number < enough:
                    near, far = pair.run(ipver, probe, waiting, size, run_s=0.05 if size == 32 else 0.02)
                    found = rows(near)
                    report.append((ipver, probe, waiting, size, len(found), near.attempted, near.failed, near.facts,
                                 near.peers, near.sources, near.families, near.notes, near.detail,
                                 far.detail.get("answered"), [at for at, _ in found], [rtt for _, rtt in found]))
                    number += len(found) or enough
print(report)
"""


def checked(report):
    """Return the times of each way, after checking the rest of its report."""
    times: dict[Any, list[float]] = defaultdict(list)
    warmed = set()
    for ipver, probe, waiting, size, *counts, peers, sources, families, notes, detail, answered, ats, rtts in report:
        found, attempted, failed, facts = counts
        assert (found, failed, facts) == (attempted, {}, {"sent": attempted, "lost": 0})
        assert found > 0
        assert sources == [{4: "198.18.0.1", 6: "2001:2::1"}[ipver]]
        assert families == [{4: "AF_INET", 6: "AF_INET6"}[ipver]]
        assert peers == {{4: "198.18.0.2", 6: "2001:2::2"}[ipver]: 1 if probe == "tcp" else found}
        assert ats == sorted(set(ats))
        assert ats[0] == 0
        assert 0 < min(rtts) <= max(rtts) < 2.0
        # The kernel completes handshakes itself, however late the far end accepts them.
        assert (answered is None) if probe == "icmp" else (answered >= attempted or probe == "connect")
        warmed |= {probe} if answered and answered > attempted else set()
        assert [note for note in notes if "other work took" not in note] == []
        assert detail["waited"] == ("busy-polled" if waiting == "path" else "slept until a packet came")
        assert ("kernel" in detail["stamps"]) == (waiting == "wire")
        assert ("alone" in detail["stamps"]) == (waiting == "wire" and probe == "icmp")
        assert ("payload" in detail) == (probe == "connect")
        times[ipver, probe, waiting, size] += rtts
    # Each has a warm-up, in which a busy machine may give some of them no processor.
    assert warmed >= {"udp", "tcp"}
    return times


def test_every_probe_waits_in_every_way_and_takes_every_size(isolated):
    sizes = (32, 1400, 65499)
    code = MATRIX.format(delay_s=0, ipvers=[4, 6], ways=WAYS, sizes=sizes, enough=ENOUGH)
    report = ast.literal_eval(isolated(code))
    for ipver in (4, 6):
        times = checked([each for each in report if each[0] == ipver])
        assert len(times) == len(WAYS) * len(sizes)
        for probe in ("udp", "icmp"):
            # All others contain work beside the kernels' own.
            wire, *others = (min(times[ipver, probe, w, 32]) for w in ("wire", "path", "application"))
            assert wire < min(others)


def test_a_delay_there_and_back_is_in_every_time(own_network):
    code = MATRIX.format(delay_s=0.01, ipvers=[4, 6], ways=WAYS, sizes=(64,), enough=1)
    with_pids = [*own_network, "--pid", "--fork", "--kill-child", "--mount-proc"]
    times = checked(ast.literal_eval(isolated_by(with_pids, code)))
    assert min(rtt for rtts in times.values() for rtt in rtts) >= 0.01999  # by two clocks


def isolated_by(words, code):
    here = Path(__file__)
    paths = f"import sys; sys.path[:0] = {[str(here.parents[4]), str(here.parents[1])]}\n"
    require("ip")
    up = 'PATH=$PATH:/usr/sbin:/sbin; ip link set lo up; exec "$@"'
    argv = [*words, "sh", "-ec", up, "sh", sys.executable, "-c", paths + code]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Relay:
    """A relay between the ends on this host; `fate` decides on the reply to each probe by its number.

    None: it is lost; else it is delayed by so many seconds, and with `stream` so is everything behind it.
    """

    def __init__(self, port, fate, *, stream=False, size=64):
        self._fate, self._size = fate, size
        kind = socket.SOCK_STREAM if stream else socket.SOCK_DGRAM
        self._listening = socket.socket(socket.AF_INET, kind)
        self._listening.bind((HERE, 0))
        self.port = self._listening.getsockname()[1]
        self._far = socket.socket(socket.AF_INET, kind)
        self._far.connect((HERE, port))
        self._stop, self._stopped = socket.socketpair()
        if stream:
            self._listening.listen()
        self._thread = threading.Thread(target=self._streams if stream else self._datagrams)
        self._thread.start()

    def _datagrams(self):
        held: list[tuple[float, bytes]] = []
        asker: Any = None
        with selectors.DefaultSelector() as selector:
            for sock in (self._listening, self._far, self._stopped):
                selector.register(sock, selectors.EVENT_READ)
            while True:
                left_s = max(0, min(held)[0] - time.monotonic()) if held else None
                for key, _ in selector.select(left_s):
                    if key.fileobj is self._stopped:
                        return
                    if key.fileobj is self._listening:
                        data, asker = self._listening.recvfrom(65536)
                        self._far.send(data)
                    else:
                        data = self._far.recv(65536)
                        hold_s = self._fate.get(HEAD.unpack_from(data)[1], 0)
                        if hold_s is not None:
                            held.append((time.monotonic() + hold_s, data))
                for each in [each for each in held if each[0] <= time.monotonic()]:
                    held.remove(each)
                    self._listening.sendto(each[1], asker)

    def _streams(self):
        near, _ = self._listening.accept()
        with near, contextlib.suppress(ConnectionResetError):
            while data := near.recv(self._size, socket.MSG_WAITALL):
                self._far.sendall(data)
                back = self._far.recv(self._size, socket.MSG_WAITALL)
                time.sleep(self._fate.get(HEAD.unpack_from(back)[1], 0))
                near.sendall(back)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stop.send(b"x")
        if self._far.type == socket.SOCK_STREAM:
            self._far.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        for sock in (self._listening, self._far, self._stop, self._stopped):
            sock.close()


DEADLINE_S = 0.5


def relayed(one, fate, lost, *, stream=False):
    """Return the report of a run through such a relay, after checking all that holds for any run.

    No reply may have been later than the relay made it, unless the machine was; then all of it is run again.
    """
    for _ in range(20):
        with answering(one) as ordered, Relay(ordered.far.port, fate, stream=stream) as relay:
            report = engine.near(replace(ordered, far=replace(ordered.far, port=relay.port)), lambda: None)
        assert report.attempted == report.facts["sent"] == len(rows(report)) + report.facts["lost"]
        assert report.failed.get("lost", 0) == report.facts["lost"]
        assert max((rtt for _, rtt in rows(report)), default=0) < DEADLINE_S
        if report.facts["lost"] == lost and report.attempted > 10:
            return report
    pytest.fail(f"each of 20 runs lost more than {lost} probes, or ended early; the last one: {report}")


@pytest.mark.parametrize("waiting", ["path", "application", "wire"])
def test_the_lost_and_the_late_are_counted_exactly(waiting):
    """The replies to probes 3 and 6 are lost, and that to 10 arrives while 11 waits for its own."""
    one = spec(HERE, HERE, "udp", waiting, warmup_s=0, run_s=3 * DEADLINE_S + 0.6, deadline_s=DEADLINE_S)
    report = relayed(one, {3: None, 6: None, 10: DEADLINE_S + 0.1, 11: 0.15}, 3)
    assert report.failed == {"lost": 3}
    # The first probe is the warm-up, so 11 is the tenth of the run, and the seventh that has a time.
    assert rows(report)[6][1] > 0.149
    assert not [note for note in report.notes if "none" in note or "ended" in note]


@pytest.mark.parametrize("waiting", ["path", "application"])
def test_a_message_that_comes_late_is_not_taken_for_the_next(waiting):
    # Two ends that poll leave the relay a processor now and then, so a probe takes some hundredths of a second.
    one = spec(HERE, HERE, "tcp", waiting, warmup_s=0, run_s=2 * DEADLINE_S + 0.3, deadline_s=DEADLINE_S)
    report = relayed(one, {5: DEADLINE_S + 0.15}, 1, stream=True)
    assert report.failed == {"lost": 1}
    # Number 6, the fourth that has a time, had to wait for the reply to number 5.
    assert 0.05 < rows(report)[3][1] < DEADLINE_S


def test_silence_is_told_and_ends_the_run():
    """A socket that reads nothing, and a host that does not exist."""
    with silent_socket(HERE) as sock:
        for waiting in ("path", "application", "wire"):
            one = spec(HERE, HERE, "udp", waiting, run_s=30, deadline_s=0.05, far=known(sock.getsockname()[1]))
            report = engine.near(one, lambda: None)
            assert (report.failed, report.samples, report.peers) == ({"lost": report.attempted}, b"", {})
            assert 1 <= report.attempted <= 3
            assert report.sources == [HERE]
            none, ended = report.notes[:2]
            assert none == f"none of {report.attempted} probes was answered"
            said = re.fullmatch(
                r"the run ended after ([\d.]+) s instead of 30 s, as nothing had been answered for 0\.15 s", ended
            )
            assert said, ended
            assert 0.15 <= float(said[1]) < 30


def test_silence_of_icmp_is_told(isolated):
    code = """
from rtt_ends import NEAR, NOBODY, Pair, known, spec
from pytest_ipperf.agent.flows.engines.rtt import engine
with Pair():
    for ipver in (4, 6):
        one = spec(NEAR[ipver], NOBODY[ipver], "icmp", "path", run_s=30, deadline_s=0.05)
        report = engine.near(one, lambda: None)
        assert report.attempted == report.failed["lost"] <= 3, report
        assert [note[:5] for note in report.notes[:2]] == ["none ", "the r"], report
        one = spec(NEAR[ipver], NOBODY[ipver], "tcp", "path", run_s=30, deadline_s=0.05, far=known(7))
        try:
            engine.near(one, lambda: None)
        except Exception as error:
            print(error)
"""
    assert isolated(code).splitlines() == [
        "no probe of RTT by tcp from 198.18.0.1 to 198.18.0.9 port 7: timed out",
        "no probe of RTT by tcp from 2001:2::1 to 2001:2::9 port 7: timed out",
    ]


@pytest.mark.parametrize(("probe", "waiting"), [way for way in WAYS if way[0] != "icmp"])
def test_a_far_end_that_goes_is_trouble(probe, waiting):
    one = spec("", "::1", probe, waiting, run_s=30, deadline_s=0.6)
    far = engine.far(one)
    gone = threading.Timer(0.1, far.close)
    gone.start()
    # What the kernel says depends on how far a connection had come.
    what = rf"^(a|no) probe of RTT by {probe} from here to ::1 port \d+( has no reply)?: (Connection|Broken|Transport)"
    with pytest.raises(LabError, match=what):
        engine.near(replace(one, far=far.listening), lambda: None)
    gone.join()


def test_who_is_not_there_is_trouble_at_once():
    for probe in ("udp", "tcp", "connect"):
        with pytest.raises(LabError, match=rf"^(a|no) probe of RTT by {probe} .* port 1.*: Connection refused$"):
            engine.near(spec(HERE, HERE, probe, "path", far=known(1)), lambda: None)
    with pytest.raises(LabError, match=r"^no probe of RTT by udp from 198\.18\.0\.77 to .*: Cannot assign requested"):
        engine.near(spec("198.18.0.77", HERE, "udp", "path", far=known(1)), lambda: None)
    with pytest.raises(LabError, match=r"address 198\.18\.0\.77: Cannot assign requested address"):
        engine.far(spec("", "198.18.0.77", "udp", "path"))


def test_a_far_end_looks_no_longer_than_a_deadline_and_answers_all_the_same():
    for probe in ("udp", "tcp"):
        one = spec(HERE, HERE, probe, "path", deadline_s=0.05)
        with answering(one) as ordered:
            kind = socket.SOCK_STREAM if probe == "tcp" else socket.SOCK_DGRAM
            with socket.socket(socket.AF_INET, kind) as sock:
                sock.connect((HERE, ordered.far.port))
                message = HEAD.pack(one.ident & 0xFFFFFFFF, 1, 1, 0, 0, 0).ljust(64)
                for _ in range(2):
                    sock.sendall(message)
                    assert sock.recv(100) == message
                    time.sleep(0.1)
                    spent = time.process_time()
                    time.sleep(0.1)
                    assert time.process_time() - spent < 0.05


def test_only_a_run_of_its_own_is_answered():
    with answering(spec(HERE, HERE, "udp", "path")) as ordered:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.connect((HERE, ordered.far.port))
            for wrong in (b"", b"x" * 63, b"x" * 64, HEAD.pack(ordered.ident & 0xFFFFFFFF, 1, 0, 0, 0, 0)):
                sock.send(wrong)
            sock.settimeout(0.1)
            with pytest.raises(TimeoutError):
                sock.recv(100)
        assert not engine.near(ordered, lambda: None).failed


def test_other_work_on_the_processor_is_told():
    assert _cpu_notes("client", 0.0, 0.0) == _cpu_notes("client", 0.95, 1.0) == []
    assert _cpu_notes("client", 0.6, 1.0) == [
        "other work took 40% of the client's processor while it polled for replies, and lengthens their times"
    ]


@pytest.mark.parametrize("probe", ["udp", "tcp"])
def test_where_one_processor_is_all_both_ends_sleep(probe, monkeypatch):
    note = "both ends slept until a probe came, as they have only one processor to poll on"
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    report = ran(spec(HERE, HERE, probe, "path"))
    assert (report.notes, report.detail["waited"]) == ([note], "slept until a packet came")
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    assert ran(spec(HERE, HERE, probe, "path")).notes == [note]


def test_without_stamps_nothing_is_known_of_the_wire(monkeypatch):
    monkeypatch.setattr(datagram_probes, "rx_timestamp_ns", lambda _: 0)
    with pytest.raises(LabError, match=r"^the kernels have no timestamps of probes by udp from .*; take 'path' or"):
        ran(spec(HERE, HERE, "udp", "wire"))


def test_replies_without_stamps_are_left_out(monkeypatch):
    _may_ping()
    stamps = iter(range(10**9))
    real = timestamping.rx_timestamp_ns
    monkeypatch.setattr(datagram_probes, "rx_timestamp_ns", lambda messages: real(messages) if next(stamps) % 2 else 0)
    for _ in range(20):  # until this machine did not stand still for all of a run
        report = ran(spec(HERE, HERE, "icmp", "wire", run_s=0.1))
        if report.facts["sent"] > 3:
            break
    left_out = report.facts["sent"] - report.attempted
    assert 0 < left_out < report.facts["sent"]
    assert len(rows(report)) == report.attempted
    assert report.notes == [
        f"{left_out} of {report.facts['sent']:g} replies are left out, as a kernel did not stamp them or their probes"
    ]


def test_a_stamp_is_that_of_its_packet_also_after_one_that_was_refused():
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as far,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as near,
    ):
        far.bind((HERE, 0))
        near.connect(far.getsockname())
        timestamps = timestamping.TxTimestamps(near)
        report: dict[int, int] = {}
        for number in range(1, 200):
            before_ns = time.time_ns()
            message = bytes(70000 if number % 5 == 0 else 40)
            with contextlib.suppress(OSError):
                timestamps.send(number, message)
            # The last probe before a refused one has no request for its timestamps.
            report |= dict(timestamps.read()) if number % 5 != 4 else {}
            if number in report:
                assert before_ns <= report[number] <= time.time_ns()
        assert sorted(report) == [number for number in range(1, 200) if number % 5 not in {0, 4}]


def test_handshakes_leave_nothing_behind(isolated):
    code = """
from pathlib import Path
from test_rtt import spec, ran
for address in ("127.0.0.1", "::1"):
    probes = 0
    while probes < 10:
        probes += ran(spec(address, address, "connect", "application", run_s=0.1)).attempted
lines = [line.split() for name in ("tcp", "tcp6") for line in Path("/proc/net", name).read_text().splitlines()[1:]]
print([line[3] for line in lines])
"""
    assert ast.literal_eval(isolated(code)) == []


def test_signs_of_life_are_given_and_the_far_end_tells_what_it_has_answered():
    one, signs = spec(HERE, HERE, "udp", "application"), []
    far = engine.far(one)
    near = engine.near(replace(one, far=far.listening), lambda: signs.append(1))
    report = far.finish(FlowReport(wall_s=near.wall_s))
    far.close()
    assert report.detail["answered"] == len(signs) > near.attempted > 0
    assert report.cpu_s > 0
    assert (near.cpu_s > 0, near.wall_s > 0) == (True, True)
    assert ENGINES["rtt"] is engine
