"""TCP's throughput beside iperf3, netperf and nuttcp: streams, windows, sizes of writes, and processor time.

    python benchmarks/throughput.py [--rounds 5] [--seconds 1] [--part veth,four,loopback,window,write]

All tools send from the first processor to the last one, over a veth pair between two namespaces or over loopback, with
cubic. The figures are what the receiver counted. Processor time is in seconds for each GB (10^9 bytes): of both whole
programs, for ours of both ends of a run. In each round every tool runs once, in random order, and ratios are taken
within a round. Figures are medians with the minimum and the maximum. `foreign` is the number of processors that other
programs used.

netperf only reads and writes in a loop, so it shows what the kernel reaches. The route sets the congestion control of
nuttcp, which cannot choose it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.arena import DIRECT, LOCAL, Arena, Host, arena, enter, have, machine
from benchmarks.ends import Ends, ends
from benchmarks.rounds import Goal, head, measured, paired, row, show, spread

KIB = 1024
SMALL, LARGE = 128 * KIB, KIB * KIB
WINDOWS = tuple(kib * KIB for kib in (8, 16, 64, 256, 1024))
WRITES = (32, 512, 1408, 8192, 65496)
OURS, OURS_LARGE = "ours, 128 KiB", "ours, 1 MiB"
NO_COPIES = f"{OURS_LARGE}, discard", f"{OURS_LARGE}, sendfile, discard"
PORT = itertools.count(26000)
BIT_S, NEAR_CPU, FAR_CPU, RETRANSMITS, FOREIGN = range(5)
"""The figures of a trial; processor time is in s/GB."""
Figures = Mapping[str, Sequence[Sequence[float]]]
Tool = Callable[[], Sequence[float]]


@dataclass(frozen=True)
class Bench:
    """The two hosts, the duration of a trial, and the installed tools."""

    near: Host
    far: Host
    ends: Ends
    address: str
    seconds: int
    tools: Sequence[str]

    def ours(
        self, write_bytes: int = SMALL, streams: int = 1, window: int | str = "auto", **copies: Any
    ) -> Sequence[float]:
        """Run the project's own engine, which may leave out `copies`: factors `sending` and `receiving`."""
        flown = self.ends.run(
            "tcp", self.address, payload_bytes=write_bytes, run_s=self.seconds, connections=streams, window=window,
            **copies,
        )  # fmt: skip
        sent_bytes = flown.fact("sent_bytes") - flown.fact("retransmitted_bytes")
        return _figures(
            flown.value("throughput"), sent_bytes, (flown.near_cpu_s, flown.far_cpu_s), flown.fact("retransmits")
        )

    def iperf3(self, *options: str) -> Sequence[float]:
        """Run iperf3 with these options."""
        port = next(PORT)
        with self.far.running("iperf3", "-s", "-1", "-p", str(port), port=port) as server:
            argv = ["iperf3", "-c", self.address, "-p", str(port), "-t", str(self.seconds), "-C", "cubic", "-J"]
            done, other = self.near.run(*argv, *options), server.ended()
        end = json.loads(done.said)["end"]
        received = end["sum_received"]
        retransmits = end["sum_sent"]["retransmits"]
        return _figures(received["bits_per_second"], received["bytes"], (done.cpu_s, other.cpu_s), retransmits)

    def netperf(self, write_bytes: int) -> Sequence[float]:
        """Run netperf's TCP_STREAM."""
        port = next(PORT)
        with self.far.running("netserver", "-D", "-f", "-L", self.address, "-p", str(port), port=port) as server:
            argv = ["netperf", "-H", self.address, "-p", str(port), "-t", "TCP_STREAM", "-l", str(self.seconds), "--"]
            wanted = "THROUGHPUT,LOCAL_BYTES_SENT"
            done = self.near.run(*argv, "-m", str(write_bytes), "-K", "cubic,cubic", "-k", wanted)
            other = server.stop()
        bit_s = 1e6 * done.number(r"THROUGHPUT=([\d.]+)")
        return _figures(bit_s, done.number(r"LOCAL_BYTES_SENT=(\d+)"), (done.cpu_s, other.cpu_s), float("nan"))

    def nuttcp(self, write_bytes: int) -> Sequence[float]:
        """Run nuttcp in its classic mode."""
        control, port = next(PORT), next(PORT)
        ports = ["-P", str(control), "-p", str(port)]
        with self.far.running("nuttcp", "-1", "--nofork", *ports, port=control) as server:
            argv = ["nuttcp", f"-T{self.seconds}", f"-l{write_bytes}", *ports, "-fparse", self.address]
            done = self.near.run(*argv)
            other = server.ended()
        return _figures(
            1e6 * done.number(r"rate_Mbps=([\d.]+)"),
            2**20 * done.number(r"megabytes=([\d.]+)"),
            (done.cpu_s, other.cpu_s),
            done.number(r"retrans=(\d+)"),
        )


