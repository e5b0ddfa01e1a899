"""The gate: the decision of a night about all cells, from two measurements, earlier nights and acceptances.

All cells are screened. Those that seem to exceed their margin are flagged and measured again, and only the fresh data
decide, so selecting cells by the first data causes no bias (docs/night.md).
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_ipperf.core.design.metric import Metric
from pytest_ipperf.core.design.question import BESIDE, FAILED_SHARE, is_component
from pytest_ipperf.core.nightly import sentences
from pytest_ipperf.core.nightly.aa_check import AACheck, aa_check_of
from pytest_ipperf.core.nightly.acceptance import Acceptance, acceptance_of
from pytest_ipperf.core.nightly.evidence import (
    Confirmation,
    ErrorRates,
    Evidence,
    is_within,
    nightly_change,
    p_beyond,
)
from pytest_ipperf.core.nightly.prediction import nights_that_count, predicted
from pytest_ipperf.core.nightly.report import RED, CellReport, GateDecision, GateStatus, NightReport, cell_of
from pytest_ipperf.core.records.history_entry import HistoryEntry, HistoryKey
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.core.stats.holm import adjusted

FAMILY_ALPHA = 0.04
"""Family-wise level at which fresh data confirm, over all flagged cells of a night."""

HISTORY_ALPHA = 0.05
"""Family-wise level of the comparison with history, over all cells that have one."""

MIN_NIGHTS = 20
"""Fewest nights of history that give a verdict."""

PRIOR_DF = 20
"""Most degrees of freedom that a cell's spread over nights borrows from other cells of its metric."""


@dataclass(frozen=True, slots=True)
class _Accepted:
    """All acceptances ever made, as seen on one day."""

    all: Sequence[Acceptance]
    today: dt.date

    def of(self, key: HistoryKey) -> Acceptance | None:
        """Return the newest valid acceptance of a worsening; one without `up_to` does not apply to a measured cell."""
        return acceptance_of(key, (each for each in self.all if each.up_to is not None), self.today)

    def of_absent(self, key: HistoryKey) -> Acceptance | None:
        """Return the newest valid acceptance of a missing cell; one with `up_to` does not allow leaving it out."""
        return acceptance_of(key, (each for each in self.all if each.up_to is None), self.today)

    def lapsed(self, key: HistoryKey) -> Acceptance | None:
        """Return the acceptance that expired last; it matters only if none is in force."""
        over = [each for each in self.all if each.covers(key) and not each.holds(self.today)]
        return max(over, key=lambda each: each.until, default=None)

    def since(self, key: HistoryKey) -> float:
        """Return when a level was last accepted, even if that has expired; older nights belong to another level."""
        return max((each.at for each in self.all if each.up_to is not None and each.covers(key)), default=-math.inf)


_QUIET = (GateDecision.WITHIN, GateDecision.UNJUDGED)
_FINISHED = ("within", "measured")
"""Verdicts of a test whose body ran to its end; any other may have ended at its first assertion."""

# A key and a node id, as several tests may ask different margins of one cell and metric.
_Name = tuple[HistoryKey, str]


def flagged(records: Iterable[Record]) -> tuple[Record, ...]:
    """Return the screening's records that exceed their margin at the design's level, and must be measured again."""
    return tuple(record for record in records if _is_flagged(record))


