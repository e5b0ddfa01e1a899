"""The gate: what a night decides of all cells together, from two measurements, the last nights and what was accepted.

All cells are screened. What seems to exceed its margin is flagged and measured again, and the fresh data alone say
whether it does; so the choice of the flagged ones, by the first data, spoils nothing (docs/night.md).
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_ipperf.core.design.metric import Metric
from pytest_ipperf.core.nightly import sentences
from pytest_ipperf.core.nightly.aa_check import AACheck, aa_check_of
from pytest_ipperf.core.nightly.acceptance import Acceptance, acceptance_of
from pytest_ipperf.core.nightly.evidence import Confirmation, ErrorRates, Evidence, nightly_change, p_beyond
from pytest_ipperf.core.nightly.prediction import nights_that_count, predicted
from pytest_ipperf.core.nightly.report import RED, CellReport, GateDecision, GateStatus, NightReport, cell_of
from pytest_ipperf.core.records.history_entry import HistoryEntry, HistoryKey
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.core.stats.holm import adjusted

FAMILY_ALPHA = 0.04
"""The level at which fresh data confirm, over all flagged cells of a night."""

HISTORY_ALPHA = 0.05
"""The level against history, over all cells that have one."""

MIN_NIGHTS = 20
"""Fewer nights predict too little to be worth a verdict."""

PRIOR_DF = 20
"""The most degrees of freedom that a cell's spread over nights borrows from others of its metric."""


@dataclass(frozen=True, slots=True)
class _Accepted:
    """All that was ever accepted, asked on a day."""

    all: Sequence[Acceptance]
    today: dt.date

    def of(self, key: HistoryKey) -> Acceptance | None:
        """The newest that holds of something worse; one without a figure accepts nothing of a cell that is there."""
        return acceptance_of(key, (each for each in self.all if each.up_to is not None), self.today)

    def of_absent(self, key: HistoryKey) -> Acceptance | None:
        """The newest that holds of a cell being gone; one of something worse lets nobody leave it out."""
        return acceptance_of(key, (each for each in self.all if each.up_to is None), self.today)

    def lapsed(self, key: HistoryKey) -> Acceptance | None:
        """Return the last one to expire; of interest where none holds."""
        over = [each for each in self.all if each.covers(key) and not each.holds(self.today)]
        return max(over, key=lambda each: each.until, default=None)

    def since(self, key: HistoryKey) -> float:
        """When a level was last accepted: what was measured before is of another one, also after the expiry."""
        return max((each.at for each in self.all if each.up_to is not None and each.covers(key)), default=-math.inf)


# Several tests may ask different margins of one cell and metric; the second is the item's name.
_Name = tuple[HistoryKey, str]


def flagged(records: Iterable[Record]) -> tuple[Record, ...]:
    """Records of the screening that exceed their margin at the design's level, and have to be measured again."""
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
    family_alpha: float = FAMILY_ALPHA,
    history_alpha: float = HISTORY_ALPHA,
    min_nights: int = MIN_NIGHTS,
    prior_df: float = PRIOR_DF,
) -> NightReport:
    """The report of a night, from all records of its screening and the `fresh` ones of what was flagged.

    `expected` are the cells that the last night lists, whatever their version; `histories` the earlier nights of a
    key, the oldest first. `troubles` are items that failed or broke for another reason than their margin, by node id,
    with a sentence. Twins serve the A/A check and nothing else.
    """
    known = _Accepted(accepted, today)
    evidence = _confirmed(_evidence(screen, fresh, known, troubles, metric_of))
    evidence = _against_history(evidence, histories, known, metric_of, min_nights=min_nights, prior_df=prior_df)
    rates = ErrorRates(family_alpha, history_alpha)
    measured = {(record.cell, record.metric) for record in screen}
    absent = {(key.cell, key.metric): key for key in expected if (key.cell, key.metric) not in measured}
    cells = (
        *(_report(each, rates) for each in evidence.values()),
        *_absent_cells(sorted(absent.values()), known, _trouble_by_cell({*measured, *absent}, troubles)),
    )
    aa_check = aa_check_of(screen, metric_of)
    gate_status = _gate_status(cells, aa_check, troubles, evidence.values())
    return NightReport(
        cells=cells,
        aa_check=aa_check,
        troubles=dict(troubles),
        gate_status=gate_status,
        headline=sentences.headline(gate_status, cells, aa_check, troubles),
        family_alpha=family_alpha,
        history_alpha=history_alpha,
        warnings=sentences.warnings([each.screen for each in evidence.values()], expected, histories, aa_check),
    )


def _is_flagged(record: Record) -> bool:
    return not record.twin and record.verdict == "exceeds"


def _named(records: Iterable[Record]) -> dict[_Name, Record]:
    return {(record.key, record.nodeid): record for record in records if not record.twin}


def _evidence(
    screen: Sequence[Record],
    fresh: Sequence[Record],
    accepted: _Accepted,
    troubles: Mapping[str, str],
    metric_of: Callable[[str], Metric],
) -> dict[_Name, Evidence]:
    again = _named(fresh)
    return {
        name: Evidence(
            screen=record,
            metric=metric_of(record.metric),
            flagged=_is_flagged(record),
            fresh=again.get(name) if _is_flagged(record) else None,
            why_unconfirmed=troubles.get(record.nodeid, ""),
            acceptance=accepted.of(record.key),
            lapsed=accepted.lapsed(record.key),
        )
        for name, record in _named(screen).items()
    }