def _figures(bit_s: float, moved_bytes: float, cpu_s: tuple[float, float], retransmits: float) -> Sequence[float]:
    return bit_s, *(1e9 * each / moved_bytes for each in cpu_s), retransmits


def without_copies(bench: Bench, streams: int) -> dict[str, Tool]:
    """Return the trials with writes of 1 MiB that leave out copies of the sender, of the receiver, or of both."""
    ways = {"sendfile": ("sendfile", "read"), "zerocopy": ("zerocopy", "read"), "discard": ("write", "discard"),
            "sendfile, discard": ("sendfile", "discard")}  # fmt: skip
    return {
        f"{OURS_LARGE}, {name}": partial(bench.ours, LARGE, streams, sending=sending, receiving=receiving)
        for name, (sending, receiving) in ways.items()
    }


def streams_of(bench: Bench) -> dict[str, Tool]:
    """Return the trials of one stream, by tool."""
    found: dict[str, Tool] = {OURS: bench.ours, OURS_LARGE: lambda: bench.ours(LARGE), **without_copies(bench, 1)}
    if "iperf3" in bench.tools:
        found |= {"iperf3": bench.iperf3, "iperf3 -Z": lambda: bench.iperf3("-Z")}
    if "netperf" in bench.tools:
        found |= {"netperf, 128 KiB": lambda: bench.netperf(SMALL), "netperf, 1 MiB": lambda: bench.netperf(LARGE)}
    if "nuttcp" in bench.tools:
        found |= {"nuttcp, 128 KiB": lambda: bench.nuttcp(SMALL)}
    return found


def four_of(bench: Bench) -> dict[str, Tool]:
    """Return the trials of four streams at once, by tool."""
    found: dict[str, Tool] = {OURS: lambda: bench.ours(streams=4), OURS_LARGE: lambda: bench.ours(LARGE, streams=4)}
    found |= without_copies(bench, 4)
    if "iperf3" in bench.tools:
        found |= {"iperf3 -P 4": lambda: bench.iperf3("-P", "4"), "iperf3 -P 4 -Z": lambda: bench.iperf3("-P4", "-Z")}
    return found


def _column(found: Figures, name: str, which: int) -> list[float]:
    return [figures[which] for figures in found[name]]


def _ratios(found: Figures, mine: str, theirs: str, which: int = BIT_S) -> list[float]:
    return paired(_column(found, mine, which), _column(found, theirs, which))


def _cpu(found: Figures, name: str) -> list[float]:
    return [figures[NEAR_CPU] + figures[FAR_CPU] for figures in found[name]]


def show_streams(title: str, found: Figures) -> None:
    """Print a row for each tool."""
    head(title, "Gbit/s", f"{OURS} / it", f"{OURS_LARGE} / it", "s/GB sender", "receiver", "retransmits", "foreign")
    for name in found:
        medians = [statistics.median(_column(found, name, which)) for which in (NEAR_CPU, FAR_CPU, FOREIGN)]
        retransmits = statistics.median(_column(found, name, RETRANSMITS))
        row(
            name,
            spread([bit_s / 1e9 for bit_s in _column(found, name, BIT_S)], 1),
            *("1" if name == mine else spread(_ratios(found, mine, name), 2) for mine in (OURS, OURS_LARGE)),
            *(f"{median:.3f}" for median in medians[:2]),
            "-" if retransmits != retransmits else f"{retransmits:.0f}",  # noqa: PLR0124 - nan: netperf does not report it
            f"{medians[2]:.2f}",
        )


def goals_of(found: Figures, path: str, asked: Mapping[tuple[str, str], float]) -> list[Goal]:
    """Return the goals of throughput for the tools that were measured."""
    return [
        Goal(f"{path}: {mine} / {theirs}", _ratios(found, mine, theirs), limit, at_least=True)
        for (mine, theirs), limit in asked.items()
        if theirs in found
    ]


def veth(bench: Bench, rounds: int) -> list[Goal]:
    """Measure one stream between two hosts."""
    found = measured(streams_of(bench), rounds, "veth")
    show_streams("one stream, veth", found)
    goals = goals_of(
        found,
        "one stream, veth",
        {
            (OURS, "netperf, 128 KiB"): 0.90,
            (OURS_LARGE, "netperf, 1 MiB"): 0.85,
            (OURS, "iperf3"): 1.5,
            (OURS_LARGE, "iperf3"): 1.8,
        },
    )
    if "iperf3" in found:
        goals.append(Goal("one stream, veth: s/GB of ours, 128 KiB / iperf3", _cpu_ratios(found, OURS, "iperf3"), 0.65))
    return goals + goals_without_copies(found, "one stream, veth", "iperf3 -Z")


def goals_without_copies(found: Figures, path: str, theirs: str) -> list[Goal]:
    """Return the goals of throughput and processor time beside a tool that sends without copies."""
    goals = []
    for mine in NO_COPIES if theirs in found else ():
        goals += goals_of(found, path, {(mine, theirs): 1.2})
        goals.append(Goal(f"{path}: s/GB of {mine} / {theirs}", _cpu_ratios(found, mine, theirs), 1.0))
    return goals


