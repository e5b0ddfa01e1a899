"""A record: what is remembered and reported of one judged cell. All plain values, so that it travels as JSON."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_ipperf.core.cell import Arm, Cell
from pytest_ipperf.core.run import Run

if TYPE_CHECKING:  # scipy comes with it, which the hook's specification must not load in every session
    from pytest_ipperf.core.judge import Judgement


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmSummary:
    """One arm's side. `values` are its run values in the metric's unit, in order of measurement, warm-ups left out.

    `phases` are medians over all completed connections in seconds: dns, connect, first_byte, total, each since the
    connection's start; empty when none completed.
    """

    arm: str
    values: tuple[float, ...]
    attempted: int
    completed: int
    failed: dict[str, int]
    phases: dict[str, float]

    @property
    def mean(self) -> float:
        """The mean of the run values."""
        return statistics.fmean(self.values)


def summarise(arm: Arm, runs: Iterable[Run], rows: Sequence[tuple[float, ...]], phases: Sequence[str]) -> ArmSummary:
    """The summary of an arm's runs; `rows` holds start, then one column for each of `phases`."""
    own = [run for run in runs if run.arm == arm and not run.warmup]
    failed: Counter[str] = Counter()
    for run in own:
        failed.update(run.failed)
    columns = list(zip(*rows, strict=True))[1:] if rows else []
    return ArmSummary(
        arm=str(arm),
        values=tuple(run.value for run in own),
        attempted=sum(run.attempted for run in own),
        completed=sum(run.completed for run in own),
        failed=dict(sorted(failed.items())),
        phases={name: statistics.median(column) for name, column in zip(phases, columns, strict=bool(columns))},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A cell with its question and its answer.

    `estimate`, `low` and `high` are the change in percent with its two-sided interval of `confidence`; None where
    the design gives no interval. `verdict` is a verdict's name in lower case, or `measured` where nothing was asked.
    """

    cell: str
    testbed: str
    protocol: str
    connections: int
    payload_bytes: int
    ipver: int
    transport: str
    client: str
    server: str
    metric: str
    design: str
    judges: bool
    seed: int
    epochs: int
    blocks: int
    deadline_s: float
    test: ArmSummary
    reference: ArmSummary
    estimate: float | None
    low: float | None
    high: float | None
    confidence: float
    margin: str
    margin_fraction: float | None
    alpha: float
    verdict: str
    reasons: tuple[str, ...]
    sentence: str

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Record:
        """The inverse of `to_json`."""
        plain = json.loads(text)
        for side in ("test", "reference"):
            plain[side]["values"] = tuple(plain[side]["values"])
            plain[side] = ArmSummary(**plain[side])
        plain["reasons"] = tuple(plain["reasons"])
        return cls(**plain)

    def judged(self, judgement: Judgement) -> Record:
        """The same cell with the answer to a question that was put to it."""
        return dataclasses.replace(
            self,
            margin=str(judgement.margin),
            margin_fraction=judgement.margin_fraction,
            alpha=judgement.alpha,
            verdict=judgement.verdict.name.lower(),
            reasons=judgement.reasons,
            sentence=judgement.sentence(),
        )


def cell_facts(cell: Cell) -> dict[str, str | int]:
    """A cell's factors under the names that a record gives them."""
    workload = cell.workload
    return {
        "cell": str(cell),
        "testbed": workload.testbed,
        "protocol": workload.protocol,
        "connections": workload.connections,
        "payload_bytes": workload.payload_bytes,
        "ipver": cell.arm.ipver,
        "transport": cell.arm.transport,
        "client": workload.client,
    }
