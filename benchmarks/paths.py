"""TCP goodput of a lab's four paths, with a rate (against theory) and without, and their round-trip times.

    python benchmarks/paths.py [--rate 100mbit] [--rounds 7] [--seconds 1] [--testbed lab,pair] [--backend auto]

IPv4, IPv6, 6in4 and ISATAP are up at once. In each round iperf3 sends once on every path, in random order, and ping
sends thirty times on an idle path; ratios are taken within a round. All figures are medians with the minimum and the
maximum. Theory is the rate less Ethernet and headers; a median that is off by more than 1 % is marked. Without a rate
this machine's processors are the limit, so those figures only rank the paths.

It needs iperf3 and ping (Debian: iperf3, iputils-ping).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_ipperf.agent.tunnels.backends import BACKENDS
from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.measurement.goodput_ceiling import HeaderOverhead, ceiling_bit_s
from pytest_ipperf.core.portable.units import parse_rate, rate_text
from pytest_ipperf.lab.agents.leases import leased
from pytest_ipperf.lab.epoch.build import build_testbed
from pytest_ipperf.lab.inventory.builtin import BUILTIN, with_rate
from pytest_ipperf.lab.inventory.model import Host, Testbed
from pytest_ipperf.transports import TRANSPORTS

V4, V6 = Arm(4, "native"), Arm(6, "native")
PORT = 20000
PINGS, APART_S = 30, 0.01
OFF = 0.01
OWNER, WAIT_S = f"benchmarks/paths.py {os.getpid()}", 600.0
SEARCH = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
WIDTHS = (13, 32, 7, 9, 24, 24, 24)


@dataclass(frozen=True)
class Bench:
    """A lab that is up: the command prefix that enters a host, and the lab's arms."""

    testbed: Testbed
    entries: Mapping[str, Sequence[str]]
    arms: tuple[Arm, ...]

    def words(self, host: Host) -> list[str]:
        """Return the command prefix of a host, bound to its processors."""
        own = sorted(set(host.cpus) & os.sched_getaffinity(0))
        return [*self.entries[host.name], *(["taskset", "--cpu-list", ",".join(map(str, own))] if own else [])]

    def client(self, *argv: str) -> str:
        """Return the output of a command on the client."""
        done = subprocess.run(
            [*self.words(self.testbed.client), *argv], capture_output=True, text=True, check=False, timeout=60
        )
        assert not done.returncode, done.stdout + done.stderr
        return done.stdout

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """Run iperf3 on the server."""
        argv = [*self.words(self.testbed.server), "iperf3", "-s", "-p", str(PORT), "--forceflush"]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
            assert server.stdout
            said = next((line for line in server.stdout if "listening" in line), "")
            assert said, "iperf3 does not serve"
            # Nobody reads its further output, so it must not block on a full pipe.
            drain = subprocess.Popen(["cat"], stdin=server.stdout, stdout=subprocess.DEVNULL)
            try:
                yield
            finally:
                server.kill()
                drain.kill()
                drain.wait()


@dataclass
class Figures:
    """Figures of one path, by round: goodput in bit/s, mean round-trip time in seconds."""

    goodput_bit_s: list[float] = field(default_factory=list)
    round_trip_s: list[float] = field(default_factory=list)


def goodput_bit_s(bench: Bench, arm: Arm, seconds: int) -> float:
    """Return the goodput that the server received, by iperf3."""
    address = bench.testbed.path(arm).server
    said = bench.client("iperf3", "-c", address, "-p", str(PORT), "-t", str(seconds), "-J")
    return float(json.loads(said)["end"]["sum_received"]["bits_per_second"])


def round_trip_s(bench: Bench, arm: Arm) -> float:
    """Return the mean that ping reports."""
    address = bench.testbed.path(arm).server
    said = bench.client("ping", "-n", "-q", "-c", str(PINGS), "-i", str(APART_S), address)
    found = re.search(r"= [\d.]+/([\d.]+)/", said)
    assert found, said
    return float(found[1]) / 1000