def _cpu_ratios(found: Figures, mine: str, theirs: str) -> list[float]:
    return paired(_cpu(found, mine), _cpu(found, theirs))


def loopback(bench: Bench, rounds: int) -> list[Goal]:
    """Measure one stream within one host."""
    found = measured(streams_of(bench), rounds, "loopback")
    show_streams("one stream, loopback", found)
    goals = goals_of(found, "one stream, loopback", {(OURS, "iperf3"): 1.0, (OURS_LARGE, "iperf3"): 1.3})
    return goals + goals_without_copies(found, "one stream, loopback", "iperf3 -Z")


def four(bench: Bench, rounds: int) -> list[Goal]:
    """Measure four streams between two hosts."""
    found = measured(four_of(bench), rounds, "four")
    show_streams("four streams, veth", found)
    asked = {(OURS, "iperf3 -P 4"): 1.15, (OURS_LARGE, "iperf3 -P 4"): 1.3}
    goals = goals_of(found, "four streams, veth", asked)
    return goals + goals_without_copies(found, "four streams, veth", "iperf3 -P 4 -Z")


def window(bench: Bench, rounds: int) -> list[Goal]:
    """Measure sizes of socket buffers, which the kernel doubles and caps for all tools alike."""
    tools: dict[str, Tool] = {}
    for each in WINDOWS:
        tools[f"ours {each}"] = lambda each=each: bench.ours(window=each)  # type: ignore[misc]
        if "iperf3" in bench.tools:
            tools[f"iperf3 {each}"] = lambda each=each: bench.iperf3("-w", str(each))  # type: ignore[misc]
    found = measured(tools, rounds, "window")
    head("window, bytes", "ours, Gbit/s", "iperf3 -w", "ours / iperf3")
    goals = []
    for each in WINDOWS:
        goals += _row_of_sizes(found, each, {"iperf3": (f"window {each}: ours / iperf3 -w", 1.0)})
    return goals


def write(bench: Bench, rounds: int) -> list[Goal]:
    """Measure sizes of writes."""
    tools: dict[str, Tool] = {}
    for each in WRITES:
        tools[f"ours {each}"] = lambda each=each: bench.ours(each)  # type: ignore[misc]
        if "iperf3" in bench.tools:
            tools[f"iperf3 {each}"] = lambda each=each: bench.iperf3("-l", str(each))  # type: ignore[misc]
        if "netperf" in bench.tools:
            tools[f"netperf {each}"] = lambda each=each: bench.netperf(each)  # type: ignore[misc]
    found = measured(tools, rounds, "write")
    head("write, bytes", "ours, Gbit/s", "iperf3 -l", "ours / iperf3", "netperf -m", "ours / netperf")
    goals = []
    for each in WRITES:
        least = {32: 0.70}.get(each, 0.85 if each >= 1408 else 0.0)
        goals += _row_of_sizes(
            found, each, {"iperf3": ("", 0.0), "netperf": (f"writes of {each}: ours / netperf -m", least)}
        )
    return goals


def _row_of_sizes(found: Figures, size: int, others: Mapping[str, tuple[str, float]]) -> list[Goal]:
    mine, cells, goals = f"ours {size}", [], []
    for other, (text, limit) in others.items():
        theirs = f"{other} {size}"
        if theirs not in found:
            cells += ["-", "-"]
            continue
        ratios = _ratios(found, mine, theirs)
        cells += [spread([bit_s / 1e9 for bit_s in _column(found, theirs, BIT_S)], 2), spread(ratios, 2)]
        goals += [Goal(text, ratios, limit, at_least=True)] if limit else []
    row(str(size), spread([bit_s / 1e9 for bit_s in _column(found, mine, BIT_S)], 2), *cells)
    return goals


PARTS: Mapping[str, Callable[[Bench, int], list[Goal]]] = {
    "veth": veth,
    "four": four,
    "loopback": loopback,
    "window": window,
    "write": write,
}


def bench_of(part: str, place: Arena, seconds: int, tools: Sequence[str]) -> tuple[Host, str]:
    """Return the receiver of a part, and its address."""
    del seconds, tools
    return (Host(place.near.pid, place.far.cpu), LOCAL[4]) if part == "loopback" else (place.far, DIRECT[4])


def main() -> None:
    """Measure the requested parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=1, help="of each trial")
    parser.add_argument("--part", default=",".join(PARTS))
    asked = parser.parse_args()
    enter()
    tools = have("iperf3", "netperf", "nuttcp")
    machine(*tools)
    goals: list[Goal] = []
    with arena() as place:
        for part in asked.part.split(","):
            far, address = bench_of(part, place, asked.seconds, tools)
            with ends(place.near, far) as both:
                bench = Bench(place.near, far, both, address, asked.seconds, tools)
                goals += PARTS[part](bench, asked.rounds)
    show(goals)


if __name__ == "__main__":
    main()
