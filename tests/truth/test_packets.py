"""The instrument beside tcpdump: what it says of each connection, and when its packets passed the client's device.

tcpdump stamps what leaves as it is handed to the driver, and what arrives as it comes off it; its clock has been read
elsewhere, so nothing of the instrument's own is in it. A row belongs to a query by its place, as rows and queries are
in the order of the openings, and to a TCP connection by the order in which the names were resolved, as one thread
resolves and connects in one step. From there a connection is known by its port.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
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

import pytest

from pytest_ipperf.agent.leash import tree
from pytest_ipperf.core.cell import Workload
from pytest_ipperf.lab.standing import Service
from pytest_ipperf.servers import SERVERS

ROOT = Path(__file__).parents[2]
PAYLOAD_BYTES = {"http": 10_240, "smtp": 1024}
SERVER = {"http": "apache", "smtp": "postfix"}
LAST = {"http": b"", "smtp": b"queued"}
_NANOSECONDS, _ETHERNET = 0xA1B23C4D, 1
_SYN, _ACK = 0x02, 0x10
_SNAP_BYTES = 200
ATTEMPTS = 3

pytestmark = pytest.mark.skipif(not shutil.which("tcpdump", path="/usr/bin:/usr/sbin:/sbin"),
                                reason="tcpdump is not installed (Debian: apt-get install tcpdump)")  # fmt: skip


@dataclass(frozen=True)
class Packet:
    """A segment or datagram: `at_ns` by the wall clock; `flags` are TCP's, `said` what it carries, cut short."""

    at_ns: int
    udp: bool
    sender: int
    receiver: int
    flags: int
    said_bytes: int
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
        yield Packet(seconds * 10**9 + nanoseconds, udp, sender, receiver, flags, end - data, frame[data:])


@contextlib.contextmanager
def captured(entry: Sequence[str]) -> Iterator[list[Packet]]:
    """What has passed the device of a host; the list is filled when the context ends."""
    # Immediate: otherwise the kernel keeps what it has seen for up to a second, also at the end.
    argv = ["tcpdump", "-i", "eth0", "-n", "--immediate-mode", "--time-stamp-precision=nano", "-w", "-",
            "-s", str(_SNAP_BYTES), "-B", "32768", "tcp or udp"]  # fmt: skip
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
        assert "0 packets dropped by kernel" in said
        file.seek(0)
        found += packets(file.read())


# --- from packets to connections --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Passed:
    """When packets of a connection passed the device, in seconds since its query left.

    The phases are named for what came at their ends; `syn` and `spoke`, the first that the client says, left.
    """

    dns: float
    syn: float
    connect: float
    spoke: float
    first_byte: float
    total: float


def flows(trace: Sequence[Packet], begins: Callable[[Packet], bool]) -> list[list[Packet]]:
    """The packets from and to each port from which something begins, until something else does there."""
    found: list[list[Packet]] = []
    by_port: dict[tuple[bool, int], list[Packet]] = {}
    for packet in trace:
        if begins(packet):
            found.append([])
            by_port[packet.udp, packet.sender] = found[-1]
        for port in (packet.sender, packet.receiver):
            by_port.get((packet.udp, port), []).append(packet)
    return found


def passed(trace: Sequence[Packet], service: Service, rows: Sequence[Row], last: bytes) -> list[Passed]:
    """For each row, whose own figures serve for nothing but the order in which names were resolved."""
    queries = flows(trace, lambda each: each.udp and each.receiver == service.resolver_port)
    talks = flows(trace, lambda each: each.receiver == service.port and each.flags & (_SYN | _ACK) == _SYN)
    assert len(queries) == len(talks) == len(rows)
    idents = [int.from_bytes(query[0].said[:2], "big") for query in queries]
    assert all((after - before) % 65536 == 1 for before, after in itertools.pairwise(idents))
    resolved = sorted(range(len(rows)), key=lambda at: (rows[at].burst, rows[at].start + rows[at].dns))
    talk_of = dict(zip(resolved, talks, strict=True))
    return [_passed(query, talk_of[at], service.port, last) for at, query in enumerate(queries)]


