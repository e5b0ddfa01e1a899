"""Time the commands over a year of nights: 10 000 cells x 365 nights.

    python benchmarks/archive.py [--cells 10000] [--nights 365] [--journals 3] [--rounds 5]

Two archives are made in a temporary folder, which is removed at the end (about 1.5 GB):

- A year: the event logs of the last few nights (`--journals`) are written as by a session, with records only. Each
  earlier night is a folder with the event `session`, and its rows of the index are copied by SQL from the first real
  night. So the index is as large as with real nights, and the event logs are smaller.
- A week, with real event logs only, and the same as JSON files of pytest-benchmark (`pip install pytest-benchmark`;
  left out if it is not installed). Its `list` prints the names of files, and its `compare` prints two of them side by
  side without statistics. The other comparison reads all event logs without an index.

In each round every command runs once, in random order from a fixed seed, as a process from start to end. The figures
are medians with the minimum and the maximum, and ratios within a round.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.records.arm_summary import ArmSummary
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.store import SCHEMA, Archive, EventLog, records_in
from pytest_ipperf.store.index.index import FILE

BEGAN = 1764000000.0
DAY_S = 86400
GOAL_S = 1.0
NEEDED_BYTES = 3e9
EPOCHS, BLOCKS = 10, 3
ARMS = ("ipv6", "ipv6-tunnel", "ipv6-isatap", "ipv4-twin")
PROGRAM = "import sys; from pytest_ipperf.cli import main; sys.exit(main(sys.argv[1:]))"
# The same comparison without the index: all records of two sessions read from their event logs.
PLAIN = """
import sys
from pathlib import Path
from pytest_ipperf.core.records.comparison import comparison
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.report.terminal.comparison import lines
from pytest_ipperf.store import records_in
now, then = ({r.key: r.history_entry("x", 0.0) for r in records_in(Path(folder))} for folder in sys.argv[1:3])
print(len(lines(comparison(now, then, lambda name: METRICS[name].metric), "A", "B")))
"""
PLAIN_LIST = """
import sys
from pathlib import Path
from pytest_ipperf.store import records_in
for folder in sorted(Path(sys.argv[1]).iterdir()):
    print(folder.name, len(records_in(folder)))
"""


def name_of(number: int) -> str:
    """Return the name of a night's session."""
    return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(BEGAN + number * DAY_S))}-{number:06x}"


def cell(number: int) -> str:
    """Return the cell of an arm; four arms share a workload."""
    return f"lab-http-c{1 + number // 40}-{1 + number // 4 % 10}k-{ARMS[number % 4]}"


def records(cells: int, night: int) -> Iterable[Record]:
    """Yield records as the plugin judges them, with random figures."""
    draw = random.Random(night)
    for number in range(cells):
        change = draw.gauss(1.0, 1.0)
        sides = [
            ArmSummary(
                arm=Arm.parse(arm), values=tuple(draw.gauss(0.004, 0.0001) for _ in range(EPOCHS * BLOCKS)),
                attempted=9000, completed=9000, failed={},
                phases={"dns": 0.0001, "connect": 0.0002, "first_byte": 0.003, "total": 0.004},
            )
            for arm in (ARMS[number % 4], "ipv4")
        ]  # fmt: skip
        yield Record(
            cell=cell(number), testbed="lab", protocol="http", connections=1 + number // 40, payload_bytes=10240,
            ipver=6, transport="native", twin=False, client="lean", server="apache 2.4", metric="response_time",
            design="nightly", judges=True, seed=7, look=1, looks=1, epochs=EPOCHS, blocks=BLOCKS, deadline_s=10.0,
            test=sides[0], reference=sides[1], estimate=change, low=change - 1, high=change + 1, confidence=0.95,
            sd_epoch=0.014, sd_block=0.02, margin="10%", margin_fraction=0.1, alpha=0.05, verdict="within", reasons=(),
            sentence="IPv6 against IPv4: no difference shown; the bound lies within the margin of 10 %",
            workload_version="1-apache-ipv4-300x-10s-1f0c5d", fingerprint="f00d00000000", p_exceeds=0.999,
            nodeid=f"suites/test_web.py::test_http[{cell(number)}]",
        )  # fmt: skip


def begin(root: Path, number: int) -> EventLog:
    """Begin a session with its first event."""
    journal = EventLog(root / "runs" / name_of(number), "main")
    facts = {
        "at": BEGAN + number * DAY_S, "schema": SCHEMA, "seed": 7, "design": {"name": "nightly"}, "reference": "ipv4",
        "saved": "night", "arguments": ["suites"], "pytest_ipperf": "0.1",
    }  # fmt: skip
    journal.append("session", facts)
    return journal


