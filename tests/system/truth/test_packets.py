"""The instrument beside tcpdump: what it says of each connection, and when its packets passed the client's device.

tcpdump stamps what leaves as it is handed to the driver, and what arrives as it comes off it; its clock has been read
elsewhere, so nothing of the instrument's own is in it. A row belongs to a query by its place, as rows and queries are
in the order of the openings, and to a TCP connection by the order in which the names were resolved, as one thread
resolves and connects in one step. From there a connection is known by its ports, and a data connection of FTP by the
port that the server named for it.

Where paper 000 has a measurement end, in its Table 2-1, `MARKS` tells what has to be seen by then.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import math
import os
import re
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from pytest_ipperf.agent.kernel.processes import tree
from pytest_ipperf.core.design.cell import Workload
from pytest_ipperf.lab.runs.result import ServerEndpoint
from pytest_ipperf.servers import SERVERS
from tests.support.attempts import lasting

ROOT = Path(__file__).parents[3]
PAYLOAD_BYTES = {"http": 10_240, "ftp": 65_536, "smtp": 1024, "imap": 1024, "dns": 34}
SERVER = {"http": "apache", "ftp": "proftpd", "smtp": "postfix", "imap": "dovecot", "dns": "bind"}
MARKS = {"http": b"</html>", "ftp": b"\r\n226 ", "smtp": b"queued", "imap": b"\r\na3 OK "}
PHASES = {
    **dict.fromkeys(("http", "ftp", "smtp", "imap"), ("dns", "connect", "first_byte", "total")),
    "dns": ("total",),  # which is its first byte too
}
_PASSIVE = re.compile(rb"\r\n229 [^\r]*\(\|\|\|(\d+)\|\)")
_NANOSECONDS, _ETHERNET = 0xA1B23C4D, 1
_FIN, _SYN, _ACK = 0x01, 0x02, 0x10
ATTEMPTS = 8

pytestmark = pytest.mark.skipif(not shutil.which("tcpdump", path="/usr/bin:/usr/sbin:/sbin"),
                                reason="tcpdump is not installed (Debian: apt-get install tcpdump)")  # fmt: skip


@dataclass(frozen=True)
class Packet:
    """A segment or datagram: `at_ns` by the wall clock; `flags` are TCP's, `said` what it carries."""

    at_ns: int
    udp: bool
    sender: int
    receiver: int
    flags: int
    said: bytes


def packets(capture: bytes) -> Iterator[Packet]:
    """Of a pcap file with nanoseconds (draft-ietf-opsawg-pcap): UDP and TCP over IPv4 without options, or IPv6."""
    magic, *_, link = struct.unpack_from("=IHHiIII", capture)
    assert (magic, link) == (_NANOSECONDS, _ETHERNET)
    at = 24
    while at < len(capture):
        seconds, nanoseconds, kept, _ = struct.unpack_from("=IIII", capture, at)
        frame = capture[at + 16 : at + 16 + kept]
        at += 16 + kept
        if frame[12:14] == b"\x08\x00":
            protocol, end, inner = frame[23], 14 + int.from_bytes(frame[16:18], "big"), 34
        elif frame[12:14] == b"\x86\xdd":
            protocol, end, inner = frame[20], 54 + int.from_bytes(frame[18:20], "big"), 54
        else:
            continue
        if protocol not in (socket.IPPROTO_UDP, socket.IPPROTO_TCP):
            continue
        udp = protocol == socket.IPPROTO_UDP
        data = inner + (8 if udp else 4 * (frame[inner + 12] >> 4))
        flags = 0 if udp else frame[inner + 13]
        sender, receiver = struct.unpack_from("!HH", frame, inner)
        yield Packet(seconds * 10**9 + nanoseconds, udp, sender, receiver, flags, frame[data:end])


class MissedPacketsError(Exception):
    """Packets are missing: tcpdump had no time for all, or there are fewer than the instrument has connections."""


