"""The night's decisions in the results for Allure, also where pytest judged a cell otherwise."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import math
import statistics
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_ipperf.cli.night.allure import write_decisions
from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.margin import Margin
from pytest_ipperf.core.inference.claim import Claim
from pytest_ipperf.core.inference.effect import Effect
from pytest_ipperf.core.inference.verdict import judge
from pytest_ipperf.core.nightly.gate import FAMILY_ALPHA, decide
from pytest_ipperf.core.nightly.report import GateDecision
from pytest_ipperf.core.records.arm_summary import ArmSummary
from pytest_ipperf.core.records.history_entry import HistoryKey
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.core.stats.interval import t_interval
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.protocols.base import PHASES
from pytest_ipperf.report.allure_result import PENDING, VALUES, Category, result_id

METRIC = METRICS["response_time"].metric
MARGIN, SD = 0.1, 0.02
EPOCHS = [-1.5, -1.1, -0.8, -0.4, -0.1, 0.1, 0.4, 0.8, 1.1, 1.5]
V4, V6 = Arm(4, "native"), Arm(6, "native")


def record(number: int, t: float, *, alpha: float) -> Record:
    """Make the real judgement of a cell that lies `t` standard errors beyond its margin."""
    unit = statistics.stdev(EPOCHS)
    changes = [math.log1p(MARGIN) + SD * (t / math.sqrt(10) + each / unit) for each in EPOCHS]
    values = {V4: [0.01] * 10, V6: [0.01 * math.exp(each) for each in changes]}
    sides = {
        arm: ArmSummary(
            arm=arm, values=tuple(each), attempted=3000, completed=3000, failed={},
            phases=dict.fromkeys(PHASES, each[0]),
        )
        for arm, each in values.items()
    }  # fmt: skip
    effect = Effect(
        metric=METRIC, change=t_interval(changes, 0.95), n_epochs=10, n_blocks=10, sd_epoch=statistics.stdev(changes),
        sd_block=None, test=V6, reference=V4, test_value=sides[V6].mean, reference_value=0.01,
    )  # fmt: skip
    cell, shown = f"lab-smtp-c{number}-1k-ipv6", effect.shown
    plain = Record(
        cell=cell, testbed="lab", protocol="smtp", connections=number, payload_bytes=1024, ipver=6, transport="native",
        twin=False, client="lean", server="postfix", metric="response_time", design="confirmation", judges=True, seed=1,
        look=1, looks=1, epochs=10, blocks=1, deadline_s=10.0, test=sides[V6], reference=sides[V4],
        estimate=shown.estimate, low=shown.low, high=shown.high, confidence=0.95, sd_epoch=effect.sd_epoch,
        sd_block=None, margin="", margin_fraction=None, alpha=alpha, verdict="measured", reasons=(), sentence="",
        workload_version="1", fingerprint="f", nodeid=f"suite.py::test[{cell}]",
    )  # fmt: skip
    return plain.judged(Claim(judge(effect, Margin(MARGIN), alpha=alpha)))


def result(folder, record: Record, session: str, **change) -> None:
    """Write the result of a record as the plugin does in a night's second session."""
    identity = result_id(record.nodeid, record.cell, record.metric)
    (folder / f"{session}{record.connections}.csv").write_text("verdict,ipv6,,flagged,\n")
    facts = {
        "uuid": identity, "historyId": identity, "status": "skipped", "descriptionHtml": "pending",
        "statusDetails": {"message": Category.FLAGGED.message(PENDING)},
        "parameters": [{"name": "connections", "value": "1"}, {"name": "session", "value": session, "excluded": True}],
        "attachments": [{"name": VALUES, "source": f"{session}{record.connections}.csv", "type": "text/csv"}],
    }  # fmt: skip
    (folder / f"{session}-{record.connections}-result.json").write_text(json.dumps(facts | change))


def decided(screen, fresh, **more: Any) -> Any:
    report = decide(
        screen=screen, fresh=fresh, expected=(), histories={}, accepted=(), today=dt.date(2026, 11, 22),
        troubles={}, metric_of=lambda name: METRICS[name].metric,
    )  # fmt: skip
    sessions = {"summary": ("first", screen), "fresh": ("second", fresh)}
    kept: dict[str, dict] = {"samples": {}, "run_times": {}}
    names = {key: SimpleNamespace(name=name, records=records, **kept) for key, (name, records) in sessions.items()}
    return SimpleNamespace(report=dataclasses.replace(report, **more), **names)


