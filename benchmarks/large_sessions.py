"""Cost of large sessions: cells collected, planned and forecast; testbeds side by side; the memory of a day.

    python benchmarks/large_sessions.py [--cells 100,1000,10000] [--testbeds 1,10,50] [--kept 60,260] [--hours 24]

Cells: the processor time and the peak of memory of `pytest --collect-only`, of as many cells. Testbeds: `-n auto` on
as many testbeds that share nothing, each with four cells, and the processor time of the controller, without its
workers, as a share of one processor. Kept: the bytes, counted by tracemalloc, that each cell between these two numbers
of cells leaves behind in the main process, which measures or is the controller of two workers. Hours: the memory of a
session of as many hours after each of them, and its peak, which is at its end. In these three, the network is
simulated and the rest is real; in the last, an hour of runs passes in less than a minute. An hour of `make measure`
has about 440 cells and 10,500 runs. An empty list or 0 leaves a part out.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.rounds import Goal, head, row, show
from tests.support.sessions.kept_memory import TRACED
from tests.support.sessions.projects import SYNTHETIC
from tests.support.sessions.xdist_workers import HOST

PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:randomly")
ARMS = 3
CELLS_OF_AN_HOUR = 440
DECIDED = (0, 10)  # exit statuses: all cells are within their margins, or some are undecided
SUITE = """
    import pytest

    @pytest.mark.smtp
    @pytest.mark.levels(connections={connections}, payload={payloads})
    @pytest.mark.margin("10%", at_least="0.5ms")
    def test_smtp_response_time(measured, margin):
        assert measured.slowdown <= margin
"""
# Appended to the simulated network: the memory after each workload, by the kernel's count.
REMEMBERED = """
    import os

    def measure(plan, *arguments, _measure=measure, **questions):
        answer = _measure(plan, *arguments, **questions)
        with open("/proc/self/statm") as statm, open("memory", "a") as log:
            print(int(statm.read().split()[1]) * 4096, sum(os.times()[:2]), file=log)
        return answer

    measuring.measure = measure
"""
# Appended to the simulated network: runs as long as real ones, and the controller's own processor time at its end.
PACED = """
    import os
    import time

    def run_in_time(self, *arguments, _run=LiveTestbed.run, **questions):
        time.sleep(0.3)
        return _run(self, *arguments, **questions)

    LiveTestbed.run = run_in_time

    def pytest_unconfigure(config):
        if not hasattr(config, "workerinput"):
            spent = os.times()
            with open("controller", "w") as log:
                print(spent.user + spent.system, file=log)