def write_night(root: Path, number: int, cells: int) -> None:
    """Write a real event log."""
    journal = begin(root, number)
    for record in records(cells, number):
        journal.append("record", record.to_plain())
    journal.append("end", {"status": 0, "seconds": 14400.0})
    journal.close()


def open_archive(root: Path) -> float:
    """Return the seconds that opening the archive takes."""
    began = time.perf_counter()
    archive = Archive(root)
    seconds = time.perf_counter() - began
    assert archive.notes == []
    archive.close()
    return seconds


def fill(root: Path, nights: int) -> None:
    """Copy the index rows of the earlier nights from the first real one."""
    base = sqlite3.connect(root / FILE)
    base.execute("PRAGMA synchronous = OFF")
    base.execute("PRAGMA cache_size = -500000")
    ((first,),) = base.execute("SELECT id FROM session WHERE name = ?", (name_of(nights),)).fetchall()
    there = dict(base.execute("SELECT name, id FROM session").fetchall())
    columns = (
        "key, change, sd_epoch, epochs, test_value, reference_value, margin, margin_fraction, header_cost, verdict, "
        "fingerprint, sound, usable, taken_from"
    )
    base.execute("DROP INDEX past_by_key")
    for number in range(nights):
        session = there[name_of(number)]
        base.execute(
            f"INSERT INTO past (session, {columns}) SELECT ?, {columns} FROM past WHERE session = ?",  # noqa: S608
            (session, first),
        )
        base.execute("INSERT INTO tally SELECT ?, verdict, cells FROM tally WHERE session = ?", (session, first))
        base.execute("UPDATE session SET status = 0, seconds = 14400 WHERE id = ?", (session,))
    base.execute("UPDATE past SET change = change + 0.01 * (abs(random()) % 1000) / 1000.0")
    base.execute("CREATE INDEX past_by_key ON past (key, session)")
    base.commit()
    base.close()


def make_year(root: Path, cells: int, nights: int, journals: int) -> None:
    """Make the archive of a year, and print what that took."""
    early = nights - journals
    for number in range(early):
        begin(root, number).close()
    for number in range(early, nights):
        write_night(root, number, cells)
    size = sum(path.stat().st_size for path in (root / "runs" / name_of(early)).iterdir())
    seconds = open_archive(root)
    each = f"{seconds / journals:.2f} s a night"
    print(f"| index of {journals} nights from their event logs of {size / 1e6:.0f} MB | {each} |")
    fill(root, early)
    print(f"| index of {nights} nights | {(root / FILE).stat().st_size / 1e6:.0f} MB |")


def benchmark_files(root: Path, folder: Path) -> None:
    """Write the sessions of an archive as pytest-benchmark stores them."""
    machine = {"python_implementation": "CPython", "python_version": "3.11", "machine": {}, "cpu": {}}
    place = folder / ".benchmarks" / "Linux-CPython-3.11-64bit"
    place.mkdir(parents=True)
    archive = Archive(root)
    for number, entry in enumerate(archive.sessions(), start=1):
        benchmarks = []
        for record in records_in(entry.folder):
            values = sorted(record.test.values)
            low, median, high = statistics.quantiles(values, n=4)
            stats = {
                "min": values[0], "max": values[-1], "mean": record.test.mean, "stddev": statistics.stdev(values),
                "rounds": len(values), "median": median, "iqr": high - low, "q1": low, "q3": high, "iqr_outliers": 0,
                "stddev_outliers": 0, "outliers": "0;0", "ld15iqr": values[0], "hd15iqr": values[-1],
                "ops": 1 / record.test.mean, "total": sum(values), "iterations": 1,
            }  # fmt: skip
            benchmarks.append({
                "group": None, "name": record.cell, "fullname": record.nodeid, "params": None, "param": None,
                "extra_info": {}, "options": {}, "stats": stats,
            })  # fmt: skip
        document = {
            "machine_info": machine, "commit_info": {"id": "0" * 40, "dirty": False}, "benchmarks": benchmarks,
            "datetime": f"2026-01-{number:02d}T00:00:00+00:00", "version": "5.1.0",
        }  # fmt: skip
        (place / f"{number:04d}_night.json").write_text(json.dumps(document), encoding="utf-8")
    archive.close()


class Cost(NamedTuple):
    """Seconds of wall-clock time and of processor time, which other work on the machine lengthens less."""

    clock: float
    processor: float


def timed(argv: Sequence[str], folder: Path) -> Cost:
    """Time a process from start to end; status 1 is allowed, as it may report a regression."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([*argv], cwd=folder, capture_output=True, text=True, check=False)
    clock, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode in (0, 1), done.stderr
    assert done.stdout, argv
    return Cost(clock, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def rounds(argvs: dict[str, tuple[Sequence[str], Path]], count: int, draw: random.Random) -> dict[str, list[Cost]]:
    """Return the costs of each command by round; an extra first round warms the file system's cache."""
    found: dict[str, list[Cost]] = {name: [] for name in argvs}
    for number in range(count + 1):
        for name in draw.sample(list(argvs), len(argvs)):
            cost = timed(*argvs[name])
            if number:
                found[name].append(cost)
    return found


