"""Agreement of ours, iperf3 and D-ITG with the wire about one path: throughput, loss and jitter, IPv4 and IPv6.

    python benchmarks/agreement.py [--rounds 5] [--seconds 1] [--offered 60,120] [--size 1400,8192]

The path goes through a router with a token bucket of 100 Mbit/s on its egress, a burst of 32 kB and a queue of 150 kB.
In each round of a case (IP version, size, offered Mbit/s of payload) every tool sends once for some seconds, in random
order, into an empty queue. tcpdump captures at both ends, reassembles fragments, and gives the `wire` figures of each
tool's own stream: payload between its first and last arrival, or departure if that took longer, datagrams that left and
did not arrive whole, and jitter between the kernel's timestamps. All figures are medians of the rounds. A tool agrees
if in each round its throughput is within 2 % of the wire's, and its loss within 0.2 points. `foreign` is the number of
processors that other programs used.

The jitter of iperf3 and ours is RFC 3550's, that of D-ITG the mean change of the delay; each is compared with the
wire's of the same kind. D-ITG polls (-poll), as it is too slow otherwise. TCP is compared between two tools and with
the ceiling.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from benchmarks.arena import (
    BURST_BYTES,
    FRAME_BYTES,
    LIMIT_BYTES,
    RATE_BIT_S,
    ROUTED,
    Arena,
    arena,
    enter,
    have,
    machine,
)
from benchmarks.ends import Ends, ends
from benchmarks.referee import Capture, Datagram, watching
from benchmarks.rounds import foreign, head, interleaved, row

MTU = 1500
IP_BYTES, UDP_BYTES, TCP_BYTES = {4: 20, 6: 40}, 8, 32
FRAGMENT_BYTES = {4: 0, 6: 8}
CLOSE, POINTS = 0.02, 0.2
PORT = itertools.count(26000)
OWN_PORTS = range(20000, 25000)
TRIES = 3


@dataclass(frozen=True)
class Case:
    """What is offered, in payload bits per second, and the IP version."""

    ipver: int
    size: int
    offered_bit_s: float

    @property
    def frame_bytes(self) -> int:
        """The bytes that the token bucket counts for a datagram, with all fragments."""
        room = MTU - IP_BYTES[self.ipver]
        if self.size + UDP_BYTES <= room:
            return self.size + UDP_BYTES + IP_BYTES[self.ipver] + FRAME_BYTES
        held = (room - FRAGMENT_BYTES[self.ipver]) // 8 * 8
        fragments = -(-(self.size + UDP_BYTES) // held)
        each = IP_BYTES[self.ipver] + FRAGMENT_BYTES[self.ipver] + FRAME_BYTES
        return self.size + UDP_BYTES + fragments * each

    def loss(self, seconds: float) -> float:
        """Return the loss of a stream of unfragmented packets of this duration into an empty queue."""
        sent = self.offered_bit_s * seconds * self.frame_bytes / self.size
        kept = 8 * (BURST_BYTES + LIMIT_BYTES)
        return max(0.0, 1 - (RATE_BIT_S * seconds + kept) / sent)


@dataclass(frozen=True)
class Said:
    """A tool's own figures of its stream, and its ports; jitter in s, as RFC 3550's or (`mean`) as mean change."""

    throughput_bit_s: float
    loss: float
    jitter_s: float
    ports: Sequence[int]
    mean: bool = False


@dataclass(frozen=True)
class Wire:
    """The figures of the capture for a tool's stream."""

    sent: int
    throughput_bit_s: float
    offered_bit_s: float
    loss: float
    jitter_s: float


