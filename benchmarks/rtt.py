"""Round-trip times beside sockperf, netperf, ping and fping, and TCP's handshake beside a C program.

    python benchmarks/rtt.py [--rounds 5] [--part udp,tcp,connect,icmp,size]

The first processor sends one probe after the other, the last one answers, over a veth pair between two namespaces. Ours
sends a probe each millisecond. sockperf does the same, and once sends as many as it can; netperf cannot be paced.
`poll` waits by busy polling, `sleep` sleeps until a packet comes. A trial lasts a second. In each round every tool runs
once, in random order, and ratios are taken within a round. Figures are medians with the minimum and the maximum.
`foreign` is the number of processors that other programs used.

The C program (gcc) opens and closes connections with nothing but system calls, to the same listening end as ours.
"""

from __future__ import annotations

import argparse
import itertools
import re
import shutil
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.arena import DIRECT, SEARCH, Arena, arena, enter, have, machine
from benchmarks.ends import Ends, ends
from benchmarks.rounds import Goal, head, measured, paired, row, show, spread

ADDRESS = DIRECT[4]
PAYLOAD_BYTES, PING_BYTES = 64, 56
SIZES = (32, 512, 1408, 8192, 16384, 32768, 65496)
PROBES = 1000
PORT = itertools.count(26000)
MIN, MEDIAN, P99, FOREIGN = range(4)
"""The figures of a trial, in us."""
Figures = Mapping[str, Sequence[Sequence[float]]]
Tool = Callable[[], Sequence[float]]
C_PROGRAM = """
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}
int main(int argc, char **argv) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[2]))};
    struct linger reset = {1, 0};
    inet_pton(AF_INET, argv[1], &to.sin_addr);
    double due = now();
    for (int left = atoi(argv[3]); left; left--) {
        int sock = socket(AF_INET, SOCK_STREAM, 0);
        setsockopt(sock, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        double began = now();
        if (connect(sock, (void *)&to, sizeof to)) return 1;
        printf("time=%.3f\\n", now() - began);
        close(sock);
        for (due += 1000; now() < due; ) usleep(50);
    }
}
"""
LISTENER = """
import socket, sys
listening = socket.create_server((sys.argv[1], int(sys.argv[2])), backlog=128)
while True:
    listening.accept()[0].close()
"""


@dataclass(frozen=True)
class Bench:
    """The arena and the settings of the trials."""

    place: Arena
    ends: Ends
    folder: str

    def ours(self, probe: str, waiting: str, payload_bytes: int = PAYLOAD_BYTES) -> Sequence[float]:
        """Run the project's own engine."""
        flown = self.ends.run(
            "rtt", ADDRESS, payload_bytes=payload_bytes, run_s=PROBES / 1000, probe=probe, waiting=waiting
        )
        return _figures([1e6 * each for each in flown.outcome.column("rtt_s")])

    def sockperf(self, *options: str, payload_bytes: int = PAYLOAD_BYTES, per_s: str = "1000") -> Sequence[float]:
        """Run sockperf's ping-pong."""
        port = next(PORT)
        argv = ["--ip", ADDRESS, "--port", str(port), *options]
        with self.place.far.running("sockperf", "sr", *argv, port=port) as server:
            output = self.place.near.run(
                "sockperf", "pp", *argv, "--full-rtt", "-t", "1", "--mps", per_s, "-m", str(payload_bytes)
            )
            server.stop()
        least = output.number(r"<MIN> observation = +([\d.]+)")
        return least, *(output.number(rf"percentile {share} = +([\d.]+)") for share in ("50.000", "99.000"))

    def netperf(self, test: str) -> Sequence[float]:
        """Run netperf's TCP_RR or UDP_RR."""
        port = next(PORT)
        with self.place.far.running("netserver", "-D", "-f", "-L", ADDRESS, "-p", str(port), port=port):
            argv = ["netperf", "-H", ADDRESS, "-p", str(port), "-t", test, "-l", "1", "--"]
            wanted = "MIN_LATENCY,P50_LATENCY,P99_LATENCY"
            output = self.place.near.run(*argv, "-r", f"{PAYLOAD_BYTES},{PAYLOAD_BYTES}", "-k", wanted)
        which = ("MIN", "P50", "P99")
        found = [output.number(rf"{each}_LATENCY=([\d.]+)") for each in which]
        return tuple(found)

    def openings(self) -> Sequence[float]:
        """Run the C program."""
        port = next(PORT)
        with self.place.far.running("python3", "-c", LISTENER, ADDRESS, str(port), port=port):
            said = self.place.near.run(f"{self.folder}/openings", ADDRESS, str(port), str(PROBES)).said
        return _figures([float(each) for each in re.findall(r"time=([\d.]+)", said)])

    def ping(self) -> Sequence[float]:
        """Run the ping of iputils."""
        said = self.place.near.run("ping", "-n", "-i", "0.001", "-c", str(PROBES), "-s", str(PING_BYTES), ADDRESS).said
        return _figures([1e3 * float(each) for each in re.findall(r"time=([\d.]+) ms", said)])

    def fping(self) -> Sequence[float]:
        """Run fping."""
        argv = ["fping", "-q", "-p", "1", "-C", str(PROBES), "-b", str(PING_BYTES), ADDRESS]
        said = self.place.near.run(*argv).said
        return _figures([1e3 * float(each) for each in re.findall(r"\d+\.\d+(?= |$)", said.partition(" : ")[2])])


