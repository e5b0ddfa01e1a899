"""Report a night in plain sentences, one for each cell and one for all."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from pytest_ipperf.core.design.metric import UNITS_OF_CHANGE, Metric
from pytest_ipperf.core.inference.effect import percent_text
from pytest_ipperf.core.inference.power import slowdown_fraction
from pytest_ipperf.core.nightly.aa_check import AACheck
from pytest_ipperf.core.nightly.acceptance import Acceptance
from pytest_ipperf.core.nightly.evidence import Confirmation, ErrorRates, Evidence
from pytest_ipperf.core.nightly.report import CellReport, GateDecision, GateStatus
from pytest_ipperf.core.records.change_interval import interval_that_decides
from pytest_ipperf.core.records.history_entry import HistoryEntry, HistoryKey
from pytest_ipperf.core.records.record import Record

UNASKED = "earlier nights asked it, and tonight its test ended inconclusive or failed before it did"

# Most cells that a headline names.
_NAMED = 3


def sentence(each: Evidence, decision: GateDecision, rates: ErrorRates) -> str:
    """Describe the decision about a measured cell, with the figures behind it."""
    again = each.flagged or each.late
    against_margin = _of_fresh(each, rates) if again else _of_screening(each.screen, each.metric)
    parts = [_of_nights(each, rates), against_margin] if decision is GateDecision.WORSE else [against_margin]
    if decision is not GateDecision.WORSE and each.prediction is not None:
        parts.append(_beside_margin(each, rates))
    if each.lapsed is not None and each.acceptance is None and decision in (GateDecision.EXCEEDS, GateDecision.WORSE):
        parts.append(_over(each.lapsed))
    return "; ".join(parts)


def absence(acceptance: Acceptance | None, lapsed: Acceptance | None) -> str:
    """Describe a cell that earlier nights measured and this one did not."""
    absent = "earlier nights measured it, and this one did not"
    if acceptance is not None:
        return f"{absent}, as is {_accepted(acceptance)}"
    return f"{absent}; {_over(lapsed)}" if lapsed else absent


def headline(
    gate_status: GateStatus, cells: Sequence[CellReport], aa_check: AACheck | None, troubles: Mapping[str, str]
) -> str:
    """Return the night's answer in one sentence."""
    by_decision = {
        decision: [str(cell.key) for cell in cells if cell.decision is decision] for decision in GateDecision
    }
    own = [cell for cell in cells if not cell.is_beside]
    unwell = {cell.key.cell for cell in cells if cell.is_beside and cell.decision is not GateDecision.WITHIN}
    within = sum(cell.decision is GateDecision.WITHIN and cell.key.cell not in unwell for cell in own)
    parts = []
    if gate_status is GateStatus.UNSTABLE and aa_check is not None:
        parts.append(
            f"in {aa_check.excludes} of {_count(aa_check.cells, 'cell')} the reference differs from its twin, where "
            f"chance gives {aa_check.at_most} at most, so nothing else of this night can be trusted"
        )
    for decision, words in (
        (GateDecision.EXCEEDS, "beyond the margin, confirmed in fresh epochs"),
        (GateDecision.WORSE, "worse than in the last nights"),
        (GateDecision.MISSING, "no longer measured"),
    ):
        if by_decision[decision]:
            counted = _cells(cell for cell in cells if cell.decision is decision)
            parts.append(f"{_share(counted, len(own))} {words}: {_names(by_decision[decision])}")
    if troubles or by_decision[GateDecision.TROUBLE]:
        parts.append(f"trouble with {_count(max(len(troubles), len(by_decision[GateDecision.TROUBLE])), 'item')}")
    if unconfirmed := _cells(filter(_is_unconfirmed, cells)):
        parts.append(f"{_share(unconfirmed, len(own))} flagged and not measured again")
    parts.append(f"{_share(within, len(own))} within the margin")
    parts += _rest(cells, by_decision)
    return f"{gate_status.word}: {'; '.join(parts)}"