def decide(
    *,
    screen: Sequence[Record],
    fresh: Sequence[Record],
    expected: Collection[HistoryKey],
    histories: Mapping[HistoryKey, Sequence[HistoryEntry]],
    accepted: Sequence[Acceptance],
    today: dt.date,
    troubles: Mapping[str, str],
    metric_of: Callable[[str], Metric],
) -> NightReport:
    """Return the report of a night, from all records of its screening and the `fresh` ones of the flagged cells.

    `expected` are the cells that the last night lists, of any version; `histories` holds the earlier nights of each
    key, oldest first. `troubles` maps the node ids of items that failed for another reason than their margin to a
    sentence. Twins serve only the A/A check.
    """
    acceptances = _Accepted(accepted, today)
    # A cell without a comparison is its limits alone.
    whole = _named([part for record in screen for part in ((record,) if record.compared else record.parts())])
    evidence = _evidence(_parts(screen), acceptances, troubles, metric_of)
    evidence = _confirmed(_with_fresh(evidence, _named(_parts(fresh)), acceptances, metric_of))
    evidence = _against_history(evidence, histories, acceptances, metric_of)
    rates = ErrorRates(FAMILY_ALPHA, HISTORY_ALPHA)
    measured = {
        *((record.cell, record.metric) for record in _parts(screen)),
        *((k.cell, k.metric) for k, _ in evidence),
    }
    absent = {(key.cell, key.metric): key for key in expected if (key.cell, key.metric) not in measured}
    reports = [_report(each, whole.get(name, each.screen), rates) for name, each in evidence.items()]
    shown: list[CellReport] = []
    quiet: list[CellReport] = []
    for name, each in zip(evidence, reports, strict=True):
        (quiet if name not in whole and _is_quiet(each) else shown).append(each)
    absence = _Absence(
        accepted=acceptances,
        trouble_of=_trouble_by_cell({*measured, *absent}, troubles),
        own={cell for cell, metric in (*measured, *absent) if not is_component(metric)},
        unfinished=_unfinished(screen, fresh),
    )
    cells = (
        *shown,
        *map(absence.report, sorted(absent.values())),
    )
    aa_check = aa_check_of(screen, metric_of)
    gate_status = _gate_status(cells, aa_check, troubles, evidence.values(), {name[0] for name in whole})
    return NightReport(
        cells=cells,
        aa_check=aa_check,
        troubles=dict(troubles),
        gate_status=gate_status,
        headline=sentences.headline(gate_status, cells, aa_check, troubles),
        family_alpha=FAMILY_ALPHA,
        history_alpha=HISTORY_ALPHA,
        warnings=sentences.warnings([each.screen for each in evidence.values()], expected, histories, aa_check),
        # The failed connections are asked about in every test, so that the question cannot be missing.
        quiet=tuple(each for each in quiet if each.key.metric != FAILED_SHARE),
    )


def _parts(records: Iterable[Record]) -> list[Record]:
    """Return a record of each question: a cell's metric and what is asked beside it are hypotheses of their own."""
    return [part for record in records for part in record.parts()]


def _is_flagged(record: Record) -> bool:
    return not record.twin and record.verdict == "exceeds"


def _named(records: Iterable[Record]) -> dict[_Name, Record]:
    return {(record.key, record.nodeid): record for record in records if not record.twin}


def _evidence(
    screen: Sequence[Record], accepted: _Accepted, troubles: Mapping[str, str], metric_of: Callable[[str], Metric]
) -> dict[_Name, Evidence]:
    return {
        name: Evidence(
            screen=record,
            metric=metric_of(record.metric),
            flagged=_is_flagged(record),
            why_unconfirmed=troubles.get(record.nodeid, ""),
            acceptance=accepted.of(record.key),
            lapsed=accepted.lapsed(record.key),
        )
        for name, record in _named(screen).items()
    }


def _with_fresh(
    evidence: Mapping[_Name, Evidence],
    fresh: Mapping[_Name, Record],
    accepted: _Accepted,
    metric_of: Callable[[str], Metric],
) -> dict[_Name, Evidence]:
    """Add the fresh data of flagged questions, and the other questions of their tests.

    These are what is asked beside a cell's metric, and what a test asks after the assertion that has ended its
    screening. The screening decides them where it could, unless the fresh data exceed their margin (`_confirmed`).
    """
    result = {name: replace(each, fresh=fresh.get(name)) if each.flagged else each for name, each in evidence.items()}
    for name, record in fresh.items():
        if name not in evidence or not evidence[name].flagged:
            new = Evidence(screen=record, metric=metric_of(record.metric), acceptance=accepted.of(record.key),
                           lapsed=accepted.lapsed(record.key), screened=False)  # fmt: skip
            result[name] = replace(evidence.get(name, new), fresh=record, late=True)
    return result


