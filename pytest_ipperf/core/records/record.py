"""A record: what is remembered and reported of one judged cell. All plain values, so that it travels as JSON."""

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

# Of failures that a record names; the event log has all of them.
_KINDS = 8

_NO_EVIDENCE = frozenset({"too_few_epochs", "zero_spread", "never_judges", "no_effect", "doubted"})
"""Reasons of a judgement for which its figures are no evidence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmSummary:
    """One arm's side. `values` are its run values in the metric's unit, in order of measurement, warm-ups left out.

    `completed_values` are the means of the completed connections alone, of every run that has one: what paper 000 calls
    its average. Failures make it another number than the value.
    `phases` are medians over all completed connections in seconds: dns, connect, first_byte, total, each since the
    connection's start; empty when none completed. `instrument` is the load of the client, and `pace` the rate of the
    links, where they have one. `figures` are the means over the runs of all that metrics made of them and engines
    counted, each in its base unit; `notes` are the engines' sentences about what limits the figures.
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
        """The mean of the run values."""
        return statistics.fmean(self.values)

    @property
    def completed_mean(self) -> float:
        """That of the completed connections: failures are no time of the client's. The mean where none completed."""
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
    """The summary of an arm's runs, by one of their metrics.

    A row holds start, a column for each of `phases`, how late it was read, and how late it was opened.
    """
    own = [run for run in runs if run.arm == arm and not run.warmup]
    failed: Counter[str] = Counter()
    for run in own:
        failed.update(run.failed)
    columns = list(zip(*rows, strict=True))[1:] if rows else []
    behind, late = (columns.pop(), columns.pop()) if rows else ((), ())
    values = tuple(value for run in own if (value := run.values[metric]) is not None)
    client_facts = [run.client for run in own if run.client is not None]
    summary = ArmSummary(
        arm=arm,
        values=values,
        attempted=sum(run.attempted for run in own),
        completed=sum(run.completed for run in own),
        failed=dict(sorted(leading(failed, _KINDS).items())),
        phases={name: statistics.median(column) for name, column in zip(phases, columns, strict=bool(columns))},
        completed_values=tuple(run.completed_s for run in own if run.completed_s is not None),
        figures=_means(own),
        notes=tuple(dict.fromkeys(note for run in own for note in run.notes)),
    )
    if not client_facts:
        return summary
    part = client_load(client_facts, late, behind, mean_s=summary.completed_mean, baseline_cost_s=baseline_cost_s)
    return dataclasses.replace(summary, instrument=part)