def _figures(times_us: Sequence[float]) -> Sequence[float]:
    assert len(times_us) > PROBES // 10, f"only {len(times_us)} of {PROBES} probes were answered"
    ordered = sorted(times_us)
    return ordered[0], *(ordered[int(len(ordered) * share)] for share in (0.5, 0.99))


def show_part(title: str, found: Figures, against: Mapping[str, Mapping[str, float]]) -> list[Goal]:
    """Print a row for each tool; return the goals of ours as shares of the other tools' medians."""
    head(title, "minimum, us", "median", "99 %", "foreign")
    goals = []
    for name, trials in found.items():
        column = list(zip(*trials, strict=True))
        spreads = [spread(column[which], 2) for which in (MIN, MEDIAN, P99)]
        row(name, *spreads, f"{statistics.median(column[FOREIGN]):.2f}")
        for other, limit in against.get(name, {}).items():
            if other in found:
                ratios = paired(column[MEDIAN], [each[MEDIAN] for each in found[other]])
                goals.append(Goal(f"{title}: {name} / {other}, median", ratios, limit))
    return goals


def messages(proto: str, limit: float, bench: Bench, rounds: int, tools: Sequence[str]) -> list[Goal]:
    """Measure round trips by UDP or TCP."""
    found: dict[str, Tool] = {
        "ours, poll": partial(bench.ours, proto, "path"),
        "ours, sleep": partial(bench.ours, proto, "application"),
    }
    if proto == "udp":
        found["ours, wire"] = partial(bench.ours, proto, "wire")
    if "sockperf" in tools:
        option = ("--tcp",) if proto == "tcp" else ()
        found |= {
            "sockperf, poll": partial(bench.sockperf, "--nonblocked", *option),
            "sockperf, poll, no pause": partial(bench.sockperf, "--nonblocked", *option, per_s="max"),
            "sockperf, sleep": partial(bench.sockperf, *option),
            "sockperf, sleep, no pause": partial(bench.sockperf, *option, per_s="max"),
        }
    if "netperf" in tools:
        found["netperf, sleep, no pause"] = partial(bench.netperf, f"{proto.upper()}_RR")
    against = {
        "ours, poll": {"sockperf, poll": limit},
        "ours, sleep": {"sockperf, sleep": 1.15, "netperf, sleep, no pause": 1.15},
    }
    times = measured(found, rounds, proto)
    goals = show_part(f"{proto.upper()}, {PAYLOAD_BYTES} bytes", times, against)
    if "ours, wire" in times:
        goals.append(Goal("UDP: ours, wire, median, us", [each[MEDIAN] for each in times["ours, wire"]], 1))
    return goals


