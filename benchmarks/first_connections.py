"""Show from the records of sessions how the first connections of an epoch differ from later ones.

    python benchmarks/first_connections.py .ipperf/runs/20261121T105231Z-61f198 [FOLDER ...]

A figure is the mean time of the connections at some places of a run, relative to the median of the counted runs of the
same arm in the same epoch; printed is the median over the epochs. The rows are the warm-up runs in the order in which
an epoch makes them, and the counted runs. The last column compares the first counted run of an arm with the second
one: their ratio, as a geometric mean over arms and epochs with its standard error. It is 1 if warm-ups were enough.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.rounds import head, row

PLACES = ((0, 1), (1, 2), (2, 5), (5, 10), (10, 20), (20, 30), (30, 60), (60, 100), (100, 200), (200, 300))
COUNTED = "counted"
LEAST = 3  # ratios for a standard error


@dataclass(frozen=True)
class Timed:
    """Times of the completed connections of a run, in seconds, with its place."""

    workload: str
    epoch: int
    arm: str
    block: int
    kind: str
    times: Sequence[float]


def runs(folder: Path) -> Iterator[Timed]:
    """Yield the runs of a session that have times of connections."""
    for path in sorted(folder.glob("*.jsonl")):
        samples = path.with_suffix(".f64").read_bytes()
        for line in path.read_text(encoding="utf-8").splitlines():
            run = json.loads(line)
            if run["event"] == "run" and "total" in run["columns"]:
                wide = len(run["columns"])
                rows = array("d", samples[run["offset"] :][: 8 * wide * run["rows"]])
                kind = f"warm-up {run['slot'] + 1}" if run["warmup"] else COUNTED
                place = run["workload"], run["epoch"], run["arm"], run["block"]
                yield Timed(*place, kind, rows[run["columns"].index("total") :: wide])


def relative(found: Sequence[Timed]) -> dict[str, dict[tuple[int, int], float]]:
    """Return the figures by row and place."""
    usual = {
        (run.epoch, run.arm): statistics.median(
            time
            for each in found
            if (each.epoch, each.arm, each.kind) == (run.epoch, run.arm, COUNTED)
            for time in each.times
        )
        for run in found
        if run.kind == COUNTED
    }
    seen: dict[str, dict[tuple[int, int], list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in found:
        for low, high in PLACES:
            if len(run.times) >= high and (run.epoch, run.arm) in usual:
                mean = statistics.fmean(run.times[low:high])
                seen[run.kind][low, high].append(mean / usual[run.epoch, run.arm])
    return {kind: {place: statistics.median(each) for place, each in by.items()} for kind, by in sorted(seen.items())}


def first_block(found: Sequence[Timed]) -> str:
    """Return the ratio of the first counted runs to the second ones."""
    means = {(run.epoch, run.arm, run.block): math.log(statistics.fmean(run.times)) for run in found if run.times}
    logs = [
        mean - means[epoch, arm, 1]
        for (epoch, arm, block), mean in means.items()
        if not block and (epoch, arm, 1) in means
    ]
    if len(logs) < LEAST:
        return "-"
    ratio = math.exp(statistics.fmean(logs))
    return f"{ratio:.3f} (+- {ratio * statistics.stdev(logs) / math.sqrt(len(logs)):.3f})"


def main() -> None:
    """Print a table for each workload."""
    for folder in map(Path, sys.argv[1:]):
        found = list(runs(folder))
        for workload in dict.fromkeys(run.workload for run in found):
            mine = [run for run in found if run.workload == workload]
            head(f"{workload}, connections", *(f"{low + 1}-{high}" for low, high in PLACES), "first / second")
            for kind, by in relative(mine).items():
                cells = (f"{by[place]:.2f}" if place in by else "-" for place in PLACES)
                row(kind, *cells, first_block(mine) if kind == COUNTED else "")
            print(flush=True)


if __name__ == "__main__":
    main()