def _confirmed(evidence: Mapping[_Name, Evidence]) -> dict[_Name, Evidence]:
    """Add the confirmations by fresh data, and leave those questions to the screening that need none.

    Two families have an error rate of their own: flagged cells, of which one without fresh data counts with p = 1, and
    the other questions of the second session.
    """
    flagged_cells = _with_confirmation({name: each for name, each in evidence.items() if each.flagged})
    others = _with_confirmation({name: each for name, each in evidence.items() if each.late})
    beyond = {name: each for name, each in others.items() if each.fresh is not None and _is_flagged(each.fresh)}
    calm = {name: replace(each, fresh=None, late=False) for name, each in evidence.items() if each.screened}
    return {**calm, **flagged_cells, **beyond}


def _with_confirmation(suspects: dict[_Name, Evidence]) -> dict[_Name, Evidence]:
    p_margin = {name: _p_fresh(each, accepted=False) for name, each in suspects.items()}
    p_accepted = {name: _p_fresh(each, accepted=True) for name, each in suspects.items()}
    beyond_margin, by_holm = adjusted(p_margin), adjusted(p_accepted)
    result = dict(suspects)
    for name, each in suspects.items():
        if each.fresh is not None and each.fresh.usable:
            # The screening's level applies, as the second session may be judged at that of Holm's first step.
            within = is_within(each.fresh, each.metric, each.screen.alpha)
            confirmation = Confirmation(
                p_accepted[name], by_holm[name], beyond_margin[name], within=within, of=len(suspects)
            )
            result[name] = replace(each, confirmation=confirmation)
    return result


def _p_fresh(each: Evidence, *, accepted: bool) -> float:
    if each.fresh is None or each.fresh.margin_fraction is None or not each.fresh.usable:
        return 1.0
    fraction = each.fresh.margin_fraction
    if accepted and each.acceptance is not None:
        fraction = max(fraction, each.acceptance.up_to or 0.0)
    return p_beyond(each.fresh, each.metric, fraction)


def _against_history(
    evidence: Mapping[_Name, Evidence],
    histories: Mapping[HistoryKey, Sequence[HistoryEntry]],
    accepted: _Accepted,
    metric_of: Callable[[str], Metric],
) -> dict[_Name, Evidence]:
    """Add the predictions by earlier nights for the screening; fresh data are of cells selected for their size.

    An accepted worsening is compared only with what is accepted, not with history.
    """
    cells = {each.key: each for each in evidence.values()}
    nights = {key: nights_that_count(histories.get(key, ()), accepted.since(key)) for key in cells}
    predictable = [
        key
        for key, each in cells.items()
        if len(nights[key]) >= MIN_NIGHTS and each.acceptance is None and each.screen.usable and each.screened
    ]
    now = {key: nightly_change(cells[key].screen) for key in predictable}
    predictions = predicted(now, nights, metric_of, prior_df=PRIOR_DF)
    by_holm = adjusted({key: each.p for key, each in predictions.items()})
    return {
        name: replace(
            each,
            nights=len(nights[each.key]),
            prediction=predictions.get(each.key),
            p_history=by_holm.get(each.key),
            compared=len(by_holm),
        )
        for name, each in evidence.items()
    }


def _is_quiet(report: CellReport) -> bool:
    """Return whether what is asked beside a cell's metric is well, so that reports leave it out."""
    return not report.flagged and report.decision in _QUIET


def _unfinished(screen: Iterable[Record], fresh: Iterable[Record]) -> set[str]:
    """Return the cells of tests that may have ended before they asked all their questions, also in fresh epochs."""
    finished = {(each.cell, each.nodeid) for each in (*screen, *fresh) if each.verdict in _FINISHED}
    return {each.cell for each in screen if not each.twin and (each.cell, each.nodeid) not in finished}


def _report(each: Evidence, screen: Record, rates: ErrorRates) -> CellReport:
    decision = _decision(each, rates)
    return CellReport(
        key=each.key,
        decision=decision,
        sentence=sentences.sentence(each, decision, rates),
        screen=screen,
        fresh=each.fresh,
        flagged=each.flagged,
        p_fresh=each.confirmation.p if each.confirmation else None,
        p_adjusted=each.confirmation.adjusted if each.confirmation else None,
        p_history=each.prediction.p if each.prediction else None,
        p_history_adjusted=each.p_history,
        nights=each.nights,
        is_beside=is_component(each.key.metric) and each.screen.compared,
    )