def measured(bench: Bench, rounds: int, seconds: int) -> dict[Arm, Figures]:
    """Measure all paths, round by round; discard a first round."""
    figures: dict[Arm, Figures] = {arm: Figures() for arm in bench.arms}
    rng = random.Random(f"{bench.testbed.name}")
    with bench.serving():
        for number in range(rounds + 1):
            for arm in rng.sample(bench.arms, len(bench.arms)):
                trip, goodput = round_trip_s(bench, arm), goodput_bit_s(bench, arm, seconds)
                if number:
                    figures[arm].round_trip_s.append(trip)
                    figures[arm].goodput_bit_s.append(goodput)
    return figures


# --- the table --------------------------------------------------------------------------------------------------------


def _spread(values: Sequence[float], digits: int) -> str:
    texts = (f"{value:.{digits}f}" for value in (statistics.median(values), min(values), max(values)))
    return "{} [{} .. {}]".format(*texts)


def _ratios(each: Figures, other: Figures) -> str:
    pairs = zip(each.goodput_bit_s, other.goodput_bit_s, strict=True)
    return _spread([mine / theirs for mine, theirs in pairs], 3)


def theory_bit_s(arm: Arm, rate_bit_s: float) -> float:
    """Return the highest TCP goodput of a rate on that arm's path."""
    return ceiling_bit_s(
        rate_bit_s, HeaderOverhead(ipver=arm.ipver, overhead_bytes=TRANSPORTS[arm.transport].overhead_bytes)
    )


def rows(figures: Mapping[Arm, Figures], rate_bit_s: float) -> Iterator[tuple[str, ...]]:
    """Yield the table, beginning with its head."""
    yield "path", "Mbit/s", "theory", "of it", "/ IPv4", "/ IPv6", "round trip ms"
    for arm, each in figures.items():
        theory = of_it = "-"
        if rate_bit_s:
            most = theory_bit_s(arm, rate_bit_s)
            share = statistics.median(each.goodput_bit_s) / most
            theory, of_it = f"{most / 1e6:.2f}", f"{share:.3f}{' !' if abs(share - 1) > OFF else ''}"
        goodput = _spread([value / 1e6 for value in each.goodput_bit_s], 2 if rate_bit_s else 0)
        trip = _spread([1e3 * value for value in each.round_trip_s], 3)
        yield arm.title, goodput, theory, of_it, _ratios(each, figures[V4]), _ratios(each, figures[V6]), trip


def show(testbed: Testbed, backend: str, rounds: int, seconds: int) -> None:
    """Build the testbed, measure, and print."""
    with (
        leased(testbed, OWNER, WAIT_S, print),
        build_testbed(testbed, transports=tuple(testbed.paths), backend=backend) as up,
    ):
        names = set(up.tunnels.backends.values())
        carried = " and ".join(f"tunnels by {name} ({BACKENDS[name].title})" for name in names) or "no tunnels"
        links = str(testbed.links) or "no rate: bound by the processors"
        print(f"\n{testbed.name}: {links}; {carried}; Linux {os.uname().release}; {rounds} rounds of {seconds} s")
        for error in sorted({str(error) for error in up.tunnels.trouble.values()}):
            print(f"  {error}")
        arms = (V4, V6, *(Arm(6, transport) for transport in up.tunnels.backends))
        found = measured(Bench(testbed, up.entries, arms), rounds, seconds)
    for row in rows(found, testbed.links.rate_bit_s):
        print("  " + "".join(text.ljust(width) for text, width in zip(row, WIDTHS, strict=True)).rstrip(), flush=True)


def main() -> None:
    """Measure every testbed, with the rate and without."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", default="100mbit", help="of the links, such as 100mbit")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=1, help="of each transfer")
    parser.add_argument("--testbed", default="lab,pair")
    parser.add_argument("--backend", default="auto", help=f"auto, {', '.join(BACKENDS)}")
    asked = parser.parse_args()
    for program, package in (("iperf3", "iperf3"), ("ping", "iputils-ping")):
        if not shutil.which(program, path=SEARCH):
            sys.exit(f"{program} is not installed (Debian: apt-get install {package})")
    print(f"rate {rate_text(parse_rate(asked.rate))}; medians with minimum and maximum of {asked.rounds} rounds")
    for name in asked.testbed.split(","):
        for testbed in (with_rate(f"{name}.{asked.rate}", BUILTIN), BUILTIN[name]):
            assert testbed, f"{name} is no lab, or {asked.rate} no rate"
            show(testbed, asked.backend, asked.rounds, asked.seconds)


if __name__ == "__main__":
    main()