def connect(bench: Bench, rounds: int, _: Sequence[str]) -> list[Goal]:
    """Measure TCP's handshake."""
    found: dict[str, Tool] = {"ours": partial(bench.ours, "connect", "application")}
    if shutil.which("gcc", path=SEARCH):
        source = Path(bench.folder, "openings.c")
        source.write_text(C_PROGRAM, encoding="ascii")
        bench.place.near.run("gcc", "-O2", "-o", f"{bench.folder}/openings", str(source))
        found["C program"] = bench.openings
    else:
        print("gcc is not installed, so there is no C program (Debian: gcc)")
    times = measured(found, rounds, "connect")
    show_part("TCP, opening", times, {})
    if "C program" not in times:
        return []
    more = [mine[MEDIAN] - theirs[MEDIAN] for mine, theirs in zip(times["ours"], times["C program"], strict=True)]
    return [Goal("TCP, opening: ours - C program, median, us", more, 2)]


def icmp(bench: Bench, rounds: int, tools: Sequence[str]) -> list[Goal]:
    """Measure echo requests."""
    found: dict[str, Tool] = {
        f"ours, {name}": partial(bench.ours, "icmp", waiting, PING_BYTES)
        for name, waiting in (("poll", "path"), ("sleep", "application"), ("wire", "wire"))
    }
    every = {"ping": bench.ping, "fping": bench.fping}
    found |= {name: run for name, run in every.items() if name in tools}
    return show_part(
        f"ICMP, {PING_BYTES} bytes", measured(found, rounds, "icmp"), {"ours, wire": {"ping": 1.1, "fping": 0.5}}
    )


def size(bench: Bench, rounds: int, tools: Sequence[str]) -> list[Goal]:
    """Measure payloads from small to large, with both ends polling."""
    found: dict[str, Tool] = {}
    for each in SIZES:
        found[f"ours {each}"] = partial(bench.ours, "udp", "path", each)
        if "sockperf" in tools:
            found[f"sockperf {each}"] = partial(bench.sockperf, "--nonblocked", payload_bytes=each)
    times = measured(found, rounds, "size")
    head("UDP, poll, bytes", "ours: median, us", "99 %", "sockperf: median", "99 %", "ours / sockperf, median")
    goals = []
    for each in SIZES:
        cells = [
            spread([trial[which] for trial in times[name]], 1)
            for name in (f"ours {each}", f"sockperf {each}")
            if name in times
            for which in (MEDIAN, P99)
        ]
        if len(cells) == 2:
            row(str(each), *cells, "-", "-", "-")
            continue
        ratios = paired(*([trial[MEDIAN] for trial in times[f"{whose} {each}"]] for whose in ("ours", "sockperf")))
        row(str(each), *cells, spread(ratios, 2))
        goals.append(Goal(f"UDP, poll, {each} bytes: ours / sockperf, median", ratios, 1.15))
    return goals


PARTS: Mapping[str, Callable[[Bench, int, Sequence[str]], list[Goal]]] = {
    "udp": partial(messages, "udp", 1.15),
    "tcp": partial(messages, "tcp", 1.25),
    "connect": connect,
    "icmp": icmp,
    "size": size,
}


def main() -> None:
    """Measure the requested parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--part", default=",".join(PARTS))
    asked = parser.parse_args()
    enter()
    tools = have("sockperf", "netperf", "ping", "fping")
    machine(*tools)
    goals: list[Goal] = []
    with arena() as place, ends(place.near, place.far) as both, tempfile.TemporaryDirectory() as folder:
        for part in asked.part.split(","):
            goals += PARTS[part](Bench(place, both, folder), asked.rounds, tools)
    show(goals)


if __name__ == "__main__":
    main()
