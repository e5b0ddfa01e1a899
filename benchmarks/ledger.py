"""Print where the time of sessions went: in measured runs, in warm-ups, in neither.

    python benchmarks/ledger.py .ipperf/runs/20261121T105231Z-61f198 [FOLDER ...]
    python benchmarks/ledger.py --rounds 3 [--against CHECKOUT ...] [-- ARGUMENT ...]
    python benchmarks/ledger.py --rounds 3 --ssh [--control-delay 20ms] [--against CHECKOUT ...] [-- ARGUMENT ...]

The first form prints a table for each session, from its records; those of earlier versions, which have no events
`time`, tell only the seconds in runs. The second form makes sessions of `make measure`, and prints their tables, then
one of all rounds. With other checkouts of this repository, which run in this environment, all take turns, and ratios
to each are taken within a round. The third form does that with two hosts behind sshds, in network namespaces, whose
packets from and to the controller are delayed; it needs root.

Each workload counts from its first event to its last look. `between` and `epochs` are the activities of
docs/records.md, per counted run or warm-up, and per epoch; `later epochs` are those after the first of a workload,
which alone has packet trains. A cell is decided if all its questions are answered. The spread of runs is that of log
ratios within an epoch, geometric mean of the cells.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.rounds import head, interleaved, row, spread
from pytest_ipperf.core.measurement.time_ledger import BETWEEN, EPOCHS, MEASURED, WARMUP, TimeLedger
from pytest_ipperf.core.portable.units import parse_seconds
from tests.support.hosts.ssh_hosts import Farm, places_of, trouble
from tests.support.sessions.forked_python import ForkedPython

ROOT = Path(__file__).resolve().parents[1]
MEASURE = (
    "suites", "-m", "smtp or http", "--testbed=lab.100mbit", "--connections=1,10", "-p", "no:randomly", "-q",
)  # fmt: skip
SSH_MEASURE = ("suites", "-m", "smtp or http", "--transport=native", "--connections=1,10", "-q")


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


@dataclass(frozen=True)
class Session:
    """Figures of a session: all that is compared, by the heading of its column."""

    figures: Mapping[str, float]

    @classmethod
    def of(cls, folder: Path) -> Session:
        """Return the figures of the session with these records."""
        found = list(events(folder))
        names = dict.fromkeys(each["workload"] for each in found if each["event"] == "workload")
        accounted = [Accounted([each for each in found if each.get("workload") == name]) for name in names]
        total = TimeLedger.total_of(each.ledger.seconds for each in accounted)
        looks = [each for each in found if each["event"] == "look"]
        last = {look["workload"]: look["verdicts"].values() for look in looks}
        spreads = [each["sd_block"] for each in found if each["event"] == "record" and each.get("sd_block")]
        first_s = max((each["at"] for each in looks if each["look"] == 1), default=found[-1]["at"]) - found[0]["at"]
        waited_s = total.of("wait")  # for other jobs on this machine
        return cls({
            "first look, s": first_s - waited_s,
            "measured": total.of(MEASURED) / (total.wall_s - waited_s),
            "warm-ups": total.of(WARMUP) / (total.wall_s - waited_s),
            "between runs, ms": 1000 * total.of(*BETWEEN) / max(1, sum(each.runs for each in accounted)),
            "an epoch, s": (total.of(*EPOCHS) - waited_s) / max(1, sum(each.epochs for each in accounted)),
            "later epochs, s": statistics.fmean(_later_epochs(found) or [0.0]),
            "decided": sum(_decided(each.values()) for arms in last.values() for each in arms),
            "spread of runs": statistics.geometric_mean(spreads) if spreads else 0.0,
        })  # fmt: skip


def _later_epochs(found: Sequence[dict[str, Any]]) -> list[float]:
    """Return the seconds of each epoch but the first of a workload."""
    times = (each for each in found if each["event"] == "time" and each.get("epoch"))
    return [TimeLedger(each["seconds"]).of(*EPOCHS) for each in times]


def _decided(verdicts: Collection[str]) -> bool:
    return "exceeds" in verdicts or set(verdicts) == {"within"}


def compare(sessions: Mapping[str, Sequence[Session]]) -> None:
    """Print the figures of all rounds, median with minimum and maximum, and the last version's ratios to each."""
    names = list(next(iter(sessions.values()))[0].figures)
    head("all rounds", *names)
    for version, each in sessions.items():
        row(version, *(spread([session.figures[name] for session in each], 3) for name in names))
    *others, last = sessions
    for other in others:
        pairs = list(zip(sessions[other], sessions[last], strict=True))
        ratios = (
            [after.figures[name] / before.figures[name] for before, after in pairs if before.figures[name]]
            for name in names
        )
        row(f"{last} / {other}", *(spread(each, 2) if each else "" for each in ratios))