def shown(values: Sequence[float], form: str = ".2f") -> str:
    """Format the median with the minimum and the maximum."""
    return f"{statistics.median(values):{form}} ({min(values):{form}} .. {max(values):{form}})"


def year(folder: Path, asked: argparse.Namespace, draw: random.Random) -> bool:
    """Time the commands over a year; return whether the goal is met."""
    root = folder / ".ipperf"
    print("\n| making it | |\n|---|---|")
    make_year(root, asked.cells, asked.nights, asked.journals)
    write_night(root, asked.nights, asked.cells)
    print(f"| opening with one new night to catch up | {open_archive(root):.2f} s |")
    us = [sys.executable, "-c", PROGRAM]
    where = ["--records", str(root)]
    argvs = {
        "start alone (`--version`)": [*us, "--version"],
        "`list`": [*us, "list", *where],
        "`compare A B`": [*us, "compare", f"last~{asked.nights // 2}", "last", *where],
        "`show CELL`, all sessions": [*us, "show", f"{cell(4321 % asked.cells)}", "-n", "400", *where],
    }
    found = rounds({name: (argv, folder) for name, argv in argvs.items()}, asked.rounds, draw)
    print("\n| command, a process from start to end | seconds | of processor time |\n|---|---|---|")
    for name, costs in found.items():
        print(f"| {name} | {' | '.join(map(shown, zip(*costs, strict=True)))} |")
    goals = {name: statistics.median(cost.clock for cost in found[name]) for name in ("`list`", "`compare A B`")}
    for name, median in goals.items():
        print(f"\ngoal: {name} below {GOAL_S:g} s: {'met' if median < GOAL_S else 'MISSED'}")
    return all(median < GOAL_S for median in goals.values())


def week(folder: Path, asked: argparse.Namespace, draw: random.Random) -> None:
    """Compare with pytest-benchmark, and with reading without an index."""
    root, cells, nights = folder / ".ipperf", asked.cells, 7
    for number in range(nights):
        write_night(root, number, cells)
    open_archive(root)
    us, where = [sys.executable, "-c", PROGRAM], ["--records", str(root)]
    runs = root / "runs"
    plain = [sys.executable, "-c"]
    argvs = {
        "ours, `list`": [*us, "list", *where],
        "no index, list": [*plain, PLAIN_LIST, str(runs)],
        "ours, `compare`": [*us, "compare", "last~1", "last", *where],
        "no index, compare": [*plain, PLAIN, str(runs / name_of(nights - 1)), str(runs / name_of(nights - 2))],
    }
    if find_spec("pytest_benchmark"):
        benchmark_files(root, folder)
        theirs = [sys.executable, "-m", "pytest_benchmark"]
        argvs["pytest-benchmark list"] = [*theirs, "list"]
        argvs["pytest-benchmark compare"] = [*theirs, "compare", "0006", "0007", "--columns=mean,stddev"]
    found = rounds({name: (argv, folder) for name, argv in argvs.items()}, asked.rounds, draw)
    print(f"\n| {cells} cells x {nights} nights | seconds | of processor time | ours / it, of processor time |")
    print("|---|---|---|---|")
    for name, costs in found.items():
        ours = found["ours, `list`" if "list" in name else "ours, `compare`"]
        ratios = [a.processor / b.processor for a, b in zip(ours, costs, strict=True)]
        print(f"| {name} | {' | '.join(map(shown, zip(*costs, strict=True)))} | {shown(ratios)} |")


def main() -> int:
    """Return 1 if the goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("cells", 10_000), ("nights", 365), ("journals", 3), ("rounds", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    if shutil.disk_usage(tempfile.gettempdir()).free < NEEDED_BYTES:
        print(f"{tempfile.gettempdir()} has less than {NEEDED_BYTES / 1e9:g} GB free; TMPDIR names another place")
        return 1
    draw = random.Random(1)
    machine = f"{os.cpu_count()} processors; Python {sys.version.split()[0]}; SQLite {sqlite3.sqlite_version}"
    now = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    print(f"> {now}; {machine}; {asked.cells} cells x {asked.nights} nights")
    with tempfile.TemporaryDirectory(prefix="ipperf-archive-") as folder:
        for name in ("year", "week"):
            (Path(folder) / name).mkdir()
        met = year(Path(folder) / "year", asked, draw)
        week(Path(folder) / "week", asked, draw)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
