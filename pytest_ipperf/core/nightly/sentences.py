"""The bulletin: a night in plain sentences, one for each cell and one for all."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from pytest_ipperf.core.design.metric import UNITS_OF_CHANGE
from pytest_ipperf.core.inference.effect import percent_text
from pytest_ipperf.core.inference.power import slowdown_fraction
from pytest_ipperf.core.nightly.aa_check import AACheck
from pytest_ipperf.core.nightly.acceptance import Acceptance
from pytest_ipperf.core.nightly.evidence import Confirmation, ErrorRates, Evidence
from pytest_ipperf.core.nightly.report import CellReport, GateDecision, GateStatus
from pytest_ipperf.core.records.history_entry import HistoryEntry, HistoryKey
from pytest_ipperf.core.records.record import Record

# So many cells are named in a headline.
_NAMED = 3


def sentence(each: Evidence, ruling: GateDecision, levels: ErrorRates) -> str:
    """What was ruled of a measured cell, with the figures behind it."""
    against_margin = _of_fresh(each, levels) if each.flagged else _of_screening(each.screen)
    parts = [_of_nights(each, levels), against_margin] if ruling is GateDecision.WORSE else [against_margin]
    if ruling is not GateDecision.WORSE and each.prediction is not None:
        parts.append(f"nothing worse is shown against {_nights(each)}")
    if each.lapsed is not None and each.acceptance is None and ruling in (GateDecision.EXCEEDS, GateDecision.WORSE):
        parts.append(_over(each.lapsed))
    return "; ".join(parts)


def absence(acceptance: Acceptance | None, lapsed: Acceptance | None) -> str:
    """What is told of a cell that earlier nights measured and this one did not."""
    told = "earlier nights measured it, and this one did not"
    if acceptance is not None:
        return f"{told}, as is {_accepted(acceptance)}"
    return f"{told}; {_over(lapsed)}" if lapsed else told


def headline(
    light: GateStatus, cells: Sequence[CellReport], sentinel: AACheck | None, troubles: Mapping[str, str]
) -> str:
    """The night's answer in one sentence."""
    found = {ruling: [str(cell.key) for cell in cells if cell.ruling is ruling] for ruling in GateDecision}
    parts = []
    if light is GateStatus.UNSTABLE and sentinel is not None:
        parts.append(
            f"in {sentinel.excludes} of {_count(sentinel.cells, 'cell')} the reference differs from its twin, where "
            f"chance gives {sentinel.at_most} at most, so that nothing else of this night is to be believed"
        )
    for ruling, words in (
        (GateDecision.EXCEEDS, "beyond the margin, confirmed in fresh epochs"),
        (GateDecision.WORSE, "worse than in the last nights"),
        (GateDecision.MISSING, "no longer measured"),
    ):
        if found[ruling]:
            parts.append(f"{_share(len(found[ruling]), len(cells))} {words}: {_names(found[ruling])}")
    if troubles or found[GateDecision.TROUBLE]:
        parts.append(f"trouble with {_count(max(len(troubles), len(found[GateDecision.TROUBLE])), 'item')}")
    if unsettled := sum(_is_unsettled(cell) for cell in cells):
        parts.append(f"{_share(unsettled, len(cells))} flagged and not measured again")
    parts.append(f"{_share(len(found[GateDecision.WITHIN]), len(cells))} within the margin")
    parts += _rest(cells, found)
    return f"{light.word}: {'; '.join(parts)}"


def warnings(
    screen: Sequence[Record],
    expected: Iterable[HistoryKey],
    courses: Mapping[HistoryKey, Sequence[HistoryEntry]],
    sentinel: AACheck | None,
) -> tuple[str, ...]:
    """What a reader should know of the night and that decides nothing."""
    cells = {record.key: record for record in screen}
    known = {key for key in (*expected, *courses) if key.version}
    names = {(key.cell, key.metric) for key in known}
    changed = sum(_is_changed(record, courses.get(key, ())) for key, record in cells.items())
    anew = sum(key not in known and (key.cell, key.metric) in names for key in cells)
    told = []
    if sentinel is None:
        told.append("no sentinel: the reference had no twin, so that nothing tells whether the environment was stable")
    if changed:
        told.append(f"of {_count(changed, 'cell')} the hosts or the server are not those of the last night")
    if anew:
        told.append(
            f"of {_count(anew, 'cell')} the workload is not that of earlier nights, so that history begins anew"
        )
    return tuple(told)


def _is_changed(record: Record, course: Sequence[HistoryEntry]) -> bool:
    """Whether the last night's is known too, and another."""
    before = course[-1].fingerprint if course else ""
    return before not in ("", record.fingerprint)


