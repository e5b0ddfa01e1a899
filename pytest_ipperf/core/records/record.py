"""A record: what is stored and reported about one judged cell, as plain values that can be written as JSON."""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_ipperf.core.design.cell import Arm, Cell, levels_text, load_text, talk_text, workload_text
from pytest_ipperf.core.design.metric import UNITS_OF_CHANGE
from pytest_ipperf.core.measurement.client_load import ClientLoad, client_load
from pytest_ipperf.core.measurement.link_rate import LinkRate
from pytest_ipperf.core.measurement.run import Run, leading
from pytest_ipperf.core.portable.factor import values_of
from pytest_ipperf.core.records.history_entry import HistoryEntry, HistoryKey

if TYPE_CHECKING:  # scipy comes with it, which the hook's specification must not load in every session
    from pytest_ipperf.core.inference.verdict import Judgement

# Most kinds of failure that a record names; the event log has all of them.
_KINDS = 8

_NO_EVIDENCE = frozenset({"too_few_epochs", "zero_spread", "never_judges", "no_effect", "doubted"})
"""Reasons of a judgement whose figures are no evidence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmSummary:
    """Summary of one arm. `values` are its run values in the metric's unit, in order of measurement, without warm-ups.

    `completed_values` are the means of the completed connections alone, for every run that has one: the average of
    paper 000. It differs from the run's value if there are failures. `phases` are medians over all completed
    connections in seconds: dns, connect, first_byte, total, each since the connection's start; empty if none completed.
    `instrument` is the load of the client, and `pace` the rate of the links, if they have one. `figures` are the means
    over the runs of all values of metrics and counts of engines, each in its base unit; `notes` are the engines'
    sentences about what limits the figures.
    """

    arm: Arm
    values: tuple[float, ...]
    attempted: int
    completed: int
    failed: dict[str, int]
    phases: dict[str, float]
    instrument: ClientLoad | None = None
    completed_values: tuple[float, ...] = ()
    pace: LinkRate | None = None
    figures: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def mean(self) -> float:
        """Mean of the run values."""
        return statistics.fmean(self.values)

    @property
    def completed_mean(self) -> float:
        """Mean of the completed connections, without the deadlines that failures count as; `mean` if none completed."""
        return statistics.fmean(self.completed_values or self.values)


def summarise(
    arm: Arm,
    metric: str,
    runs: Iterable[Run],
    rows: Sequence[tuple[float, ...]],
    phases: Sequence[str],
    *,
    baseline_cost_s: float | None = None,
) -> ArmSummary:
    """Return the summary of an arm's runs, by one of their metrics.

    A row holds the start, a column for each of `phases`, how late it was read, and how late it was opened.
    """
    counted = [run for run in runs if run.arm == arm and not run.warmup]
    failed: Counter[str] = Counter()
    for run in counted:
        failed.update(run.failed)
    columns = list(zip(*rows, strict=True))[1:] if rows else []
    behind, late = (columns.pop(), columns.pop()) if rows else ((), ())
    values = tuple(value for run in counted if (value := run.values[metric]) is not None)
    client_facts = [run.client for run in counted if run.client is not None]
    summary = ArmSummary(
        arm=arm,
        values=values,
        attempted=sum(run.attempted for run in counted),
        completed=sum(run.completed for run in counted),
        failed=dict(sorted(leading(failed, _KINDS).items())),
        phases={name: statistics.median(column) for name, column in zip(phases, columns, strict=bool(columns))},
        completed_values=tuple(run.completed_s for run in counted if run.completed_s is not None),
        figures=_means(counted),
        notes=tuple(dict.fromkeys(note for run in counted for note in run.notes)),
    )
    if not client_facts:
        return summary
    part = client_load(client_facts, late, behind, mean_s=summary.completed_mean, baseline_cost_s=baseline_cost_s)
    return dataclasses.replace(summary, instrument=part)


def _means(runs: Sequence[Run]) -> dict[str, float]:
    """Return the mean of each figure that all runs have; a mean over only some runs would be biased."""
    values: dict[str, list[float]] = {}
    for run in runs:
        for name, value in {**run.facts, **run.values}.items():
            if value is not None:
                values.setdefault(name, []).append(value)
    return {name: statistics.fmean(each) for name, each in values.items() if len(each) == len(runs)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One judged cell: its question and its answer.

    `estimate`, `low` and `high` are the change with its two-sided interval of `confidence`, in `change_unit`: percent,
    or percentage points if arms are compared by their difference; None if the design gives none. A design that never
    judges gives an estimate without an interval, and all its records are `unjudged`.
    `verdict` is a verdict's name in lower case, or `measured` if a design that judges was asked nothing.
    All figures are those after `look` of the design's `looks`, with `epochs` in all; `sd_epoch` and `sd_block` are the
    standard deviations of the log ratio or of the difference, see `Effect`; None if there are too few epochs or blocks.
    With a `rate_per_s` connections arrived at that rate, otherwise all at once; `workers` processes shared them.
    `resolver` is the name server, which is the server itself if that is what is measured.
    `taken_from` names the earlier session that measured the cell; empty if the reporting session did.
    A run of a flow lasted `run_s`, after `warmup_s` that was not counted; both are 0 for connections.
    `levels` are those of the protocol's own factors by name, and `levels_text` their part of the cell's text.
    `header_cost` is the share of goodput that headers alone cost the arm.
    `workload_version` describes what was measured beyond the cell's text, and `fingerprint` is the digest of hosts and
    server. `nodeid` is pytest's name of the item, `p_exceeds` the one-sided p-value of the hypothesis that the
    slow-down is inside the margin.
    `backend` is the backend of its arms' tunnels, empty if they have none; `rate_bit_s`, `loss` and `delay_s` are those
    of its links, 0 for none; `one_machine` says that all links are within a machine.
    `client_hosts` made the connections together; empty if there was one client. Of all runs of its two arms,
    `start_skew_s` is the largest difference between the clients' starts, with an error of at most `start_skew_error_s`;
    half of the runs have no more than `start_skew_median_s`. All three are None if no two clients had connections.
    """

    cell: str
    testbed: str
    protocol: str
    connections: int
    payload_bytes: int
    ipver: int
    transport: str
    twin: bool
    client: str
    server: str
    metric: str
    design: str
    judges: bool
    seed: int
    look: int
    looks: int
    epochs: int
    blocks: int
    deadline_s: float
    test: ArmSummary
    reference: ArmSummary
    estimate: float | None
    low: float | None
    high: float | None
    confidence: float
    sd_epoch: float | None
    sd_block: float | None
    margin: str
    margin_fraction: float | None
    alpha: float
    verdict: str
    reasons: tuple[str, ...]
    sentence: str
    resolver: str = ""
    taken_from: str = ""
    rate_per_s: float = 0.0
    workers: int = 1
    backend: str = ""
    rate_bit_s: float = 0.0
    loss: float = 0.0
    delay_s: float = 0.0
    one_machine: bool = False
    client_hosts: tuple[str, ...] = ()
    start_skew_s: float | None = None
    start_skew_error_s: float | None = None
    start_skew_median_s: float | None = None
    levels: dict[str, int | float | str] = field(default_factory=dict)
    levels_text: str = ""
    run_s: float = 0.0
    warmup_s: float = 0.0
    change_unit: str = "%"
    header_cost: float = 0.0
    workload_version: str = ""
    fingerprint: str = ""
    nodeid: str = ""
    p_exceeds: float | None = None

    @property
    def key(self) -> HistoryKey:
        """Key of the cell's history."""
        return HistoryKey(self.cell, self.metric, self.workload_version)

    @property
    def change(self) -> float | None:
        """Change on the metric's scale: the log of a ratio, or a difference of shares."""
        if self.estimate is None:
            return None
        return self.estimate / 100 if self.change_unit == UNITS_OF_CHANGE["difference"] else _log(self.estimate)

    @property
    def usable(self) -> bool:
        """Return whether its figures are evidence, so that margins, nights and later sessions may use them."""
        figures = (self.change, self.sd_epoch)
        return (
            all(figure is not None and math.isfinite(figure) for figure in figures)
            and self.verdict != "invalid"
            and not _NO_EVIDENCE & set(self.reasons)
        )

    def history_entry(self, session: str, began_at: float) -> HistoryEntry:
        """Return its history entry for the session of that name, see `HistoryEntry`."""
        return HistoryEntry(
            key=self.key,
            session=session,
            began_at=began_at,
            change=self.change,
            sd_epoch=self.sd_epoch,
            epochs=self.epochs,
            test_value=self.test.mean,
            reference_value=self.reference.mean,
            margin=self.margin,
            margin_fraction=self.margin_fraction,
            header_cost=self.header_cost,
            verdict=self.verdict,
            fingerprint=self.fingerprint,
            usable=self.usable,
        )

    @property
    def backends(self) -> tuple[str, ...]:
        """Names of the backends of its tunnels; empty if there are none."""
        return tuple(filter(None, self.backend.split(", ")))

    @property
    def workload(self) -> str:
        """Text of the cell's workload, under which event logs keep its runs."""
        talk, load = talk_text(self.protocol, self.client), load_text(self.payload_bytes, self.rate_per_s, self.workers)
        return workload_text(self.testbed, talk, self.connections, load, self.levels_text)

    def to_plain(self) -> dict[str, Any]:
        """Return the record as in event logs and documents: arms as text, everything else unchanged."""
        plain = dataclasses.asdict(self)
        plain["test"]["arm"], plain["reference"]["arm"] = str(self.test.arm), str(self.reference.arm)
        return plain

    def to_json(self) -> str:
        """Return the record as one line of JSON."""
        return json.dumps(self.to_plain())

    @classmethod
    def from_json(cls, text: str) -> Record:
        """Read the text that `to_json` returns."""
        return cls.from_plain(json.loads(text))

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Record:
        """Read what `to_plain` returns, also after a round trip through JSON; UsageError for an invalid arm."""
        sides = {name: _side(plain[name]) for name in ("test", "reference")}
        lists = {name: tuple(plain.get(name, ())) for name in ("reasons", "client_hosts")}
        return cls(**{**plain, **sides, **lists})

    def judged(self, judgement: Judgement) -> Record:
        """Return the record with the answer to a question about the cell, at the record's look."""
        return dataclasses.replace(
            self,
            margin=str(judgement.margin),
            margin_fraction=judgement.margin_fraction,
            alpha=judgement.alpha,
            verdict=judgement.verdict.name.lower(),
            reasons=judgement.reasons,
            sentence=judgement.sentence(),
            p_exceeds=judgement.p_exceeds,
        )