@dataclass(frozen=True)
class Bench:
    """The arena and the settings of the trials."""

    place: Arena
    ends: Ends
    seconds: int
    folder: str

    def ours(self, case: Case) -> Said:
        """Run the project's own engine, without a warm-up, so that it finds the queue empty like the others."""
        flown = self.ends.run(
            "udp", ROUTED[case.ipver], payload_bytes=case.size, run_s=self.seconds, warmup_s=0.0,
            rate=case.offered_bit_s,
        )  # fmt: skip
        return Said(flown.value("throughput"), flown.value("loss"), flown.value("jitter"), OWN_PORTS)

    def iperf3(self, case: Case) -> Said:
        """Run iperf3; return what its receiver reports."""
        port = next(PORT)
        with self.place.far.running("iperf3", "-s", "-1", "-J", "-p", str(port), port=port) as server:
            argv = ["iperf3", "-u", "-c", ROUTED[case.ipver], "-p", str(port), "-t", str(self.seconds), "-l"]
            rate = ["-b", f"{case.offered_bit_s:.0f}", "--pacing-timer", "100", "-w", "2M"]
            self.place.near.run(*argv, str(case.size), *rate)
            summed = json.loads(server.ended().said)["end"]["sum"]
        received = summed["packets"] - summed["lost_packets"]
        bit_s = 8 * case.size * received / summed["seconds"]
        return Said(bit_s, summed["lost_percent"] / 100, summed["jitter_ms"] / 1e3, [port])

    def ditg(self, case: Case) -> Said:
        """Run D-ITG; return what its decoder reports of the receiver's log."""
        control, port = next(PORT), next(PORT)
        log, packets_s = f"{self.folder}/ditg.log", case.offered_bit_s / 8 / case.size
        with self.place.far.running("ITGRecv", "-Sp", str(control), port=control):
            argv = ["ITGSend", "-a", ROUTED[case.ipver], "-Sdp", str(control), "-rp", str(port), "-T", "UDP", "-poll"]
            argv += ["-c", str(case.size), "-C", f"{packets_s:.3f}", "-t", str(1000 * self.seconds)]
            self.place.near.run(*argv, "-x", log, "-l", f"{self.folder}/sender.log")
        output = self.place.near.run("ITGDec", log, fails=True)
        bit_s, loss = output.number(r"Average bitrate += +([\d.]+)"), output.number(r"dropped += +\d+ \(([\d.]+) %")
        return Said(1e3 * bit_s, loss / 100, output.number(r"Average jitter += +([\d.]+)"), [port], mean=True)


def wire(case: Case, said: Said, left: Capture, came: Capture) -> Wire:
    """Return the captured figures of a tool's stream; datagrams of other sizes are not part of it."""
    sent, whole = ([each for each in seen.of(*said.ports) if each.payload_bytes == case.size] for seen in (left, came))
    began = {each.key: each.began_ns for each in sent}
    delays = [each.ended_ns - began[each.key] for each in whole]
    changes = [abs(after - before) / 1e9 for before, after in itertools.pairwise(delays)]
    jitter_s = statistics.fmean(changes) if said.mean else _smoothed(changes)
    lasted_ns = sent[-1].ended_ns - sent[0].ended_ns
    return Wire(len(sent), _rate_bit_s(whole, lasted_ns), _rate_bit_s(sent), 1 - len(whole) / len(sent), jitter_s)


def _smoothed(changes: Sequence[float]) -> float:
    """Return the jitter of RFC 3550, section 6.4.1."""
    jitter = 0.0
    for change in changes:
        jitter += (change - jitter) / 16
    return jitter


def _rate_bit_s(seen: Sequence[Datagram], least_ns: int = 0) -> float:
    lasted_ns = max(least_ns, seen[-1].ended_ns - seen[0].ended_ns)
    return 8e9 * seen[0].payload_bytes * (len(seen) - 1) / lasted_ns


@dataclass
class Found:
    """The figures of one tool in one case, by round."""

    said: list[Said] = field(default_factory=list)
    wire: list[Wire] = field(default_factory=list)
    foreign: list[float] = field(default_factory=list)

    def cells(self) -> Iterator[str]:
        """Yield the cells of a row."""
        for one, other in (("throughput_bit_s", 1e6), ("loss", 1e-2), ("jitter_s", 1e-6)):
            for measured in (self.said, self.wire):
                yield f"{statistics.median(getattr(each, one) for each in measured) / other:.2f}"

    def agrees(self) -> Iterator[str]:
        """Yield the disagreements."""
        pairs = list(zip(self.said, self.wire, strict=True))
        if off := sum(abs(said.throughput_bit_s / seen.throughput_bit_s - 1) > CLOSE for said, seen in pairs):
            yield f"throughput differs in {off} of {len(pairs)}"
        if off := sum(100 * abs(said.loss - seen.loss) > POINTS for said, seen in pairs):
            yield f"loss differs in {off} of {len(pairs)}"


def one_round(bench: Bench, case: Case, tools: Mapping[str, Callable[[Case], Said]], seed: str) -> dict[str, Found]:
    """Run every tool once, under one pair of captures."""
    said = {}
    place = bench.place
    with (
        watching(place.near, "way", "out", bench.folder) as left,
        watching(place.far, "way", "in", bench.folder) as came,
    ):
        for name in interleaved(list(tools), 1, seed):
            place.settle()
            said[name] = foreign(partial(tools[name], case))
    return {
        name: Found([reported], [wire(case, reported, left, came)], [others])
        for name, (reported, others) in said.items()
    }


