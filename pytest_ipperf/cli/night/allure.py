"""Write the decisions of a night to the results that its sessions made for Allure.

pytest judges each cell of a session alone, and the night all flagged cells together, so their answers may differ.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_ipperf.cli.night.decide import NightDecision
from pytest_ipperf.core.nightly.evidence import is_within
from pytest_ipperf.core.nightly.report import RANK, CellReport, GateDecision, NightReport
from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.core.portable.errors import DamageError
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.report import allure_card
from pytest_ipperf.report.allure_result import VALUES, Category, result_id
from pytest_ipperf.store import write_atomically

_CATEGORIES = {
    GateDecision.EXCEEDS: Category.REGRESSION,
    GateDecision.WORSE: Category.REGRESSION,
    GateDecision.INCONCLUSIVE: Category.INCONCLUSIVE,
    GateDecision.UNJUDGED: Category.UNJUDGED,
}
"""Category of each decision about a measured cell; the others pass."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """The decision about a test's cell, and the record and session whose result shows the decision."""

    cell: CellReport
    record: Record
    session: SessionSummary


def write_decisions(folder: Path, decided: NightDecision) -> list[str]:
    """Write the decisions to the results in `folder`; return the errors, if any, in lines.

    The results of the second session get theirs, and those of the first whose cells are worse than their history.
    """
    answers, troubles = dict(_decided(decided)), []
    for file in sorted(folder.glob("*-result.json")) if answers else ():
        try:
            _complete(file, answers, decided.report)
        except OSError as error:
            troubles.append(f"allure: {error.filename or file} cannot be written ({error.strerror})")
        except Exception as error:  # noqa: BLE001 - a defect of a report must not cost the decision
            troubles.append(
                f"allure: {file}: {type(error).__name__}: {error}; the verdict and the records are complete"
            )
    return troubles


def _decided(decided: NightDecision) -> Iterator[tuple[tuple[str, str], _Answer]]:
    """Yield the answers that the night gives, by session and id of the result.

    What is asked of a cell beside its metric has decisions of its own; the worst is the answer of the test.
    """
    by_test: dict[str, list[CellReport]] = {}
    for cell in decided.report.cells:
        if cell.record is not None:
            by_test.setdefault(cell.record.nodeid, []).append(cell)
    for nodeid, cells in by_test.items():
        worst = min(cells, key=lambda each: RANK.index(each.decision))
        again = any(each.fresh is not None for each in cells)
        session = decided.fresh if again else decided.summary
        if session is None or not (again or worst.decision is GateDecision.WORSE):
            continue
        for record in session.records:
            if record.nodeid == nodeid and not record.twin:
                yield (session.name, result_id(nodeid, record.cell, record.metric)), _Answer(worst, record, session)


def _complete(file: Path, answers: Mapping[tuple[str, str], _Answer], report: NightReport) -> None:
    result = json.loads(file.read_bytes())
    parameters = {each.get("name"): str(each.get("value")).strip("'") for each in result.get("parameters", ())}
    answer = answers.get((parameters.get("session", ""), result.get("historyId", "")))
    # A test that failed for another reason than its cell keeps that.
    if answer is None or result.get("status") in ("broken", "failed"):
        return
    cell = answer.cell
    category = _CATEGORIES.get(cell.decision)
    record = dataclasses.replace(answer.record, verdict=_verdict(cell), sentence=cell.sentence)
    result["status"] = category.status if category else "passed"
    result["statusDetails"] = {
        "message": category.message(cell.sentence) if category else f"{cell.decision.value}: {cell.sentence}"
    }
    result["descriptionHtml"] = allure_card.description(
        record,
        allure_card.plot(record),
        _spread(record, answer.session),
        answer=cell.decision.value,
        rule=_rule(cell, report),
    )
    for each in result.get("attachments", ()):
        if each.get("name") == VALUES:
            write_atomically(file.parent / each["source"], allure_card.values_csv(record).encode())
    write_atomically(file, json.dumps(result).encode())


def _spread(record: Record, session: SessionSummary) -> bytes | None:
    """Return the plot of the distribution and the course of the record's runs; None if their samples are lost."""
    places = {side.arm: (record.workload, side.arm) for side in record.sides}
    try:
        times = {arm: session.samples[place] for arm, place in places.items() if place in session.samples}
    except (DamageError, OSError):  # a picture must not cost the decision
        times = {}
    began = {arm: session.run_times[place] for arm, place in places.items() if place in session.run_times}
    return allure_card.distribution_plot(record, times, began)


def _verdict(cell: CellReport) -> str:
    """Return the verdict about the cell's margin that the night's decision implies."""
    if cell.record is None or cell.fresh is None or cell.screen is None:
        return cell.record.verdict if cell.record else ""
    if cell.decision in (GateDecision.EXCEEDS, GateDecision.ACCEPTED):
        return "exceeds"
    # The screening's level applies, as in the gate.
    within = cell.fresh.usable and is_within(cell.fresh, METRICS[cell.fresh.metric].metric, cell.screen.alpha)
    return "within" if within else "inconclusive"


def _rule(cell: CellReport, report: NightReport) -> str:
    if cell.decision is GateDecision.WORSE:
        return (
            f"Decision: of the night, by Holm's procedure at {100 * report.history_alpha:g} % over all cells with "
            f"enough nights, here {cell.nights}."
        )
    level = f"{100 * report.family_alpha:g} %"
    adjusted = "" if cell.p_adjusted is None else f"; its adjusted p-value is {cell.p_adjusted:.2g}"
    return f"Decision: of the night, by Holm's procedure at {level} over all flagged cells{adjusted}."
