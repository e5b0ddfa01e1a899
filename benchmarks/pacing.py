"""Evenness of paced datagrams beside iperf3, D-ITG, nuttcp and sockperf, measured by tcpdump at the receiver.

    python benchmarks/pacing.py [--rounds 5] [--seconds 1] [--rate 10,100]

Datagrams of 1400 bytes leave at a rate in Mbit/s of payload, from the first processor to the last one, over a veth pair
between two namespaces. Gaps are those between the kernel's timestamps in ns at the receiver's device; the error of a
gap is its distance from the requested one. `burst` is the share of gaps shorter than a quarter of that, `processor` the
share of one that the sender used. In each round every tool runs once, in random order, and ratios are taken within a
round. Figures are medians with the minimum and the maximum. `foreign` is the number of processors that other programs
used.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.arena import DIRECT, Arena, arena, enter, have, machine
from benchmarks.ends import Ends, ends
from benchmarks.referee import watching
from benchmarks.rounds import Goal, head, measured, paired, row, show, spread

ADDRESS = DIRECT[4]
SIZE = 1400
ENDS = 20  # datagrams that are ignored at either end of a stream
OURS, IPERF3 = "ours", "iperf3 -b"
PORT = itertools.count(26000)
RATE, MEDIAN, P95, P99, BURST, CPU, FOREIGN = range(7)
"""The figures of a trial: relative error of the rate, gap errors in us, shares."""
Sender = Callable[[], float]
"""Sends, and returns its processor time in s."""


@dataclass(frozen=True)
class Bench:
    """The arena, the rate and the other settings of the trials."""

    place: Arena
    ends: Ends
    seconds: int
    rate_bit_s: float
    folder: str

    @property
    def packets_s(self) -> float:
        """Datagrams per second."""
        return self.rate_bit_s / 8 / SIZE

    def tool(self, send: Sender, packets_s: float = 0.0) -> Callable[[], Sequence[float]]:
        """Return a trial of a tool; one that takes only whole rates may get a slightly different one."""

        def trial() -> Sequence[float]:
            with watching(self.place.far, "direct", "in", self.folder) as seen:
                cpu_s = send()
            stamps = [each.ended_ns for each in seen.whole if each.payload_bytes == SIZE]
            return _figures(stamps, packets_s or self.packets_s, cpu_s)

        return trial

    def ours(self) -> float:
        """Run the project's own engine."""
        flown = self.ends.run("udp", ADDRESS, payload_bytes=SIZE, run_s=self.seconds, rate=self.rate_bit_s)
        return flown.near_cpu_s

    def iperf3(self, *options: str) -> float:
        """Run iperf3 with `-b`."""
        port = next(PORT)
        with self.place.far.running("iperf3", "-s", "-1", "-p", str(port), port=port):
            argv = ["iperf3", "-u", "-b", f"{self.rate_bit_s:.0f}", "-l", str(SIZE), "-c", ADDRESS, "-p", str(port)]
            return self.place.near.run(*argv, "-t", str(self.seconds), *options).cpu_s

    def ditg(self, *options: str) -> float:
        """Run D-ITG at a constant packet rate."""
        control, port = next(PORT), next(PORT)
        with self.place.far.running("ITGRecv", "-Sp", str(control), port=control):
            argv = ["ITGSend", "-a", ADDRESS, "-Sdp", str(control), "-rp", str(port), "-T", "UDP", "-c", str(SIZE)]
            argv += ["-C", f"{self.packets_s:.3f}", "-t", str(1000 * self.seconds), "-l", f"{self.folder}/ditg.log"]
            return self.place.near.run(*argv, *options).cpu_s

    def nuttcp(self, option: str = "-R") -> float:
        """Run nuttcp at a rate, spinning (`-R`) or instantaneous (`-Ri`)."""
        control, port = next(PORT), next(PORT)
        ports = ["-P", str(control), "-p", str(port)]
        with self.place.far.running("nuttcp", "-1", "--nofork", *ports, port=control):
            rate = f"{option}{self.rate_bit_s / 1e3:.0f}"
            return self.place.near.run("nuttcp", "-u", rate, f"-T{self.seconds}", f"-l{SIZE}", *ports, ADDRESS).cpu_s

    def sockperf(self) -> float:
        """Run sockperf's throughput mode, which takes whole messages per second."""
        port = next(PORT)
        with self.place.far.running("sockperf", "sr", "--ip", ADDRESS, "--port", str(port), port=port):
            argv = ["sockperf", "tp", "--ip", ADDRESS, "--port", str(port), "-m", str(SIZE), "-t", str(self.seconds)]
            return self.place.near.run(*argv, "--mps", f"{self.packets_s:.0f}").cpu_s