def show_case(case: Case, found: Mapping[str, Found], seconds: float) -> None:
    """Print the rows of a case."""
    ceiling_bit_s = min(case.offered_bit_s, RATE_BIT_S * case.size / case.frame_bytes)
    theory = f"{ceiling_bit_s / 1e6:.2f}, {100 * case.loss(seconds):.2f} %" if case.size < MTU else "-"
    for name, each in found.items():
        reached = statistics.median(seen.offered_bit_s for seen in each.wire) / 1e6
        title = f"IPv{case.ipver}, {case.size} B, {case.offered_bit_s / 1e6:.0f} Mbit/s"
        others = f"{statistics.median(each.foreign):.2f}"
        row(title, theory, name, f"{reached:.2f}", *each.cells(), "; ".join(each.agrees()) or "yes", others)


def udp(bench: Bench, cases: Sequence[Case], tools: Sequence[str], rounds: int) -> None:
    """Measure all cases, round by round."""
    every: dict[str, Callable[[Case], Said]] = {"ours": bench.ours}
    every |= {"iperf3": bench.iperf3} if "iperf3" in tools else {}
    every |= {"D-ITG": bench.ditg} if "D-ITG" in tools else {}
    found: dict[Case, dict[str, Found]] = {case: defaultdict(Found) for case in cases}
    for number in range(rounds):
        for case in cases:
            for name, one in tried(partial(one_round, bench, case, every, f"{number} {case}")).items():
                found[case][name].said += one.said
                found[case][name].wire += one.wire
                found[case][name].foreign += one.foreign
    head(
        "case", "expected Mbit/s, loss", "tool", "offered, wire", "Mbit/s", "wire", "loss, %", "wire", "jitter, us",
        "wire", "agrees", "foreign",
    )  # fmt: skip
    for case, tool in found.items():
        show_case(case, {name: tool[name] for name in every}, bench.seconds)


def tried(once: Callable[[], dict[str, Found]]) -> dict[str, Found]:
    """Make a round; repeat it if it fails."""
    for left in range(TRIES - 1, -1, -1):
        try:
            return once()
        except AssertionError as error:
            if not left:
                raise
            print(f"a round is repeated: {error}", file=sys.stderr)
    raise AssertionError


def tcp(bench: Bench, rounds: int) -> None:
    """Print the goodput of both tools, and the ceiling."""

    def iperf3(ipver: int) -> float:
        port = next(PORT)
        with bench.place.far.running("iperf3", "-s", "-1", "-p", str(port), port=port) as server:
            argv = ["iperf3", "-c", ROUTED[ipver], "-p", str(port), "-t", "2", "-C", "cubic", "-J"]
            said = bench.place.near.run(*argv).said
            server.ended()
        return float(json.loads(said)["end"]["sum_received"]["bits_per_second"])

    def ours(ipver: int) -> float:
        return bench.ends.run("tcp", ROUTED[ipver], payload_bytes=131072, run_s=2).value("throughput")

    head("TCP", "expected Mbit/s", "ours", "iperf3", "ours / iperf3")
    for ipver in (4, 6):
        found: dict[str, list[float]] = {"ours": [], "iperf3": []}
        for name in interleaved(list(found), rounds, f"tcp {ipver}"):
            found[name].append({"ours": ours, "iperf3": iperf3}[name](ipver))
        share = (MTU - IP_BYTES[ipver] - TCP_BYTES) / (MTU + FRAME_BYTES)
        medians = [statistics.median(each) for each in found.values()]
        cells = (RATE_BIT_S * share, *medians)
        row(f"IPv{ipver}", *(f"{bit_s / 1e6:.2f}" for bit_s in cells), f"{medians[0] / medians[1]:.4f}")


def main() -> None:
    """Measure every case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=1, help="of each trial")
    parser.add_argument("--offered", default="60,120", help="Mbit/s of payload")
    parser.add_argument("--size", default="1400,8192", help="payload bytes of a datagram")
    asked = parser.parse_args()
    enter()
    tools = have("iperf3", "D-ITG")
    machine(*tools, "tcpdump")
    offered, sizes = ([int(each) for each in listed.split(",")] for listed in (asked.offered, asked.size))
    cases = [Case(ipver, size, rate * 1e6) for size in sizes for rate in offered for ipver in (4, 6)]
    with arena() as place, ends(place.near, place.far) as both, tempfile.TemporaryDirectory() as folder:
        place.shape()
        bench = Bench(place, both, asked.seconds, folder)
        udp(bench, cases, tools, asked.rounds)
        if "iperf3" in tools:
            tcp(bench, asked.rounds)


if __name__ == "__main__":
    main()