Measure = Callable[[Path, Sequence[str]], Path]
"""Function that makes a session with a checkout, and returns its folder."""


def here(checkout: Path, arguments: Sequence[str]) -> Path:
    """Make a session on this machine, by default one of `make measure`."""
    records = tempfile.mkdtemp(prefix="ledger-")
    argv = [sys.executable, "-m", "pytest", *(arguments or MEASURE), f"--ipperf-records={records}"]
    return _session(subprocess.Popen(
        argv, cwd=checkout, env={**os.environ, "PYTHONPATH": str(checkout)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ), records)  # fmt: skip


def _session(process: subprocess.Popen[str] | ForkedPython, records: str) -> Path:
    """Return the folder of a session, once it has ended."""
    assert process.stdout
    print(process.stdout.read().strip().splitlines()[-1], file=sys.stderr, flush=True)
    process.wait()
    (folder,) = Path(records, "runs").iterdir()
    return folder


@contextlib.contextmanager
def behind_ssh(control_delay_s: float) -> Iterator[Measure]:
    """Build a client and a server behind sshds; yield the function that makes sessions with them."""
    if why := trouble():
        sys.exit(why)
    with contextlib.ExitStack() as stack:
        farm = Farm(stack, places_of(1, 1, routed=False), control_delay_s=control_delay_s)

        def measure(checkout: Path, arguments: Sequence[str]) -> Path:
            records = tempfile.mkdtemp(prefix="ledger-", dir=farm.folder.parent)  # hosts have their own /tmp
            argv = [*(arguments or SSH_MEASURE), "--testbed=bed1", f"--ipperf-records={records}"]
            return _session(farm.session(*argv, cwd=checkout, env={"PYTHONPATH": str(checkout)}), records)

        yield measure


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", help="sessions; with --rounds, arguments of pytest")
    parser.add_argument("--rounds", type=int, default=0, help="make so many sessions")
    parser.add_argument("--against", type=Path, action="append", default=[], help="another checkout to take turns with")
    parser.add_argument("--ssh", action="store_true", help="measure hosts behind sshds")
    parser.add_argument(
        "--control-delay", type=parse_seconds, default=0.0, help="one way, between controller and hosts"
    )
    asked: Any = parser.parse_args()
    if not asked.rounds:
        for each in asked.folders:
            show(Path(each))
        return
    checkouts = {each.resolve().name: each.resolve() for each in asked.against} | {"after": ROOT}
    if len(checkouts) <= len(asked.against):
        parser.error("--against takes folders of different names, none of which is `after`")
    sessions: dict[str, list[Session]] = {name: [] for name in checkouts}
    with behind_ssh(asked.control_delay) if asked.ssh else contextlib.nullcontext(here) as measure:
        for name in interleaved(list(checkouts), asked.rounds, "ledger"):
            folder = measure(checkouts[name], asked.folders)
            show(folder, name)
            sessions[name].append(Session.of(folder))
    compare(sessions)


if __name__ == "__main__":
    main()