"""
TESTBED = """
[testbed side{number}]
client = client{number}
server = server{number}
"""


@dataclass(frozen=True)
class Cost:
    """Wall time and processor time of a session, in s, and its peak of memory, in MB."""

    wall_s: float
    cpu_s: float
    peak_mb: float


def ran(project: Path, *arguments: str, accepted: Sequence[int] = (0,)) -> Cost:
    """Run pytest in a folder; RuntimeError with the end of its output if its status is not accepted."""
    with (project / "output").open("w+", encoding="utf-8") as output:
        began = time.monotonic()
        process = subprocess.Popen([*PYTEST, *arguments], cwd=project, stdout=output, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.monotonic() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in accepted:
            output.seek(0)
            raise RuntimeError(f"pytest ended with status {process.returncode}: {output.read()[-2000:]}")
    return Cost(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def write(project: Path, name: str, text: str) -> None:
    """Write a file of a project."""
    (project / name).write_text(textwrap.dedent(text), encoding="utf-8")


def suite(cells: int) -> str:
    """Return a suite of at least that many cells on a lab, which has three arms to compare with IPv4."""
    levels = math.ceil(math.sqrt(cells / ARMS))
    payloads = [str(1000 + each) for each in range(math.ceil(cells / ARMS / levels))]
    connections = list(range(1, levels + 1))
    return SUITE.format(connections=connections, payloads=payloads)


def network(project: Path, connections: int = 300) -> str:
    """Return the conftest of a simulated network without a difference, whose runs have so many connections."""
    return SYNTHETIC.format(
        slower=0.0, noise=0.005, broken=(), invalid="", from_epoch=0, run_s=0.0, twin=0.0, fresh=None,
        log=str(project / "measured.log"), connections=connections,
    )  # fmt: skip


def inventory(testbeds: int) -> str:
    """Return an inventory of testbeds that share nothing; nothing connects to their hosts."""
    names = [f"{role}{number}" for number in range(testbeds) for role in ("client", "server")]
    return "".join(
        [TESTBED.format(number=number) for number in range(testbeds)]
        + [HOST.format(name=name, number=number) for number, name in enumerate(names, start=1)]
    )


def collected(counts: Sequence[int]) -> list[Goal]:
    """Print the cost of collecting; return the goals for 10,000 cells."""
    head("cells", "processor time, s", "wall, s", "peak of memory, MB")
    goals = []
    for count in counts:
        with tempfile.TemporaryDirectory() as folder:
            project = Path(folder)
            write(project, "test_large.py", suite(count))
            cost = ran(project, "--testbed=lab", "--collect-only")
        row(f"{count:,}", f"{cost.cpu_s:.2f}", f"{cost.wall_s:.2f}", f"{cost.peak_mb:.0f}")
        if count == 10_000:
            goals = [
                Goal("10,000 cells: wall, s", [cost.wall_s], 5),
                Goal("10,000 cells: memory, MB", [cost.peak_mb], 500),
            ]
    return goals


def side_by_side(counts: Sequence[int]) -> list[Goal]:
    """Print the cost of the controller; return the goals."""
    head("testbeds", "wall, s", "controller's processor time, s", "share of one processor", "all processes, s")
    goals = []
    for count in counts:
        with tempfile.TemporaryDirectory() as folder:
            project = Path(folder)
            write(project, "conftest.py", textwrap.dedent(network(project)) + textwrap.dedent(PACED))
            write(project, "test_large.py", suite(4 * ARMS))
            write(project, "hosts.ini", inventory(count))
            testbeds = ",".join(f"side{each}" for each in range(count))
            cost = ran(project, f"--testbed={testbeds}", "-n", "auto", accepted=DECIDED)
            controller_s = float((project / "controller").read_text(encoding="utf-8"))
        share = controller_s / cost.wall_s
        row(str(count), f"{cost.wall_s:.1f}", f"{controller_s:.2f}", f"{share:.0%}", f"{cost.cpu_s:.0f}")
        goals.append(Goal(f"{count} testbeds: controller's share of one processor", [share], 1))
    return goals


def kept(after: Sequence[int]) -> list[Goal]:
    """Print the bytes that a cell leaves behind, between two numbers of cells; return the goals."""
    first, last = after
    head("main process", "bytes kept for each cell")
    goals = []
    for name, testbeds, arguments in (
        ("measures", 1, ("--testbed=side0",)),
        ("is the controller of two workers", 2, ("--testbed=side0,side1", "-n2")),
    ):
        with tempfile.TemporaryDirectory() as folder:
            project = Path(folder)
            traced = TRACED.format(after=(first, last))
            # Few connections: samples are released, and tracing them takes minutes.
            write(project, "conftest.py", textwrap.dedent(network(project, 10)) + textwrap.dedent(traced))
            write(project, "test_large.py", suite(math.ceil(last / testbeds) * ARMS))
            write(project, "hosts.ini", inventory(testbeds))
            ran(project, *arguments, accepted=DECIDED)
            began, ended = map(int, (project / "traced").read_text(encoding="utf-8").split())
        each = (ended - began) / (last - first)
        row(name, f"{each:,.0f}")
        goals.append(Goal(f"bytes for each cell, main process {name}", [each], 3_000))
    return goals


def of_hours(hours: int) -> list[Goal]:
    """Print the memory after each hour; return the goal."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        write(project, "conftest.py", textwrap.dedent(network(project)) + textwrap.dedent(REMEMBERED))
        write(project, "test_large.py", suite(hours * CELLS_OF_AN_HOUR))
        cost = ran(project, "--testbed=lab", accepted=DECIDED)
        lines = [line.split() for line in (project / "memory").read_text(encoding="utf-8").splitlines()]
    head("after hour", "memory, MB", "processor time of that hour, s")
    of_an_hour = len(lines) / hours
    each_hour = [lines[round(of_an_hour * hour) - 1] for hour in range(1, hours + 1)]
    memory = [int(of_hour[0]) / 2**20 for of_hour in each_hour]
    spent_s = [float(of_hour[1]) for of_hour in each_hour]
    for hour, megabytes in enumerate(memory):
        row(str(hour + 1), f"{megabytes:.1f}", f"{spent_s[hour] - (spent_s[hour - 1] if hour else 0):.1f}")
    row("its end, with tables and page", f"{cost.peak_mb:.1f}", f"{cost.cpu_s - spent_s[-1]:.1f}")
    return [Goal(f"memory after hour {hours}, times that after the first", [memory[-1] / memory[0]], 1.0)]


def main() -> None:
    """Measure all parts and print their goals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = lambda text: [int(each) for each in text.split(",") if each]  # noqa: E731
    parser.add_argument("--cells", type=numbers, default=[100, 1_000, 10_000])
    parser.add_argument("--testbeds", type=numbers, default=[1, 10, 50])
    parser.add_argument("--kept", type=numbers, default=[60, 260])
    parser.add_argument("--hours", type=int, default=24)
    asked = parser.parse_args()
    if asked.kept and len(asked.kept) != 2:
        parser.error(f"--kept takes two numbers of cells, such as 60,260, not {asked.kept}")
    goals = collected(asked.cells) if asked.cells else []
    goals += side_by_side(asked.testbeds) if asked.testbeds else []
    goals += kept(asked.kept) if asked.kept else []
    goals += of_hours(asked.hours) if asked.hours else []
    show(goals)


if __name__ == "__main__":
    main()
