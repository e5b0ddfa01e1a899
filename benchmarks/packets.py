"""UDP datagrams per second beside iperf3, netperf and nuttcp, each as fast as it can.

    python benchmarks/packets.py [--rounds 5] [--seconds 1] [--size 1400,64]

All tools send from the first processor to the last one, over a veth pair between two namespaces. `sent` is what left
the sender, `received` what its receiver counted. Processor time is in microseconds for each sent datagram: of both
whole programs, for ours of both ends of a run. In each round every tool runs once, in random order, and ratios are
taken within a round. Figures are medians with the minimum and the maximum. `foreign` is the number of processors that
other programs used.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks.arena import DIRECT, Arena, arena, enter, have, machine
from benchmarks.ends import Ends, ends
from benchmarks.rounds import Goal, head, measured, paired, row, show, spread

SIZES = "1400,64"
OURS = {"ours": 15.0, "ours without segments": 0.95, "ours without batches": 0.70}
"""The engine with all techniques, without GSO and GRO, and with one system call for each datagram; and the goals."""
ADDRESS = DIRECT[4]
PORT = itertools.count(26000)
SENT, RECEIVED, NEAR_CPU, FAR_CPU, FOREIGN = range(5)
"""The figures of a trial: datagrams per second, and microseconds for each."""


@dataclass(frozen=True)
class Bench:
    """The arena and the settings of the trials."""

    place: Arena
    seconds: int
    size: int

    def ours(self, ends: Ends) -> Sequence[float]:
        """Run the project's own engine."""
        flown = ends.run("udp", ADDRESS, payload_bytes=self.size, run_s=self.seconds, rate="flood")
        sent, seconds = flown.fact("sent"), flown.fact("seconds")
        return _figures(sent, flown.fact("unique"), seconds, (flown.near_cpu_s, flown.far_cpu_s))

    def iperf3(self) -> Sequence[float]:
        """Run iperf3 with `-b 0`."""
        port = next(PORT)
        with self.place.far.running("iperf3", "-s", "-1", "-p", str(port), port=port) as server:
            argv = ["iperf3", "-u", "-b", "0", "-c", ADDRESS, "-p", str(port), "-t", str(self.seconds), "-J"]
            done, other = self.place.near.run(*argv, "-l", str(self.size)), server.ended()
        document = json.loads(done.said)
        sent = sum(each["sum"]["packets"] for each in document["intervals"])
        seconds = sum(each["sum"]["seconds"] for each in document["intervals"])
        summed = document["end"]["sum"]
        return _figures(sent, summed["packets"] - summed["lost_packets"], seconds, (done.cpu_s, other.cpu_s))

    def netperf(self) -> Sequence[float]:
        """Run netperf's UDP_STREAM."""
        port = next(PORT)
        argv = ["netserver", "-D", "-f", "-L", ADDRESS, "-p", str(port)]
        with self.place.far.running(*argv, port=port) as server:
            argv = ["netperf", "-H", ADDRESS, "-p", str(port), "-t", "UDP_STREAM", "-l", str(self.seconds), "--"]
            wanted = "LOCAL_SEND_CALLS,REMOTE_RECV_CALLS,ELAPSED_TIME"
            done = self.place.near.run(*argv, "-m", str(self.size), "-R", "1", "-k", wanted)
            other = server.stop()
        sent, received = (done.number(rf"{which}_CALLS=(\d+)") for which in ("LOCAL_SEND", "REMOTE_RECV"))
        return _figures(sent, received, done.number(r"ELAPSED_TIME=([\d.]+)"), (done.cpu_s, other.cpu_s))

    def nuttcp(self) -> Sequence[float]:
        """Run nuttcp without a rate."""
        control, port = next(PORT), next(PORT)
        ports = ["-P", str(control), "-p", str(port)]
        with self.place.far.running("nuttcp", "-1", "--nofork", *ports, port=control) as server:
            argv = ["nuttcp", "-u", "-Ru", f"-T{self.seconds}", f"-l{self.size}", *ports, "-fparse", ADDRESS]
            done = self.place.near.run(*argv)
            other = server.ended()
        sent = done.number(r"pkt=(\d+)")
        received = sent - done.number(r"drop=(\d+)")
        return _figures(sent, received, done.number(r"real_seconds=([\d.]+)"), (done.cpu_s, other.cpu_s))


def _figures(sent: float, received: float, seconds: float, cpu_s: tuple[float, float]) -> Sequence[float]:
    return sent / seconds, received / seconds, *(1e6 * each / sent for each in cpu_s)


def tools_of(bench: Bench, tools: Sequence[str], ours: Sequence[Ends]) -> dict[str, Callable[[], Sequence[float]]]:
    """Return the trials by tool."""
    found: dict[str, Callable[[], Sequence[float]]] = {
        name: partial(bench.ours, each) for name, each in zip(OURS, ours, strict=True)
    }
    every = {"iperf3": bench.iperf3, "netperf": bench.netperf, "nuttcp": bench.nuttcp}
    return {**found, **{name: run for name, run in every.items() if name in tools}}


def show_size(size: int, found: Mapping[str, Sequence[Sequence[float]]]) -> list[Goal]:
    """Print a row for each tool; return the goals."""
    head(f"{size} bytes", "sent, 1000/s", "received", "it / iperf3, sent", "us sender", "receiver", "foreign")
    goals = []
    for name, trials in found.items():
        column = list(zip(*trials, strict=True))
        ratios = paired(column[SENT], [each[SENT] for each in found["iperf3"]]) if "iperf3" in found else []
        row(
            name,
            *(spread([each / 1e3 for each in column[which]], 0) for which in (SENT, RECEIVED)),
            spread(ratios, 2) if ratios else "-",
            *(f"{statistics.median(column[which]):.2f}" for which in (NEAR_CPU, FAR_CPU, FOREIGN)),
        )
        if ratios and name in OURS:
            goals.append(Goal(f"{size} bytes, sent: {name} / iperf3 -b 0", ratios, OURS[name], at_least=True))
    return goals


def main() -> None:
    """Measure every size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=1, help="of each trial")
    parser.add_argument("--size", default=SIZES, help="payload bytes of a datagram")
    asked = parser.parse_args()
    enter()
    tools = have("iperf3", "netperf", "nuttcp")
    machine(*tools)
    goals: list[Goal] = []
    with arena() as place, contextlib.ExitStack() as stack:
        kinds = ((), ("segments",), ("segments", "batches"))
        ours = [stack.enter_context(ends(place.near, place.far, *without)) for without in kinds]
        for size in map(int, asked.size.split(",")):
            every = tools_of(Bench(place, asked.seconds, size), tools, ours)
            goals += show_size(size, measured(every, asked.rounds, f"packets {size}"))
    show(goals)


if __name__ == "__main__":
    main()