def _decision(each: Evidence, rates: ErrorRates) -> GateDecision:
    against_margin = _of_fresh(each, rates.family) if each.flagged or each.late else _of_screening(each.screen)
    if against_margin is not GateDecision.EXCEEDS and each.p_history is not None and each.p_history <= rates.history:
        return GateDecision.WORSE
    return against_margin


def _of_screening(record: Record) -> GateDecision:
    decisions = {"within": GateDecision.WITHIN, "invalid": GateDecision.TROUBLE, "unjudged": GateDecision.UNJUDGED}
    return decisions.get(record.verdict, GateDecision.INCONCLUSIVE)


def _of_fresh(each: Evidence, alpha: float) -> GateDecision:
    confirmation = each.confirmation
    if confirmation is None:
        return GateDecision.INCONCLUSIVE
    if confirmation.adjusted <= alpha:
        return GateDecision.EXCEEDS
    if each.acceptance is not None and confirmation.beyond_margin <= alpha:
        return GateDecision.ACCEPTED
    return GateDecision.WITHIN if confirmation.within else GateDecision.INCONCLUSIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class _Absence:
    """Explains why a cell, or a question beside it, was measured by earlier nights and not by this one.

    `own` are the cells with a metric, `unfinished` those whose tests may have ended before they asked everything.
    """

    accepted: _Accepted
    trouble_of: Mapping[str, str]
    own: Collection[str]
    unfinished: Collection[str]

    def report(self, key: HistoryKey) -> CellReport:
        """Report an absent key: in trouble, given up, not asked because its test ended early, or missing."""
        acceptance = self.accepted.of_absent(key)
        component = is_component(key.metric)
        if key.cell in self.trouble_of:
            decision, words = GateDecision.TROUBLE, self.trouble_of[key.cell]
        elif acceptance is None and component and key.cell in self.unfinished:
            decision, words = GateDecision.INCONCLUSIVE, sentences.UNASKED
        else:
            decision = GateDecision.GONE if acceptance else GateDecision.MISSING
            words = sentences.absence(acceptance, self.accepted.lapsed(key))
        beside = key.metric in BESIDE or (component and key.cell in self.own)
        return CellReport(key=key, decision=decision, sentence=words, is_beside=beside)


def _trouble_by_cell(known: Iterable[tuple[str, str]], troubles: Mapping[str, str]) -> dict[str, str]:
    """Return the sentence of each cell whose text stands between the brackets of a troubled item's node id."""
    result: dict[str, str] = {}
    cells = {cell for cell, _ in known}
    for nodeid, trouble in troubles.items():
        if within := cell_of(nodeid, cells):
            result.setdefault(within, trouble)
    return result


def _gate_status(
    cells: Sequence[CellReport],
    aa_check: AACheck | None,
    troubles: Mapping[str, str],
    evidence: Iterable[Evidence],
    measured: Collection[HistoryKey],
) -> GateStatus:
    """Return the status; a flagged cell that could not be measured again prevents green but does not cause red.

    A night without an answer about any of the `measured` cells is not green, whatever was asked beside them.
    """
    decisions = {cell.decision for cell in cells}
    unconfirmed = any((each.flagged or each.late) and each.confirmation is None for each in evidence)
    if aa_check is not None and not aa_check.stable:
        return GateStatus.UNSTABLE
    if decisions & RED or GateDecision.TROUBLE in decisions or troubles:
        return GateStatus.RED
    if GateDecision.MISSING in decisions:
        return GateStatus.SHRUNK
    well = (GateDecision.WITHIN, GateDecision.ACCEPTED)
    decided = any(cell.decision in well and cell.key in measured for cell in cells)
    return GateStatus.GREEN if decided and not unconfirmed else GateStatus.NOTHING_DECIDED