def strictest(records: Iterable[Record], session: str) -> dict[HistoryKey, HistoryEntry]:
    """Return a session's findings by key: the strictest of several questions about a cell, of equal ones the last."""
    ordered = sorted(records, key=lambda each: -math.inf if each.margin_fraction is None else -each.margin_fraction)
    return {record.key: record.history_entry(session, 0.0) for record in ordered}


def _side(plain: Mapping[str, Any]) -> ArmSummary:
    parts = {"instrument": ClientLoad, "pace": LinkRate}
    loads = {name: part(**plain[name]) for name, part in parts.items() if plain[name]}
    lists = {name: tuple(plain[name]) for name in ("values", "completed_values", "notes")}
    return ArmSummary(**{**plain, **lists, **loads, "arm": Arm.parse(plain["arm"])})


def _log(percent: float) -> float:
    return math.log1p(percent / 100) if percent > -100 else -math.inf


def cell_facts(cell: Cell) -> dict[str, Any]:
    """Return a cell's factors under their names in a record."""
    workload = cell.workload
    return {
        "cell": str(cell),
        "testbed": workload.testbed,
        "protocol": workload.protocol,
        "connections": workload.connections,
        "payload_bytes": workload.payload_bytes,
        "ipver": cell.arm.ipver,
        "transport": cell.arm.transport,
        "twin": cell.arm.twin,
        "client": workload.client,
        "rate_per_s": workload.rate_per_s,
        "workers": workload.workers,
        "levels": dict(values_of(workload.levels)),
        "levels_text": levels_text(workload.levels),
    }