@contextlib.contextmanager
def captured(entry: Sequence[str]) -> Iterator[list[Packet]]:
    """What has passed the device of a host; the list is filled when the context ends, MissedPacketsError if not all."""
    # Immediate: otherwise the kernel keeps what it has seen for up to a second, also at the end.
    argv = ["tcpdump", "-i", "eth0", "-n", "--immediate-mode", "--time-stamp-precision=nano", "-w", "-",
            "-B", "65536", "tcp or udp"]  # fmt: skip
    found: list[Packet] = []
    with tempfile.TemporaryFile() as file:
        process = subprocess.Popen(
            [*entry, "taskset", "--cpu-list", "0", *argv], stdout=file, stderr=subprocess.PIPE, text=True
        )
        assert process.stderr
        with process.stderr:
            assert "listening on eth0" in process.stderr.readline()
            yield found
            for each in itertools.chain.from_iterable(tree(process.pid)[1:]):  # below the words of the entry
                os.kill(each.pid, signal.SIGTERM)
            said = process.stderr.read()
        process.wait(10)
        # A tcpdump that is asked to end leaves what it has not read yet.
        read, came = re.findall(r"(\d+) packets? (?:captured|received by filter)", said)
        if read != came or "0 packets dropped by kernel" not in said:
            raise MissedPacketsError(said)
        file.seek(0)
        found += packets(file.read())


Given = TypeVar("Given")
Read = TypeVar("Read")


def with_capture(
    entry: Sequence[str], work: Callable[[], Given], read: Callable[[Given, list[Packet]], Read]
) -> tuple[Given, Read]:
    """Return what the work gives, and what `read` makes of it and of what passed meanwhile.

    Where packets are missing, the work is done again: a busy tcpdump misses some at times, and an instrument that says
    more than there was does so in each attempt.
    """
    for left in reversed(range(ATTEMPTS)):
        try:
            with captured(entry) as trace:
                given = work()
            return given, read(given, trace)
        except MissedPacketsError:
            if not left:
                raise
    raise AssertionError


# --- from packets to connections --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Passed:
    """When packets of a connection passed the device, in seconds since its query left, which was `at_s` by its clock.

    The phases are named for what came at their ends; `syn` and `spoke`, the first that the client says, left.
    """

    at_s: float
    dns: float
    syn: float
    connect: float
    spoke: float
    first_byte: float
    total: float


def flows(trace: Sequence[Packet], begins: Callable[[Packet], bool]) -> list[list[Packet]]:
    """The packets between each two ports between which something begins, until something else does there.

    What is repeated before there is an answer is no new beginning.
    """
    found: list[list[Packet]] = []
    by_ports: dict[tuple[bool, int, int], list[Packet]] = {}
    for packet in trace:
        before = by_ports.get((packet.udp, packet.sender, packet.receiver), [])
        if begins(packet) and not (before and all(map(begins, before))):
            found.append([])
            by_ports[packet.udp, packet.sender, packet.receiver] = found[-1]
        for ports in ((packet.sender, packet.receiver), (packet.receiver, packet.sender)):
            by_ports.get((packet.udp, *ports), []).append(packet)
    return found


def saying(packets: Iterable[Packet], mark: bytes) -> Packet:
    """The one with which all of the mark has been said."""
    heard = b""
    for packet in packets:
        heard = heard[1 - len(mark) :] + packet.said
        if mark in heard:
            return packet
    raise AssertionError(mark)