@pytest.fixture
def night(tmp_path):
    """Three flagged cells: pytest, which judges each at .04 / 3, is undecided about the second and the third.

    Holm's procedure tests the largest p-value at .04, so the night confirms the second, and not the third.
    """
    beyond = (8.0, 2.4, 1.5)
    screen = [record(number, 8.0, alpha=0.05) for number in (1, 2, 3)]
    fresh = [record(number, t, alpha=FAMILY_ALPHA / 3) for number, t in zip((1, 2, 3), beyond, strict=True)]
    assert [each.verdict for each in fresh] == ["exceeds", "inconclusive", "inconclusive"]
    for each in fresh:
        result(tmp_path, each, "second")
        result(tmp_path, each, "first")
    return tmp_path, screen, fresh


def read(folder, session, number) -> dict[str, Any]:
    return dict(json.loads((folder / f"{session}-{number}-result.json").read_text()))


def test_the_second_sessions_results_show_the_nights_decision_where_pytest_was_undecided(night):
    folder, screen, fresh = night
    found = decided(screen, fresh)
    by_cell = {cell.key.cell: cell for cell in found.report.cells}
    assert write_decisions(folder, found) == []
    confirmed = by_cell[fresh[1].cell]
    assert confirmed.decision is GateDecision.EXCEEDS
    shown = read(folder, "second", 2)
    assert (shown["status"], shown["statusDetails"]) == (
        "failed", {"message": f"regression: {confirmed.sentence}"},
    )  # fmt: skip
    said = shown["descriptionHtml"]
    assert said.startswith("<p><b>Exceeds, confirmed.</b> ")
    assert "Holm&#x27;s procedure at 4 % over all flagged cells; its adjusted p-value is " in said
    assert "one-sided" not in said
    assert "inconclusive" not in said
    assert "verdict,ipv6,,exceeds," in (folder / "second2.csv").read_text()
    undecided = read(folder, "second", 3)
    assert (undecided["status"], undecided["statusDetails"]["message"]) == (
        "skipped", f"inconclusive: {by_cell[fresh[2].cell].sentence}",
    )  # fmt: skip


def test_a_cell_that_fresh_data_show_within_its_margin_passes(night):
    folder, screen, fresh = night
    fresh = [*fresh[:2], record(3, -8.0, alpha=FAMILY_ALPHA / 3)]
    write_decisions(folder, decided(screen, fresh))
    shown = read(folder, "second", 3)
    assert (shown["status"], shown["statusDetails"]["message"].partition(":")[0]) == ("passed", "within")


def test_results_of_the_first_session_stay_but_of_cells_worse_than_their_history(night):
    folder, screen, fresh = night
    before = read(folder, "first", 1)
    found = decided(screen, fresh)
    write_decisions(folder, found)
    assert read(folder, "first", 1) == before
    calm = record(4, -8.0, alpha=0.05)
    result(folder, calm, "first", status="passed", statusDetails=None)
    (worse,) = decided([calm], []).report.cells
    worse = dataclasses.replace(worse, decision=GateDecision.WORSE, sentence="8 % slower than in 20 nights", nights=20)
    again = decided(screen, fresh, cells=(*found.report.cells, worse))
    again.summary.records.append(calm)
    write_decisions(folder, again)
    shown = read(folder, "first", 4)
    assert (shown["status"], shown["statusDetails"]) == (
        "failed", {"message": "regression: 8 % slower than in 20 nights"},
    )  # fmt: skip
    assert "Holm&#x27;s procedure at 5 % over all cells with enough nights" in shown["descriptionHtml"]


def test_what_is_asked_beside_the_metric_gives_the_test_its_worst_decision(night):
    folder, screen, fresh = night
    found = decided(screen, fresh)
    second = next(each for each in found.report.cells if each.key.cell == fresh[2].cell)
    failures = dataclasses.replace(
        second, key=HistoryKey(second.key.cell, "failures", "1"), decision=GateDecision.EXCEEDS, sentence="more fail"
    )
    write_decisions(folder, decided(screen, fresh, cells=(*found.report.cells, failures)))
    shown = read(folder, "second", 3)
    assert (shown["status"], shown["statusDetails"]["message"]) == ("failed", "regression: more fail")


@pytest.mark.parametrize("status", ["broken", "failed"])
def test_a_test_that_failed_for_another_reason_keeps_it(night, status):
    folder, screen, fresh = night
    result(folder, fresh[0], "second", status=status, statusDetails={"message": "the fixture broke"})
    before = read(folder, "second", 1)
    write_decisions(folder, decided(screen, fresh))
    assert read(folder, "second", 1) == before


def test_a_damaged_result_or_a_lost_folder_is_told_and_costs_no_decision(night):
    folder, screen, fresh = night
    (folder / "a-result.json").write_text("{")
    (said,) = write_decisions(folder, decided(screen, fresh))
    assert said.startswith(f"allure: {folder / 'a-result.json'}: JSONDecodeError: ")
    assert read(folder, "second", 1)["status"] == "failed"
    assert write_decisions(folder / "elsewhere", decided(screen, fresh)) == []