def _means(runs: Sequence[Run]) -> dict[str, float]:
    """Of every figure that all runs have, the mean: of one that some lack, those would tell of the good ones alone."""
    found: dict[str, list[float]] = {}
    for run in runs:
        for name, value in {**run.facts, **run.values}.items():
            if value is not None:
                found.setdefault(name, []).append(value)
    return {name: statistics.fmean(each) for name, each in found.items() if len(each) == len(runs)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One judged cell: its question and its answer.

    `estimate`, `low` and `high` are the change with its two-sided interval of `confidence`, in `change_unit`: percent,
    or percentage points where arms are compared by their difference; None where the design gives none. A design that
    never judges gives an estimate without an interval, and every record of it is `unjudged`.
    `verdict` is a verdict's name in lower case, or `measured` where a design that judges was asked nothing.
    All figures are those after `look` of the design's `looks`, with `epochs` in all; `sd_epoch` and `sd_block` are the
    spreads of the log ratio or of the difference, see `Effect`; None where there are too few epochs or blocks.
    With a `rate_per_s` connections arrived at that rate, without one all at once; so many `workers` shared them.
    `resolver` is the name server, which is the server itself where that is what is measured.
    `taken_from` names the earlier session that measured it; empty where it was the one that reports it.
    A run of a flow lasted `run_s`, after `warmup_s` that counted for nothing; 0 where connections are its size.
    `levels` are those of the protocol's own factors by name, and `levels_text` what the cell's text says of them.
    `header_cost` is the share of goodput that headers alone cost the arm.
    `workload_version` tells what was measured beside what the cell's text says, and `fingerprint` is the digest of
    hosts and server. `nodeid` is pytest's name of the item, `p_exceeds` the one-sided p-value of the slow-down being
    inside the margin.
    `backend` is what carried the tunnels of its arms, empty where they have none, and `rate_bit_s`, `loss` and
    `delay_s` what its links do, 0 where nothing; `one_machine` says that there are only those within a machine.
    Several `client_hosts` made the connections together, none where there is one; of all runs of its two arms, that in
    which their beginnings lay furthest apart has `start_skew_s`, which is off by `start_skew_error_s` at most, and half
    of the runs have no more than `start_skew_median_s`. All are None where no two of them had connections.
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
        """The key of its history."""
        return HistoryKey(self.cell, self.metric, self.workload_version)

    @property
    def change(self) -> float | None:
        """The change on the metric's scale: the log of a ratio, or a difference of shares."""
        if self.estimate is None:
            return None
        return self.estimate / 100 if self.change_unit == UNITS_OF_CHANGE["difference"] else _log(self.estimate)

    @property
    def usable(self) -> bool:
        """Whether its figures are evidence against a margin, against nights, and for later ones to be held to."""
        figures = (self.change, self.sd_epoch)
        return (
            all(figure is not None and math.isfinite(figure) for figure in figures)
            and self.verdict != "invalid"
            and not _NO_EVIDENCE & set(self.reasons)
        )

    def history_entry(self, session: str, began_at: float) -> HistoryEntry:
        """Return its history entry as of the session of that name, see `HistoryEntry`."""
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
        """The names of the backends that carried its tunnels; empty where there are none."""
        return tuple(filter(None, self.backend.split(", ")))

    @property
    def workload(self) -> str:
        """The text of the cell's workload, under which event logs keep its runs."""
        talk, load = talk_text(self.protocol, self.client), load_text(self.payload_bytes, self.rate_per_s, self.workers)
        return workload_text(self.testbed, talk, self.connections, load, self.levels_text)

    def to_plain(self) -> dict[str, Any]:
        """Return the record as event logs and documents hold it: arms by their texts, all else as it is."""
        plain = dataclasses.asdict(self)
        plain["test"]["arm"], plain["reference"]["arm"] = str(self.test.arm), str(self.reference.arm)
        return plain

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(self.to_plain())

    @classmethod
    def from_json(cls, text: str) -> Record:
        """The inverse of `to_json`."""
        return cls.from_plain(json.loads(text))

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Record:
        """The inverse of `to_plain`, also after its way through JSON; UsageError where a side's arm is no arm."""
        sides = {name: _side(plain[name]) for name in ("test", "reference")}
        lists = {name: tuple(plain.get(name, ())) for name in ("reasons", "client_hosts")}
        return cls(**{**plain, **sides, **lists})

    def judged(self, judgement: Judgement) -> Record:
        """The same cell with the answer to a question that was put to it; that of the record's look."""
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
    """What a session found, by key: of several questions about a cell the strictest stays, of two alike the last."""
    asked = sorted(records, key=lambda each: -math.inf if each.margin_fraction is None else -each.margin_fraction)
    return {record.key: record.history_entry(session, 0.0) for record in asked}


def _side(plain: Mapping[str, Any]) -> ArmSummary:
    parts = {"instrument": ClientLoad, "pace": LinkRate}
    made = {name: part(**plain[name]) for name, part in parts.items() if plain[name]}
    lists = {name: tuple(plain[name]) for name in ("values", "completed_values", "notes")}
    return ArmSummary(**{**plain, **lists, **made, "arm": Arm.parse(plain["arm"])})


def _log(percent: float) -> float:
    return math.log1p(percent / 100) if percent > -100 else -math.inf


def cell_facts(cell: Cell) -> dict[str, Any]:
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
        "twin": cell.arm.twin,
        "client": workload.client,
        "rate_per_s": workload.rate_per_s,
        "workers": workload.workers,
        "levels": dict(values_of(workload.levels)),
        "levels_text": levels_text(workload.levels),
    }