def passed(protocol: str, trace: Sequence[Packet], service: ServerEndpoint, rows: Sequence[Row]) -> list[Passed]:
    """For each row, whose own figures serve for nothing but the order in which names were resolved."""
    queries = flows(trace, lambda each: each.udp and each.receiver == service.resolver_port)
    if len(queries) != len(rows):
        raise MissedPacketsError(f"{len(queries)} queries of {len(rows)}")
    idents = [int.from_bytes(query[0].said[:2], "big") for query in queries]
    if protocol == "dns":  # the transaction itself, numbered in each run
        assert idents == [row.index for row in rows]
        return [
            Passed(query[0].at_ns * 1e-9, 0, 0, 0, 0, *[(_answer(query).at_ns - query[0].at_ns) * 1e-9] * 2)
            for query in queries
        ]
    assert all((after - before) % 65536 == 1 for before, after in itertools.pairwise(idents))
    tcp = flows(trace, lambda each: not each.udp and each.flags & (_SYN | _ACK) == _SYN)
    talks = [each for each in tcp if each[0].receiver == service.port]
    moves = [each for each in tcp if each[0].receiver != service.port]
    if (len(talks), len(moves)) != (len(rows), len(rows) * (protocol == "ftp")):
        raise MissedPacketsError(f"{len(talks)} and {len(moves)} connections of {len(rows)}")
    resolved = sorted(range(len(rows)), key=lambda at: (rows[at].burst, rows[at].start + rows[at].dns))
    talk_of = dict(zip(resolved, talks, strict=True))
    return [_passed(query, talk_of[at], service.port, MARKS[protocol], moves) for at, query in enumerate(queries)]


def _answer(packets: Sequence[Packet]) -> Packet:
    """The first from the side that did not begin."""
    return next(each for each in packets if each.sender == packets[0].receiver)


def _passed(
    query: Sequence[Packet], talk: Sequence[Packet], port: int, mark: bytes, moves: Sequence[Sequence[Packet]]
) -> Passed:
    left = query[0]
    came = [each for each in talk if each.sender == port]
    said = [each for each in came if each.said]
    end = saying(said, mark)
    if moves:
        end = max(end, _moved(talk, said, moves), key=lambda each: each.at_ns)
    spoke = next(each for each in talk if each.receiver == port and each.said)
    stamps = (_answer(query), talk[0], _answer(talk), spoke, said[0], end)
    return Passed(left.at_ns * 1e-9, *((each.at_ns - left.at_ns) * 1e-9 for each in stamps))


def _moved(talk: Sequence[Packet], said: Sequence[Packet], moves: Sequence[Sequence[Packet]]) -> Packet:
    """The end of the data, which has come by a connection of its own: asked for, opened, and only then used."""
    named = _PASSIVE.search(b"".join(each.said for each in said))
    assert named
    asked = saying(said, named[0])
    move = next(each for each in moves if each[0].receiver == int(named[1]) and each[0].at_ns > asked.at_ns)
    came = [each for each in move if each.sender == move[0].receiver]
    retrieve = next(each for each in talk if each.said.startswith(b"RETR "))
    data = [each for each in came if each.said]
    ended = next(each for each in came if each.flags & _FIN)
    assert sum(len(each.said) for each in data) >= PAYLOAD_BYTES["ftp"]
    assert asked.at_ns < move[0].at_ns < _answer(move).at_ns < retrieve.at_ns < data[0].at_ns <= ended.at_ns
    return ended


# --- measured and captured --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """What the instrument says of a connection, in seconds.

    `burst` numbers those of the whole capture, `index` the connections of a run.
    """

    burst: int
    index: int
    start: float
    dns: float
    connect: float
    first_byte: float
    total: float
    late: float
    behind: float = 0.0


COLUMNS = tuple(field.name for field in dataclasses.fields(Row))[2:]


@dataclass(frozen=True)
class Both:
    """A connection as the instrument and as tcpdump tell it."""

    said: Row
    seen: Passed

    @property
    def late_s(self) -> float:
        """How long the last segment waited to be read; the kernel does not tell that of a data connection's end."""
        return 0.0 if math.isnan(self.said.late) else self.said.late

    def error_s(self, phase: str) -> float:
        """By how much the instrument says more; of the total without what the last segment waited to be read.

        In open-loop mode it has the time from the intended start to the opening too, which no packet shows.
        """
        more: float = getattr(self.said, phase) - self.said.behind - getattr(self.seen, phase)
        return more - self.late_s if phase == "total" else more