def _figures(stamps_ns: Sequence[int], packets_s: float, cpu_s: float) -> Sequence[float]:
    counted = stamps_ns[ENDS:-ENDS]
    assert len(counted) > ENDS, f"only {len(stamps_ns)} datagrams came"
    asked_us = 1e6 / packets_s
    gaps_us = [(after - before) / 1e3 for before, after in itertools.pairwise(counted)]
    errors = sorted(abs(gap - asked_us) for gap in gaps_us)
    mean_us = statistics.fmean(gaps_us)
    return (
        asked_us / mean_us - 1,
        *(errors[int(len(errors) * share)] for share in (0.5, 0.95, 0.99)),
        sum(gap < asked_us / 4 for gap in gaps_us) / len(gaps_us),
        cpu_s / ((stamps_ns[-1] - stamps_ns[0]) / 1e9),
    )


def tools_of(bench: Bench, tools: Sequence[str]) -> dict[str, Callable[[], Sequence[float]]]:
    """Return the trials by tool."""
    found = {OURS: bench.tool(bench.ours)}
    if "iperf3" in tools:
        found[IPERF3] = bench.tool(bench.iperf3)
        found["iperf3 --pacing-timer 100"] = bench.tool(lambda: bench.iperf3("--pacing-timer", "100"))
    if "D-ITG" in tools:
        found |= {"D-ITG": bench.tool(bench.ditg), "D-ITG -poll": bench.tool(lambda: bench.ditg("-poll"))}
    if "nuttcp" in tools:
        found |= {"nuttcp -R": bench.tool(bench.nuttcp), "nuttcp -Ri": bench.tool(lambda: bench.nuttcp("-Ri"))}
    if "sockperf" in tools:
        found["sockperf tp"] = bench.tool(bench.sockperf, float(round(bench.packets_s)))
    return found


def show_rate(rate_mbit: int, found: Mapping[str, Sequence[Sequence[float]]]) -> list[Goal]:
    """Print a row for each tool; return the goals."""
    head(
        f"{rate_mbit} Mbit/s, a gap of {SIZE * 8 / rate_mbit:g} us", "rate is off by, %", "gap error, us: median",
        "95 %", "99 %", "burst, %", "processor", "foreign",
    )  # fmt: skip
    for name, trials in found.items():
        column = list(zip(*trials, strict=True))
        row(
            name,
            f"{100 * statistics.median(column[RATE]):+.3f}",
            spread(column[MEDIAN], 2),
            *(f"{statistics.median(column[which]):.1f}" for which in (P95, P99)),
            f"{100 * statistics.median(column[BURST]):.1f}",
            *(f"{statistics.median(column[which]):.2f}" for which in (CPU, FOREIGN)),
        )
    ours = list(zip(*found[OURS], strict=True))
    goals = [
        Goal(f"{rate_mbit} Mbit/s: median gap error of ours, us", ours[MEDIAN], 1),
        Goal(f"{rate_mbit} Mbit/s: rate of ours is off by, %", [100 * abs(each) for each in ours[RATE]], 0.01),
    ]
    if IPERF3 in found:
        ratios = paired(ours[MEDIAN], [each[MEDIAN] for each in found[IPERF3]])
        goals.append(Goal(f"{rate_mbit} Mbit/s: median gap error, ours / iperf3 -b", ratios, 0.02))
    if rate_mbit == 100:
        goals.append(Goal("100 Mbit/s: gap error of ours, 99 %, us", ours[P99], 50))
    return goals


def main() -> None:
    """Measure every rate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=1, help="of each trial")
    parser.add_argument("--rate", default="10,100", help="Mbit/s of payload")
    asked = parser.parse_args()
    enter()
    tools = have("iperf3", "D-ITG", "nuttcp", "sockperf")
    machine(*tools, "tcpdump")
    goals: list[Goal] = []
    with arena() as place, ends(place.near, place.far) as both, tempfile.TemporaryDirectory() as folder:
        for rate in map(int, asked.rate.split(",")):
            bench = Bench(place, both, asked.seconds, rate * 1e6, folder)
            goals += show_rate(rate, measured(tools_of(bench, tools), asked.rounds, f"pacing {rate}"))
    show(goals, 3)


if __name__ == "__main__":
    main()