def warnings(
    screen: Sequence[Record],
    expected: Iterable[HistoryKey],
    histories: Mapping[HistoryKey, Sequence[HistoryEntry]],
    aa_check: AACheck | None,
) -> tuple[str, ...]:
    """Return sentences that a reader should know and that do not affect the status."""
    cells = {record.key: record for record in screen}
    known = {key for key in (*expected, *histories) if key.version}
    names = {(key.cell, key.metric) for key in known}
    changed = sum(_is_changed(record, histories.get(key, ())) for key, record in cells.items())
    anew = sum(key not in known and (key.cell, key.metric) in names for key in cells)
    warnings = []
    if aa_check is None:
        warnings.append("no A/A check: the reference had no twin, so it is unknown whether the environment was stable")
    if changed:
        warnings.append(f"of {_count(changed, 'cell')} the hosts or the server differ from those of the last night")
    if anew:
        warnings.append(
            f"of {_count(anew, 'cell')} the workload differs from that of earlier nights, so its history begins anew"
        )
    return tuple(warnings)


def _is_changed(record: Record, history: Sequence[HistoryEntry]) -> bool:
    """Return whether the last night's fingerprint is known and differs."""
    before = history[-1].fingerprint if history else ""
    return before not in ("", record.fingerprint)


# --- a cell -----------------------------------------------------------------------------------------------------------


def _of_screening(record: Record, metric: Metric) -> str:
    if record.verdict == "unjudged":
        return record.sentence
    if record.estimate is None or record.margin_fraction is None:
        return "it was measured, but no test judged it"
    beside = {
        "within": f"is within {_margin(record)}",
        "invalid": "is not a valid measurement",
    }.get(record.verdict, f"is shown neither within {_margin(record)} nor beyond it")
    return f"{_change(record, metric)} {beside}"


def _of_fresh(each: Evidence, rates: ErrorRates) -> str:
    confirmation, now = each.confirmation, each.record
    if confirmation is None:
        seemed = f"{_change(each.screen, each.metric)} seems beyond {_margin(each.screen)}"
        why = each.why_unconfirmed or ("its fresh data are no evidence" if each.fresh else "")
        return f"{seemed}, and was neither confirmed nor refuted in fresh epochs{f': {why}' if why else ''}"
    finding, screened = (
        f"{_change(now, each.metric)} in fresh epochs",
        f"{_percent(each.screen.estimate, now.change_unit)} before" if each.screened else "not asked before",
    )
    suspects = "flagged cell" if each.flagged else "question of the second session"
    if confirmation.adjusted <= rates.family:
        beyond = _margin(now)
        if each.acceptance is not None:
            beyond += f", and worse than the {_up_to(each.acceptance, now.change_unit)}"
        return f"{finding} ({screened}) is beyond {beyond}: {_by_holm(confirmation.adjusted, confirmation, suspects)}"
    if each.acceptance is not None and confirmation.beyond_margin <= rates.family:
        beyond = f"beyond {_margin(now)}: {_by_holm(confirmation.beyond_margin, confirmation, suspects)}"
        return f"{finding} ({screened}) is {beyond}; {_up_to(each.acceptance, now.change_unit)}"
    if confirmation.within:
        return f"{finding} ({screened}) is within {_margin(now)}"
    by_holm = _by_holm(confirmation.adjusted, confirmation, suspects)
    return f"{finding} ({screened}) does not show that it is beyond {_margin(now)}: {by_holm}"


def _beside_margin(each: Evidence, rates: ErrorRates) -> str:
    """Describe how a cell compares with its nights, where another finding has decided."""
    if each.p_history is not None and each.p_history <= rates.history:
        return _of_nights(each, rates)
    return f"it is not shown to be worse than {_nights(each)}"