def workload_of(protocol: str) -> Workload:
    """The largest that its server has to bear."""
    return Workload(
        testbed="pair", protocol=protocol, client="lean", connections=100, payload_bytes=PAYLOAD_BYTES[protocol]
    )


Runs = dict[tuple[int, int], list[Both]]
"""By IP version and connections at once."""


def measured(bench, protocol: str, bursts: Mapping[int, int], times: int = 1) -> Runs:
    """So many runs of so many bursts of each kind, of which each time there is a capture."""
    workload = workload_of(protocol)
    service = bench.serve(workload, SERVER[protocol])
    runs = [(ipver, connections) for connections in bursts for ipver in (4, 6)]
    rows: list[Row] = []
    bounds = {}

    def measure(ipver: int, connections: int, bursts: int) -> None:
        began = len(rows)
        work = dataclasses.replace(workload, connections=connections)
        for index, row in enumerate(bench.measure(ipver, service, work, bursts)):
            rows.append(Row(began + index // connections, index, *(row[name] for name in COLUMNS)))
        bounds[ipver, connections] = slice(began, len(rows))

    def measure_all() -> None:
        rows.clear()
        for run in runs:
            measure(*run, bursts[run[1]])

    measure(4, 10, 1)  # which warms up
    found: Runs = {}
    for _ in range(times):
        _, seen = with_capture(
            bench.entries["client"], measure_all, lambda _, trace: passed(protocol, trace, service, rows)
        )
        both = [Both(*pair) for pair in zip(rows, seen, strict=True)]
        for run, bound in bounds.items():
            found.setdefault(run, []).extend(both[bound])
    return found


# --- tests ------------------------------------------------------------------------------------------------------------


def median_us(seconds: Iterable[float]) -> float:
    return 1e6 * statistics.median(seconds)


def errors_us(protocol: str, both: Sequence[Both]) -> dict[str, float]:
    """Medians of what the instrument says more than the packets, by phase.

    `resolved` and `may speak` are phases beside what the client sends as soon as they end: nothing is in between.
    """
    errors = {phase: median_us(each.error_s(phase) for each in both) for phase in PHASES[protocol]}
    if protocol == "dns":
        return errors
    speaks = "connect" if protocol == "http" else "first_byte"
    return {
        **errors,
        "resolved": median_us(each.said.dns - each.seen.syn for each in both),
        "may speak": median_us(getattr(each.said, speaks) - each.seen.spoke for each in both),
    }


Comparison = tuple[int, int, str]
"""By IP version, connections at once, and phase."""


def disagreements(protocol: str, runs: Mapping[tuple[int, int], Sequence[Both]]) -> dict[Comparison, float]:
    """Return the medians that are not as tcpdump says, in microseconds.

    At N = 1 that is every phase. Where the client has others to serve too, it knows later of what has come, and only
    what it does next tells when.
    """
    found = {}
    for (ipver, connections), both in runs.items():
        tolerance_us = max(200, 0.02 * median_us(each.seen.total for each in both))
        for phase, error in errors_us(protocol, both).items():
            if abs(error) > tolerance_us and (connections == 1 or phase in ("total", "resolved", "may speak")):
                found[ipver, connections, phase] = error
    return found


@pytest.fixture(params=list(SERVER))
def protocol(request):
    """One whose server can run here."""
    if why := SERVERS[SERVER[request.param]].missing():
        pytest.skip(why)
    return request.param


def test_every_connection_is_as_tcpdump_saw_it(plain, protocol):
    def attempt() -> dict[Comparison, float]:
        runs = measured(plain, protocol, {1: 20, 10: 3, 100: 1})
        for each in itertools.chain.from_iterable(runs.values()):
            for phase in PHASES[protocol][:-1]:  # nobody knows of a packet before it has come
                assert each.error_s(phase) > -0.0001
            assert protocol != "dns" or each.said.first_byte == each.said.total
        return disagreements(protocol, runs)

    # What else goes on in a machine passes; what an instrument does wrong stays.
    assert not lasting(attempt() for _ in range(ATTEMPTS))


@pytest.mark.evidence
def test_thousands_of_connections_are_as_tcpdump_saw_them(plain, protocol, log):
    runs = measured(plain, protocol, {1: 75, 10: 8, 100: 3}, times=4)
    for connections in (1, 10, 100):
        both = [runs[ipver, connections] for ipver in (4, 6)]
        every = list(itertools.chain.from_iterable(both))
        totals_ms, errors = (
            ", ".join(format(median_us(map(figure, each)) * scale, form) for each in both)
            for figure, scale, form in (
                (lambda each: each.seen.total, 1e-3, ".2f"),
                (lambda each: each.error_s("total"), 1, "+.0f"),
            )
        )
        of_all = sorted(1e6 * each.error_s("total") for each in every)
        low, high = (of_all[round(share * (len(of_all) - 1))] for share in (0.05, 0.95))
        late = median_us(each.late_s for each in every)
        log(
            f"| {protocol} | {SERVER[protocol]} | {connections} | {len(every)} | {totals_ms} | {errors} "
            f"| {low:+.0f} .. {high:+.0f} | {max(of_all, key=abs):+.0f} | {late:.0f} |"
        )
        phases = errors_us(protocol, every)
        log(f"| {protocol} | {connections} | {' | '.join(f'{phases[name]:+.0f}' for name in phases)} |")
    if protocol == "ftp":
        nan = [math.isnan(each.said.late) for each in every]
        log(f"ftp: the end of the data was heard last by {sum(nan)} of {len(nan)} at 100 connections")
    assert not disagreements(protocol, runs)


def test_a_connection_that_arrives_at_a_rate_leaves_when_its_row_says(plain):
    """Packets have no intended start; but together the columns `start` and `behind` tell when each left."""
    if why := SERVERS[SERVER["http"]].missing():
        pytest.skip(why)
    workload = workload_of("http")
    service = plain.serve(workload, SERVER["http"])
    workload = dataclasses.replace(workload, rate_per_s=400.0)

    def attempt() -> dict[str, float]:
        def measure() -> list[Row]:
            reported = plain.measure(6, service, workload, 1)
            return [Row(0, index, *(row[name] for name in COLUMNS)) for index, row in enumerate(reported)]

        rows, seen = with_capture(
            plain.entries["client"], measure, lambda rows, trace: passed("http", trace, service, rows)
        )
        both = [Both(*pair) for pair in zip(rows, seen, strict=True)]
        left = [each.seen.at_s - each.said.start - each.said.behind for each in both]
        errors_s = {
            "start": statistics.median(abs(each - statistics.median(left)) for each in left),
            "total": statistics.median(abs(each.error_s("total")) for each in both),
        }
        return {name: error for name, error in errors_s.items() if not error < 0.0002}

    # What else goes on in a machine passes; what an instrument does wrong stays.
    assert not lasting(attempt() for _ in range(ATTEMPTS))


BY_THE_WALL = """
import json, socket, sys, time
sys.path.insert(0, sys.argv[1])
from pytest_ipperf.agent.load.lean import epoll_client as burst
from pytest_ipperf.agent.load.lean import datagram_client as datagram
from pytest_ipperf.agent.sockets.target import Target
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.protocols import application
name, server, source, port, resolver, payload, number, state = json.loads(sys.argv[2])
protocol, ipver = application(name), 6 if ":" in server else 4
target = Target(
    socket.AF_INET6 if ipver == 6 else socket.AF_INET, None if protocol.datagram else (server, resolver),
    server if protocol.datagram else protocol.host, port, source, (server,),
)
sockets, own = [], burst.bare_socket
def noted(*args):
    sockets.append(time.time())
    return own(*args)
burst.bare_socket = datagram.bare_socket = noted
state = protocol.filled(ServerState(**{**state, "addresses": (server,)}), payload)
kind = datagram.DatagramBurst if protocol.datagram else burst.Burst
one = kind(target, [protocol.conversation(state, index, ipver) for index in range(number)], 30, 0)
one.clock = time.time
one.run()
assert not any(each.failure for each in one.connections)
stamps = [[each.opened, each.resolved, each.connected, each.first, each.done] for each in one.connections]
json.dump([[at, *times] for at, times in zip(sockets, stamps)], sys.stdout)
"""


@dataclass(frozen=True)
class ByTheWall:
    """A connection whose burst was timed by the wall clock, as tcpdump is: the opening of its first socket, in seconds.

    `opened` and what follows is what the instrument says, `passed` is when the packets did.
    """

    socket: float
    opened: float
    resolved: float
    connected: float
    first: float
    done: float
    passed: Passed

    def waits_s(self, protocol: str) -> dict[str, float]:
        """From the clock's start to the socket and to the query; from each packet to what the instrument says of it."""
        said = {"dns": self.resolved, "connect": self.connected, "first_byte": self.first, "total": self.done}
        at = self.passed.at_s
        return {
            "socket": self.socket - self.opened,
            "query": at - self.opened,
            **{phase: said[phase] - at - getattr(self.passed, phase) for phase in PHASES[protocol]},
        }


def timed_by_the_wall(bench, protocol: str, ipver: int, number: int) -> list[ByTheWall]:
    workload = workload_of(protocol)
    service = bench.serve(workload, SERVER[protocol])
    client, server = (host.address(ipver) for host in bench.hosts)
    state = dataclasses.asdict(bench.live._servers.state)
    state = {name: state[name] for name in ("users", "password")}
    order = protocol, server, client, service.port, service.resolver_port, workload.payload_bytes, number, state
    argv = [sys.executable, "-c", BY_THE_WALL, str(ROOT), json.dumps(order)]
    argv = [*bench.entries["client"], "taskset", "--cpu-list", "1", *argv]

    def measure() -> list[tuple[float, float, float, float, float, float]]:
        child = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert child.returncode == 0, child.stderr
        stamps: list[tuple[float, float, float, float, float, float]] = json.loads(child.stdout)
        return stamps

    def read(stamps: list[tuple[float, float, float, float, float, float]], trace: list[Packet]) -> list[Passed]:
        began = stamps[0][1]
        rows = [
            Row(0, at, opened - began, resolved - opened, connected - opened, first - opened, done - opened, math.nan)
            for at, (_, opened, resolved, connected, first, done) in enumerate(stamps)
        ]
        return passed(protocol, trace, service, rows)

    stamps, seen = with_capture(bench.entries["client"], measure, read)
    return [ByTheWall(*times, each) for times, each in zip(stamps, seen, strict=True)]


def test_the_clock_runs_from_before_the_first_socket_to_after_the_last_packet(plain, protocol):
    for ipver in (4, 6):
        for each in timed_by_the_wall(plain, protocol, ipver, 10):
            assert min(each.waits_s(protocol).values()) > -1e-6, each  # as exact as such times are in 64 bits


@pytest.mark.evidence
@pytest.mark.parametrize("protocol", ["smtp", "dns"], indirect=True)
def test_how_long_it_takes_from_the_opening_of_a_socket_to_the_first_packet(plain, protocol, log):
    """The part of the error before the query, as no packet shows when a socket was opened."""
    for ipver in (4, 6):
        each = [one for _ in range(3) for one in timed_by_the_wall(plain, protocol, ipver, 100)]
        took = sorted(1e6 * one.waits_s(protocol)["query"] for one in each)
        low, middle, high = (took[round(share * (len(took) - 1))] for share in (0.05, 0.5, 0.95))
        log(f"| {protocol} | IPv{ipver} | {middle:.1f} | {low:.1f} .. {high:.1f} |")
