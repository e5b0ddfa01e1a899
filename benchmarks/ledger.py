"""Print where the time of sessions went: in measured runs, in warm-ups, in neither.

    python benchmarks/ledger.py .ipperf/runs/20261121T105231Z-61f198 [FOLDER ...]
    python benchmarks/ledger.py --measure 3 [--before CHECKOUT] [-- PYTEST-ARGUMENT ...]

The first form prints a table for each session, from its records; those of earlier versions, which have no events
`time`, tell only the seconds in runs. The second form makes sessions of `make measure` and prints their tables; with
another checkout, whose environment is its `.venv`, the two take turns. Each workload counts from its first event to its
last look. `between` and `epochs` are the activities of docs/records.md, per counted run or warm-up, and per epoch.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.rounds import head, interleaved, row
from pytest_ipperf.core.measurement.time_ledger import BETWEEN, EPOCHS, MEASURED, WARMUP, TimeLedger

ROOT = Path(__file__).resolve().parents[1]
MEASURE = (
    "suites", "-m", "smtp or http", "--testbed=lab.100mbit", "--connections=1,10", "-p", "no:randomly", "-q",
)  # fmt: skip
WIDE = 4


def events(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the events of a session."""
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)


class Accounted:
    """Seconds of a workload, and its numbers of runs and epochs."""

    def __init__(self, found: Sequence[dict[str, Any]]) -> None:
        runs = [each for each in found if each["event"] == "run"]
        times = [each["seconds"] for each in found if each["event"] == "time"]
        complete = next(
            (each for each in found if each["event"] == "complete"), {"seconds": [found[-1]["at"] - found[0]["at"]]}
        )
        self.runs, self.epochs = len(runs), sum(each["event"] == "epoch" for each in found)
        self.detailed = bool(times)
        self.ledger = TimeLedger.total_of(times) if times else TimeLedger(self._by_runs(runs, sum(complete["seconds"])))

    @staticmethod
    def _by_runs(runs: Sequence[dict[str, Any]], wall_s: float) -> dict[str, float]:
        """Return the seconds of a session that has no ledger."""
        found = {
            name: sum(run["proof"].get("wall_s", 0.0) for run in runs if run["warmup"] == warmup)
            for name, warmup in ((MEASURED, False), (WARMUP, True))
        }
        found["run"] = sum(run["took_s"] for run in runs) - sum(found.values())
        return {**found, "build": wall_s - sum(found.values())}

    def cells(self) -> list[str]:
        """Return the row of the table."""
        ledger = self.ledger
        return [
            f"{ledger.wall_s:.1f}",
            *(f"{share:.0%}" for share in (ledger.share(MEASURED), ledger.share(WARMUP), ledger.neither)),
            f"{1000 * ledger.of(*BETWEEN) / max(1, self.runs):.0f}",
            f"{ledger.of(*EPOCHS) / max(1, self.epochs):.2f}",
        ]


def show(folder: Path, title: str = "") -> None:
    """Print the table of a session, and its activities."""
    found = list(events(folder))
    names = dict.fromkeys(each["workload"] for each in found if each["event"] == "workload")
    head(title or folder.name, "wall, s", "measured", "warm-ups", "neither", "between runs, ms", "an epoch, s")
    accounted = [Accounted([each for each in found if each.get("workload") == name]) for name in names]
    for name, each in zip(names, accounted, strict=True):
        row(name, *each.cells())
    total = TimeLedger.total_of(each.ledger.seconds for each in accounted)
    shares = [f"{share:.0%}" for share in (total.share(MEASURED), total.share(WARMUP), total.neither)]
    row("all", f"{total.wall_s:.1f}", *shares, "", "")
    if all(each.detailed for each in accounted):
        print("\n" + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in total.seconds.items()))
    print(flush=True)


def measure(checkout: Path, arguments: Sequence[str]) -> Path:
    """Make a session with a checkout, and return its folder."""
    records = tempfile.mkdtemp(prefix="ledger-")
    argv = [str(checkout / ".venv/bin/python"), "-m", "pytest", *(arguments or MEASURE), f"--ipperf-records={records}"]
    done = subprocess.run(argv, cwd=checkout, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    print(done.stdout.strip().splitlines()[-1], file=sys.stderr)
    (folder,) = Path(records, "runs").iterdir()
    return folder


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", help="sessions; with --measure, arguments of pytest")
    parser.add_argument("--measure", type=int, default=0, metavar="ROUNDS", help="make sessions, in rounds")
    parser.add_argument("--before", type=Path, help="another checkout to take turns with")
    asked: Any = parser.parse_args()
    if not asked.measure:
        for each in asked.folders:
            show(Path(each))
        return
    checkouts = ({"before": asked.before.resolve()} if asked.before else {}) | {"after": ROOT}
    for name in interleaved(list(checkouts), asked.measure, "ledger"):
        show(measure(checkouts[name], asked.folders), name)


if __name__ == "__main__":
    main()