def _of_nights(each: Evidence, rates: ErrorRates) -> str:
    prediction = each.prediction
    if prediction is None or each.p_history is None:
        return ""
    fraction = slowdown_fraction(max(prediction.worse_by, 0.0), each.metric.direction, each.metric.scale)
    size = f"{percent_text(100 * fraction, sign=False)} {UNITS_OF_CHANGE[each.metric.scale]}"
    p = f"{_p(each.p_history)} by Holm over {_count(each.compared, 'cell')}"
    return f"it is worse by {size} than {_nights(each)}: {p}, for a level of {100 * rates.history:g} %"


def _nights(each: Evidence) -> str:
    return f"the mean of its last {_count(each.nights, 'night')}"


def _by_holm(p: float, confirmation: Confirmation, suspects: str) -> str:
    return f"{_p(p)} by Holm over {_count(confirmation.of, suspects)}"


def _change(record: Record, metric: Metric) -> str:
    found = interval_that_decides(record, metric)
    if record.estimate is None or found is None:
        return "a change without an interval"
    return f"{_percent(record.estimate, record.change_unit)}, {found.title} {found.text},"


def _margin(record: Record) -> str:
    return f"the margin of {_share_text(record.margin_fraction)} {record.change_unit}"


def _share_text(share: float | None) -> str:
    """Format a share in percent, with three significant digits and all integer digits."""
    shown = 100 * (share or 0.0)
    return f"{shown:{'.0f' if shown >= 1000 else '.3g'}}"


def _percent(change: float | None, unit: str) -> str:
    return f"{percent_text(change or 0.0)} {unit}"


def _p(p: float) -> str:
    return f"p {p:.2g}" if p >= 1e-4 else "p below 0.0001"


def _accepted(acceptance: Acceptance) -> str:
    return f"accepted until {acceptance.until} by {acceptance.by} ({acceptance.reason})"


def _up_to(acceptance: Acceptance, unit: str) -> str:
    return f"{_share_text(acceptance.up_to)} {unit} {_accepted(acceptance)}"


def _over(lapsed: Acceptance) -> str:
    if lapsed.withdrawn:
        return f"its acceptance was withdrawn: {lapsed.withdrawn}"
    return f"accepted until {lapsed.until}, which has passed"


# --- all cells --------------------------------------------------------------------------------------------------------


def _rest(cells: Sequence[CellReport], by_decision: Mapping[GateDecision, Sequence[str]]) -> list[str]:
    refuted = sum(cell.flagged and cell.decision in _REFUTED and not _is_unconfirmed(cell) for cell in cells)
    without = sum(cell.decision is GateDecision.INCONCLUSIVE and not cell.flagged for cell in cells)
    counts = (
        (len(by_decision[GateDecision.ACCEPTED]), "worse, as is accepted"),
        (refuted, "flagged and not confirmed"),
        (without, "inconclusive"),
        (len(by_decision[GateDecision.UNJUDGED]), "unjudged"),
        (len(by_decision[GateDecision.GONE]), "no longer measured, as is accepted"),
    )
    return [f"{count} {words}" for count, words in counts if count]


_REFUTED = (GateDecision.WITHIN, GateDecision.INCONCLUSIVE)


def _cells(chosen: Iterable[CellReport]) -> int:
    """Return the number of cells that these reports are about; one beside a cell's metric is no cell of its own."""
    found = list(chosen)
    own = [cell.key.cell for cell in found if not cell.is_beside]
    return len(own) + len({cell.key.cell for cell in found if cell.is_beside} - set(own))


def _is_unconfirmed(cell: CellReport) -> bool:
    return cell.flagged and cell.decision is GateDecision.INCONCLUSIVE and cell.p_adjusted is None


def _share(count: int, cells: int) -> str:
    return f"{count} of {_count(cells, 'cell')} {'is' if 1 in (count, cells) else 'are'}"


def _names(cells: Collection[str]) -> str:
    more = len(cells) - _NAMED
    named = ", ".join(list(cells)[:_NAMED])
    return f"{named} and {more} more" if more > 0 else named


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