def _passed(query: Sequence[Packet], talk: Sequence[Packet], port: int, last: bytes) -> Passed:
    left, answer = query
    came = [each for each in talk if each.sender == port]
    said = [each for each in came if each.said_bytes]
    (accepted,) = [each for each in came if each.flags & _SYN]
    ends = [each for each in said if last in each.said]
    spoke = next(each for each in talk if each.receiver == port and each.said_bytes)
    stamps = (answer, talk[0], accepted, spoke, said[0], ends[-1])
    return Passed(*((each.at_ns - left.at_ns) * 1e-9 for each in stamps))


# --- measured and captured --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """What the instrument says of a connection, in seconds; `burst` numbers those of the whole capture."""

    burst: int
    start: float
    dns: float
    connect: float
    first_byte: float
    total: float
    late: float


@dataclass(frozen=True)
class Both:
    """A connection as the instrument and as tcpdump tell it."""

    said: Row
    seen: Passed

    def error_s(self, phase: str) -> float:
        """By how much the instrument says more; of the total without what the last segment waited to be read."""
        more: float = getattr(self.said, phase) - getattr(self.seen, phase)
        return more - self.said.late if phase == "total" else more


def measured(bench, protocol: str, bursts: Mapping[int, int]) -> dict[tuple[int, int], list[Both]]:
    """By IP version and connections at once."""
    workload = Workload(
        testbed="lab", protocol=protocol, client="lean", connections=max(bursts), payload_bytes=PAYLOAD_BYTES[protocol]
    )
    service = bench.standing.serve(workload, SERVER[protocol])
    runs = [(ipver, connections) for connections in bursts for ipver in (4, 6)]
    rows: list[Row] = []
    bounds = {}

    def measure(ipver: int, connections: int, bursts: int) -> None:
        began = len(rows)
        work = dataclasses.replace(workload, connections=connections)
        found = bench.measure(ipver, service, work, bursts)
        rows.extend(Row(began + at // connections, **row) for at, row in enumerate(found))
        bounds[ipver, connections] = slice(began, len(rows))

    for run in runs:  # which warms up
        measure(*run, 1)
    rows.clear()
    with captured(bench.entries["client"]) as trace:
        for run in runs:
            measure(*run, bursts[run[1]])
    both = [Both(*pair) for pair in zip(rows, passed(trace, service, rows, LAST[protocol]), strict=True)]
    return {run: both[bound] for run, bound in bounds.items()}


# --- tests ------------------------------------------------------------------------------------------------------------


def median_us(seconds: Iterable[float]) -> float:
    return 1e6 * statistics.median(seconds)


def errors_us(protocol: str, both: Sequence[Both]) -> dict[str, float]:
    """Medians of what the instrument says more than the packets, by phase.

    `resolved` and `may speak` are phases beside what the client sends as soon as they end: nothing is in between.
    """
    speaks = "connect" if protocol == "http" else "first_byte"
    return {
        **{
            phase: median_us(each.error_s(phase) for each in both)
            for phase in ("dns", "connect", "first_byte", "total")
        },
        "resolved": median_us(each.said.dns - each.seen.syn for each in both),
        "may speak": median_us(getattr(each.said, speaks) - each.seen.spoke for each in both),
    }


def disagreements(protocol: str, runs: Mapping[tuple[int, int], Sequence[Both]]) -> list[str]:
    """What is not as tcpdump says, in medians.

    At N = 1 that is every phase. Where the client has others to serve too, it knows later of what has come, and only
    what it does next tells when.
    """
    found = []
    for (ipver, connections), both in runs.items():
        tolerance_us = max(200, 0.02 * median_us(each.seen.total for each in both))
        found += [
            f"IPv{ipver}, {connections} at once, {phase}: {error:+.0f} us"
            for phase, error in errors_us(protocol, both).items()
            if abs(error) > tolerance_us and (connections == 1 or phase in ("total", "resolved", "may speak"))
        ]
    return found


def missing(protocol):
    return SERVERS[SERVER[protocol]].missing()


@pytest.mark.parametrize("protocol", list(SERVER))
def test_every_connection_is_as_tcpdump_saw_it(plain, protocol):
    if why := missing(protocol):
        pytest.skip(why)
    for _ in range(ATTEMPTS):  # what else goes on in a machine passes; what an instrument does wrong stays
        runs = measured(plain, protocol, {1: 20, 10: 3, 100: 1})
        if not disagreements(protocol, runs):
            break
    assert not disagreements(protocol, runs)
    for each in itertools.chain.from_iterable(runs.values()):
        for phase in ("dns", "connect", "first_byte"):  # nobody knows of a packet before it has come
            assert each.error_s(phase) > -0.0001


@pytest.mark.evidence
@pytest.mark.parametrize("protocol", list(SERVER))
def test_thousands_of_connections_are_as_tcpdump_saw_them(plain, protocol, tell):
    if why := missing(protocol):
        pytest.skip(why)
    runs = measured(plain, protocol, {1: 300, 10: 30, 100: 10})
    for (ipver, connections), both in runs.items():
        where = f"{SERVER[protocol]} | {connections} | IPv{ipver}"
        total_ms = 1e-3 * median_us(each.seen.total for each in both)
        of_all = sorted(1e6 * each.error_s("total") for each in both)
        low, high = (of_all[round(share * (len(of_all) - 1))] for share in (0.05, 0.95))
        late = median_us(each.said.late for each in both)
        errors = {phase: f"{error:+.0f}" for phase, error in errors_us(protocol, both).items()}
        total = errors.pop("total")
        tell(f"| {where} | {total_ms:.2f} | {total} | {low:+.0f} .. {high:+.0f} | {of_all[-1]:+.0f} | {late:.0f} |")
        tell(f"| {where} | {' | '.join(errors.values())} |")
    assert not disagreements(protocol, runs)


OPENING = """
import socket, sys, time
sys.path.insert(0, sys.argv[1])
from pytest_ipperf.agent.burst import Burst, Target
from pytest_ipperf.core.state import ServerState
from pytest_ipperf.protocols import PROTOCOLS
server, source, port, number = sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
family = socket.AF_INET6 if ":" in server else socket.AF_INET
talks = [PROTOCOLS["smtp"].conversation(ServerState(), index, 4) for index in range(number)]
burst = Burst(Target(family, (server, port), "mail.ipperf.test", 1, source), talks, 30, 0)
for connection in burst.connections:
    print(time.time_ns())
    burst._resolve(connection)
    time.sleep(0.002)
"""


@pytest.mark.evidence
def test_how_long_it_takes_from_the_opening_of_a_socket_to_the_first_packet(plain, tell):
    """The part of the error before the query, as no packet shows when a socket was opened."""
    service = plain.null(Workload(testbed="lab", protocol="smtp", client="lean", connections=1, payload_bytes=1024))
    for ipver in (4, 6):
        client, server = (host.address(ipver) for host in plain.hosts)
        argv = [sys.executable, "-c", OPENING, str(ROOT), server, client, str(service.resolver_port), "300"]
        with captured(plain.entries["client"]) as trace:
            done = subprocess.run(
                [*plain.entries["client"], "taskset", "--cpu-list", "1", *argv],
                capture_output=True, text=True, check=True,
            )  # fmt: skip
        opened = map(int, done.stdout.split())
        queries = (each.at_ns for each in trace if each.udp and each.receiver == service.resolver_port)
        took = sorted(1e-3 * (left - began) for began, left in zip(opened, queries, strict=True))
        low, middle, high = (took[round(share * (len(took) - 1))] for share in (0.05, 0.5, 0.95))
        tell(f"| IPv{ipver} | {middle:.1f} | {low:.1f} .. {high:.1f} |")