def _confirmed(evidence: dict[_Name, Evidence]) -> dict[_Name, Evidence]:
    """Add what the fresh data confirm; a flagged cell without any counts among them, as one that shows nothing."""
    suspects = {name: each for name, each in evidence.items() if each.flagged}
    plain = {name: _p_fresh(each, accepted=False) for name, each in suspects.items()}
    asked = {name: _p_fresh(each, accepted=True) for name, each in suspects.items()}
    beyond_margin, by_holm = adjusted(plain), adjusted(asked)
    found = dict(evidence)
    for name, each in suspects.items():
        if each.fresh is not None and each.fresh.usable:
            # By the level of the screening, as the second session may be judged at that of Holm's first step.
            within = 1 - plain[name] <= each.screen.alpha
            confirmation = Confirmation(
                asked[name], by_holm[name], beyond_margin[name], within=within, of=len(suspects)
            )
            found[name] = replace(each, confirmation=confirmation)
    return found


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
    *,
    min_nights: int,
    prior_df: float,
) -> dict[_Name, Evidence]:
    """Add what the nights before predict for the screening: fresh data are of cells that were chosen for their size.

    Where something worse is accepted, how much worse it may be is the only question.
    """
    cells = {each.key: each for each in evidence.values()}
    nights = {key: nights_that_count(histories.get(key, ()), accepted.since(key)) for key in cells}
    asked = [
        key
        for key, each in cells.items()
        if len(nights[key]) >= max(2, min_nights) and each.acceptance is None and each.screen.usable
    ]
    now = {key: nightly_change(cells[key].screen) for key in asked}
    predictions = predicted(now, nights, metric_of, prior_df=prior_df)
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


def _report(each: Evidence, rates: ErrorRates) -> CellReport:
    decision = _decision(each, rates)
    return CellReport(
        key=each.key,
        decision=decision,
        sentence=sentences.sentence(each, decision, rates),
        screen=each.screen,
        fresh=each.fresh,
        flagged=each.flagged,
        p_fresh=each.confirmation.p if each.confirmation else None,
        p_adjusted=each.confirmation.adjusted if each.confirmation else None,
        p_history=each.prediction.p if each.prediction else None,
        p_history_adjusted=each.p_history,
        nights=each.nights,
    )


def _decision(each: Evidence, rates: ErrorRates) -> GateDecision:
    against_margin = _of_fresh(each, rates.family) if each.flagged else _of_screening(each.screen)
    if against_margin is not GateDecision.EXCEEDS and each.p_history is not None and each.p_history <= rates.history:
        return GateDecision.WORSE
    return against_margin


def _of_screening(record: Record) -> GateDecision:
    known = {"within": GateDecision.WITHIN, "invalid": GateDecision.TROUBLE, "unjudged": GateDecision.UNJUDGED}
    return known.get(record.verdict, GateDecision.INCONCLUSIVE)


def _of_fresh(each: Evidence, alpha: float) -> GateDecision:
    confirmation = each.confirmation
    if confirmation is None:
        return GateDecision.INCONCLUSIVE
    if confirmation.adjusted <= alpha:
        return GateDecision.EXCEEDS
    if each.acceptance is not None and confirmation.beyond_margin <= alpha:
        return GateDecision.ACCEPTED
    return GateDecision.WITHIN if confirmation.within else GateDecision.INCONCLUSIVE


def _absent_cells(
    absent: Iterable[HistoryKey], accepted: _Accepted, trouble_of: Mapping[str, str]
) -> Iterable[CellReport]:
    """What earlier nights measured and this one did not: in trouble, given up, or missing without a word."""
    for key in absent:
        acceptance = accepted.of_absent(key)
        if key.cell in trouble_of:
            yield CellReport(key=key, decision=GateDecision.TROUBLE, sentence=trouble_of[key.cell])
        else:
            decision = GateDecision.GONE if acceptance else GateDecision.MISSING
            words = sentences.absence(acceptance, accepted.lapsed(key))
            yield CellReport(key=key, decision=decision, sentence=words)


def _trouble_by_cell(known: Iterable[tuple[str, str]], troubles: Mapping[str, str]) -> dict[str, str]:
    """The sentences of cells whose text stands between the brackets of an item in trouble."""
    found: dict[str, str] = {}
    cells = {cell for cell, _ in known}
    for nodeid, trouble in troubles.items():
        if within := cell_of(nodeid, cells):
            found.setdefault(within, trouble)
    return found


def _gate_status(
    cells: Sequence[CellReport],
    aa_check: AACheck | None,
    troubles: Mapping[str, str],
    evidence: Iterable[Evidence],
) -> GateStatus:
    """A flagged cell that nobody could measure again is no reason for red, and none for green."""
    decisions = {cell.decision for cell in cells}
    unconfirmed = any(each.flagged and each.confirmation is None for each in evidence)
    if aa_check is not None and not aa_check.stable:
        return GateStatus.UNSTABLE
    if decisions & RED or GateDecision.TROUBLE in decisions or troubles:
        return GateStatus.RED
    if GateDecision.MISSING in decisions:
        return GateStatus.SHRUNK
    decided = decisions & {GateDecision.WITHIN, GateDecision.ACCEPTED}
    return GateStatus.GREEN if decided and not unconfirmed else GateStatus.NOTHING_DECIDED
