"""A record: what is stored and reported about one judged cell, as plain values that can be written as JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_ipperf.core.design.cell import Cell, levels_text
from pytest_ipperf.core.design.metric import UNITS_OF_CHANGE
from pytest_ipperf.core.design.question import FAILED_SHARE
from pytest_ipperf.core.portable.factor import values_of
from pytest_ipperf.core.records.arm_summary import ArmSummary, summary_from_plain
from pytest_ipperf.core.records.component import Component
from pytest_ipperf.core.records.first_estimate import FirstEstimate
from pytest_ipperf.core.records.history_entry import HistoryEntry, HistoryKey

if TYPE_CHECKING:  # scipy comes with it, which the hook's specification must not load in every session
    from pytest_ipperf.core.inference.claim import Claim
    from pytest_ipperf.core.inference.verdict import Judgement

_OF_COMPONENTS_ALONE = frozenset({"title", "arm", "limit"})
_WORST_FIRST = ("invalid", "exceeds", "unjudged", "inconclusive", "within")

_NO_EVIDENCE = frozenset(
    {"too_few_epochs", "zero_spread", "never_judges", "no_effect", "too_few_connections", "doubted"}
)
"""Reasons of a judgement whose figures are no evidence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One judged cell: its question and its answer.

    `estimate`, `low` and `high` are the change with its two-sided interval of `confidence`, in `change_unit`: percent,
    or percentage points if arms are compared by their difference; None if the design gives none. A design that never
    judges gives an estimate without an interval, and all its records are `unjudged`.
    `lower_bound` and `upper_bound` are the one-sided bounds at the level that decides; None before a question.
    `verdict` is a verdict's name in lower case, or `measured` if a design that judges was asked nothing. With
    `components`, the answers to what is asked beside the metric, it is the worst of all verdicts, and so are `reasons`
    and `sentence`; `metric_verdict`, `metric_reasons` and `metric_sentence` are then those of the metric alone.
    If only limits are asked, there is no change, and `reference` is the arm itself.
    All figures are those after `look` of the design's `looks`, with `epochs` in all; `sd_epoch` and `sd_block` are the
    standard deviations of the log ratio or of the difference, see `Effect`; None if there are too few epochs or blocks.
    With a `rate_per_s` connections arrived at that rate, otherwise all at once; `workers` processes shared them.
    `resolver` is the name server, which is the server itself if that is what is measured.
    `taken_from` names the earlier session that measured the cell; empty if the reporting session did.
    A run of a flow lasted `run_s`, after `warmup_s` that was not counted; both are 0 for connections.
    `levels` are those of the protocol's own factors by name, and `levels_text` their part of the cell's text.
    `header_cost` is the share of goodput that headers alone cost the arm.
    `reference_typical` is the value of the reference to which a change in percent applies, see `Effect`; else None.
    `workload_version` describes what was measured beyond the cell's text, and `fingerprint` is the digest of hosts and
    server. `nodeid` is pytest's name of the item, `p_exceeds` the one-sided p-value of the hypothesis that the
    slow-down is inside the margin.
    `backend` is the backend of its arms' tunnels, empty if they have none; `rate_bit_s`, `loss` and `delay_s` are those
    of its links, 0 for none; `one_machine` says that all links are within a machine.
    `client_hosts` made the connections together; empty if there was one client. Of all runs of its two arms,
    `start_skew_s` is the largest difference between the clients' starts, with an error of at most `start_skew_error_s`;
    half of the runs have no more than `start_skew_median_s`. All three are None if no two clients had connections.
    `confirms` is set if the figures are of fresh epochs, measured because the first ones seemed beyond the margin.
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
    lower_bound: float | None = None
    upper_bound: float | None = None
    components: tuple[Component, ...] = ()
    metric_verdict: str = ""
    metric_reasons: tuple[str, ...] = ()
    metric_sentence: str = ""
    reference_typical: float | None = None
    confirms: FirstEstimate | None = None

    @property
    def key(self) -> HistoryKey:
        """Key of the cell's history."""
        return HistoryKey(self.cell, self.metric, self.workload_version)

    @property
    def compared(self) -> bool:
        """Return whether the cell was compared with the reference; if only limits are asked, both sides are its arm."""
        return self.test.arm != self.reference.arm

    @property
    def own_reference(self) -> str:
        """Text of the reference if it is that of this IP version and transport alone, as a factor is compared."""
        return str(self.reference.arm) if self.compared and self.test.arm.level else ""

    @property
    def sides(self) -> tuple[ArmSummary, ...]:
        """Both arms, the reference first; the arm alone if nothing was compared."""
        return (self.reference, self.test) if self.compared else (self.test,)

    @property
    def change(self) -> float | None:
        """Change on the metric's scale: the log of a ratio, or a difference of shares."""
        if self.estimate is None:
            return None
        return _log(self.estimate) if self.change_unit == UNITS_OF_CHANGE["ratio"] else self.estimate / 100

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
        return self.cell.removesuffix(f"-{self.test.arm}")

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
        sides = {name: summary_from_plain(plain[name]) for name in ("test", "reference")}
        lists = {name: tuple(plain.get(name, ())) for name in ("reasons", "client_hosts", "metric_reasons")}
        beside = tuple(map(Component.from_plain, plain.get("components", ())))
        confirms = FirstEstimate.from_plain(plain.get("confirms"))
        return cls(**{**plain, **sides, **lists, "components": beside, "confirms": confirms})

    def judged(self, claim: Claim) -> Record:
        """Return the record with the answer to a question about the cell, at the record's look."""
        own, deciding = claim.judgement, claim.deciding
        lower, upper = own.bounds if self.judges and own.bounds else (None, None)
        found = dataclasses.replace(
            self,
            margin=str(own.margin),
            margin_fraction=own.margin_fraction,
            alpha=own.alpha,
            verdict=deciding.verdict.name.lower(),
            reasons=deciding.reasons,
            sentence=claim.sentence(),
            p_exceeds=own.p_exceeds,
            lower_bound=lower,
            upper_bound=upper,
            confirms=FirstEstimate.of(own),
        ).beside(claim.beside)
        return (
            found if not found.components else found.with_metric(own.verdict.name.lower(), own.reasons, own.sentence())
        )

    def with_metric(self, verdict: str, reasons: tuple[str, ...], sentence: str) -> Record:
        """Return the record with the verdict of its metric alone beside that of all its questions."""
        return dataclasses.replace(self, metric_verdict=verdict, metric_reasons=reasons, metric_sentence=sentence)

    def beside(self, judgements: Iterable[Judgement], *, asked: bool = False) -> Record:
        """Return the record with the answers to what is asked beside its metric as its components.

        While nothing is asked about the metric itself, the worst of them is the record's verdict. Failed connections
        are asked about in every test, so they count there only if they exceed their margin, or if the test has `asked`
        about them itself and they are enough to be judged.
        """
        components = tuple(Component.of(each) for each in judgements if each.effect is not None)
        found = dataclasses.replace(self, components=components)
        weighty = ("exceeds", "inconclusive", "within") if asked else ("exceeds",)
        counting = [each for each in components if each.metric != FAILED_SHARE or each.verdict in weighty]
        if self.verdict != "measured" or not counting:
            return found
        worst = min(counting, key=lambda each: _WORST_FIRST.index(each.verdict))
        return dataclasses.replace(
            found, verdict=worst.verdict, reasons=worst.reasons, sentence=worst.sentence
        ).with_metric(self.verdict, self.reasons, self.sentence)

    def also(self, judgement: Judgement) -> Record:
        """Return the record with one more component, and the worse of its verdict and that of the component."""
        if judgement.effect is None:
            return self
        component = Component.of(judgement)
        others = [
            each for each in self.components if (each.metric, each.sentence) != (component.metric, component.sentence)
        ]
        own, found = self._own(), dataclasses.replace(self, components=(*others, component))
        if self.verdict in _WORST_FIRST and _WORST_FIRST.index(self.verdict) <= _WORST_FIRST.index(component.verdict):
            return found
        return dataclasses.replace(
            found, verdict=component.verdict, reasons=component.reasons, sentence=component.sentence
        ).with_metric(own.verdict, own.reasons, own.sentence)

    def parts(self) -> tuple[Record, ...]:
        """Return a record of each question alone: that of the metric, and one for each component.

        A night tests each as a hypothesis of its own, and each has a history of its own. Without a comparison, nothing
        is asked about the metric.
        """
        own = (self._own(),) if self.compared or not self.components else ()
        return (*own, *map(self._part, self.components))

    def _own(self) -> Record:
        """Return the record of the metric alone."""
        if not self.metric_verdict:
            return dataclasses.replace(self, components=()) if self.components else self
        return dataclasses.replace(
            self, components=(), verdict=self.metric_verdict, reasons=self.metric_reasons,
            sentence=self.metric_sentence,
        )  # fmt: skip

    def _part(self, component: Component) -> Record:
        fields = {field.name: getattr(component, field.name) for field in dataclasses.fields(component)}
        fields = {name: value for name, value in fields.items() if name not in _OF_COMPONENTS_ALONE}
        values = {"test": fields.pop("test_value"), "reference": fields.pop("reference_value")}
        sides = {name: dataclasses.replace(getattr(self, name), values=(value,)) for name, value in values.items()}
        unknown = {
            "sd_block": None, "header_cost": 0.0, "components": (), "metric_verdict": "", "reference_typical": None,
        }  # fmt: skip
        return dataclasses.replace(self, **unknown | fields | sides)


def strictest(records: Iterable[Record], session: str) -> dict[HistoryKey, HistoryEntry]:
    """Return a session's findings by key: the strictest of several questions about a cell, of equal ones the last."""
    parts = (part for record in records for part in record.parts())
    ordered = sorted(parts, key=lambda each: -math.inf if each.margin_fraction is None else -each.margin_fraction)
    return {record.key: record.history_entry(session, 0.0) for record in ordered}


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