# --- a cell -----------------------------------------------------------------------------------------------------------


def _of_screening(record: Record) -> str:
    if record.verdict == "unjudged":
        return record.sentence
    if record.estimate is None or record.margin_fraction is None:
        return "it was measured, and nothing was asked of it"
    beside = {
        "within": f"is within {_margin(record)}",
        "invalid": "is no valid measurement",
    }.get(record.verdict, f"is shown neither within {_margin(record)} nor beyond it")
    return f"{_change(record)} {beside}"


def _of_fresh(each: Evidence, levels: ErrorRates) -> str:
    said, now = each.confirmation, each.tells
    if said is None:
        seemed = f"{_change(each.screen)} seems beyond {_margin(each.screen)}"
        why = each.lacking or ("its fresh data are no evidence" if each.fresh else "")
        return f"{seemed}, and was neither confirmed nor refuted in fresh epochs{f': {why}' if why else ''}"
    found, screened = f"{_change(now)} in fresh epochs", f"{_percent(each.screen.estimate, now.change_unit)} before"
    if said.adjusted <= levels.family:
        beyond = _margin(now)
        if each.acceptance is not None:
            beyond += f", and worse than the {_up_to(each.acceptance, now.change_unit)}"
        return f"{found} ({screened}) is beyond {beyond}: {_by_holm(said.adjusted, said)}"
    if each.acceptance is not None and said.beyond_margin <= levels.family:
        beyond = f"beyond {_margin(now)}: {_by_holm(said.beyond_margin, said)}"
        return f"{found} ({screened}) is {beyond}; {_up_to(each.acceptance, now.change_unit)}"
    if said.within:
        return f"{found} ({screened}) is within {_margin(now)}"
    return f"{found} ({screened}) does not show that it is beyond {_margin(now)}: {_by_holm(said.adjusted, said)}"


def _of_nights(each: Evidence, levels: ErrorRates) -> str:
    found = each.prediction
    if found is None or each.p_history is None:
        return ""
    fraction = slowdown_fraction(max(found.worse_by, 0.0), each.metric.direction, each.metric.scale)
    size = f"{percent_text(100 * fraction, sign=False)} {UNITS_OF_CHANGE[each.metric.scale]}"
    p = f"{_p(each.p_history)} by Holm over {_count(each.compared, 'cell')}"
    return f"it is worse by {size} than {_nights(each)}: {p}, for a level of {100 * levels.history:g} %"


def _nights(each: Evidence) -> str:
    return f"the mean of its last {_count(each.nights, 'night')}"


def _by_holm(p: float, said: Confirmation) -> str:
    return f"{_p(p)} by Holm over {_count(said.of, 'flagged cell')}"


def _change(record: Record) -> str:
    if record.estimate is None or record.low is None or record.high is None:
        return "a change without an interval"
    low, high = percent_text(record.low), percent_text(record.high)
    return f"{_percent(record.estimate, record.change_unit)} [{low}, {high}]"


def _margin(record: Record) -> str:
    return f"the margin of {_share_text(record.margin_fraction)} {record.change_unit}"


def _share_text(share: float | None) -> str:
    """In hundredths, with three digits and all that stand before the point."""
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
    return f"accepted until {lapsed.until}, which is over"


# --- all cells --------------------------------------------------------------------------------------------------------


def _rest(cells: Sequence[CellReport], found: Mapping[GateDecision, Sequence[str]]) -> list[str]:
    refuted = sum(cell.flagged and cell.ruling in _REFUTED and not _is_unsettled(cell) for cell in cells)
    without = sum(cell.ruling is GateDecision.INCONCLUSIVE and not cell.flagged for cell in cells)
    counts = (
        (len(found[GateDecision.ACCEPTED]), "worse, as is accepted"),
        (refuted, "flagged and not confirmed"),
        (without, "without enough evidence"),
        (len(found[GateDecision.UNJUDGED]), "unjudged"),
        (len(found[GateDecision.GONE]), "no longer measured, as is accepted"),
    )
    return [f"{count} {words}" for count, words in counts if count]


_REFUTED = (GateDecision.WITHIN, GateDecision.INCONCLUSIVE)


def _is_unsettled(cell: CellReport) -> bool:
    return cell.flagged and cell.ruling is GateDecision.INCONCLUSIVE and cell.p_adjusted is None


def _share(count: int, cells: int) -> str:
    return f"{count} of {_count(cells, 'cell')} {'is' if 1 in (count, cells) else 'are'}"


def _names(found: Collection[str]) -> str:
    more = len(found) - _NAMED
    named = ", ".join(list(found)[:_NAMED])
    return f"{named} and {more} more" if more > 0 else named


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
