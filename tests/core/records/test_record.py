import dataclasses
import itertools
import json
import math
from typing import Any

import pytest

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.margin import Margin
from pytest_ipperf.core.inference.claim import Claim
from pytest_ipperf.core.inference.effect import compare
from pytest_ipperf.core.inference.verdict import judge
from pytest_ipperf.core.measurement.client_load import ClientFacts, client_load
from pytest_ipperf.core.measurement.link_rate import LinkRate
from pytest_ipperf.core.measurement.run import Run
from pytest_ipperf.core.records.arm_summary import ArmSummary, quantiles_of, summarise
from pytest_ipperf.core.records.record import Record, strictest
from pytest_ipperf.metrics import METRICS

FOUR, SIX = Arm(4, "native"), Arm(6, "native")
PHASES = ("dns", "total")


CLIENT = ClientFacts(cpu_s=0.3, wall_s=0.5, connections=3, lag_s=0.001, peak=3, tcp={"TCPTimeouts": 1})


def run(arm: Arm, epoch: int, value: float, *, warmup: bool = False, failed: int = 0) -> Run:
    return Run(
        arm=arm, epoch=epoch, block=0, slot=0, warmup=warmup, started_at=0.0, attempted=3,
        failed={"talk reset": failed} if failed else {}, values={"response_time": value},
        completed_s=value if failed < 3 else None,
    )  # fmt: skip


def record(**change) -> Record:
    side = ArmSummary(arm=SIX, values=(0.01, 0.011), attempted=6, completed=6, failed={}, phases={"dns": 0.001})
    facts: dict[str, Any] = {
        "cell": "lab-smtp-c10-1k-ipv6", "testbed": "lab", "protocol": "smtp", "connections": 10, "payload_bytes": 1024,
        "ipver": 6, "transport": "native", "twin": False, "client": "lean", "server": "postfix 3.7.11",
        "metric": "response_time", "design": "quick", "judges": True, "seed": 1, "look": 1, "looks": 1, "epochs": 6,
        "blocks": 2, "deadline_s": 10.0, "test": side, "reference": side, "estimate": 1.0, "low": -1.0, "high": 3.0,
        "confidence": 0.95, "sd_epoch": 0.02, "sd_block": 0.03, "margin": "", "margin_fraction": None,
        "alpha": 0.05, "verdict": "measured", "reasons": (), "sentence": "",
    }  # fmt: skip
    return Record(**(facts | change))


def test_a_record_survives_json():
    original = record()
    assert Record.from_json(original.to_json()) == original
    assert json.loads(original.to_json())["cell"] == "lab-smtp-c10-1k-ipv6"


def test_the_clients_part_survives_json_too():
    found = client_load([CLIENT], [0.0001], mean_s=0.01, baseline_cost_s=0.002)
    original = record(test=dataclasses.replace(record().test, instrument=found))
    assert Record.from_json(original.to_json()) == original


def test_the_pace_survives_json_too():
    found = LinkRate(rate_bit_s=1e8, ceiling_bit_s=9.4e7, goodput_bit_s=None, path_bit_s=1e8)
    original = record(test=dataclasses.replace(record().test, pace=found), backend="ebpf", rate_bit_s=1e8)
    assert Record.from_json(original.to_json()) == original


def test_a_summary_puts_the_clients_part_together():
    runs = [dataclasses.replace(run(SIX, epoch, 0.01), client=CLIENT) for epoch in range(2)]
    found = summarise(
        SIX, "response_time", runs, [(0.0, 0.001, 0.01, 0.0002, 0.003)], PHASES, baseline_cost_s=0.004
    ).instrument
    assert found is not None
    assert (found.share, found.late_s, found.peak, found.behind_s) == (0.4, 0.0002, 3, 0.003)
    assert summarise(SIX, "response_time", [run(SIX, 0, 0.01)], [], PHASES).instrument is None


def test_quantiles_are_of_all_connections_with_failed_ones_as_infinite():
    times = [0.001 * number for number in range(1, 99)]
    runs = [dataclasses.replace(run(SIX, 0, 0.01, failed=2), times=times), run(SIX, 1, 9.0, warmup=True)]
    assert quantiles_of(runs) == {"p50": 0.05, "p95": 0.095, "p99": None, "p99.9": None}
    assert quantiles_of([run(SIX, 0, 10.0, failed=3)]) == dict.fromkeys(("p50", "p95", "p99", "p99.9"))
    assert quantiles_of([run(SIX, 0, 0.01)]) == {}


def test_quantiles_survive_json_and_may_be_missing():
    side = dataclasses.replace(record().test, quantiles={"p50": 0.01, "p95": 0.02, "p99": 0.03, "p99.9": None})
    original = record(test=side)
    assert Record.from_json(original.to_json()) == original
    plain = original.to_plain()
    del plain["test"]["quantiles"]
    assert Record.from_plain(plain).test.quantiles == {}


def test_failures_do_not_hide_the_client():
    """Failures count as the deadline, during which the client has nothing to do."""
    lossy = dataclasses.replace(run(SIX, 0, 3.34), completed_s=0.01, failed={"talk reset": 1}, client=CLIENT)
    summary = summarise(
        SIX, "response_time", [lossy], [(0.0, 0.001, 0.01, 0.0002, 0.003)], PHASES, baseline_cost_s=0.004
    )
    assert summary.instrument is not None
    assert summary.instrument.share == 0.4
    assert summary.completed_mean == 0.01
    failed = dataclasses.replace(run(SIX, 0, 10.0, failed=3), client=CLIENT)
    nothing = summarise(SIX, "response_time", [failed], [], PHASES, baseline_cost_s=0.004)
    assert nothing.instrument is not None
    assert nothing.completed_mean == 10.0


def test_a_judgement_adds_the_question_and_the_answer():
    runs = [run(arm, epoch, (0.01 + epoch * 1e-4) * (1.5 if arm == SIX else 1.0) * (1 + epoch % 2 * 0.01 * arm.ipver))
            for epoch in range(6) for arm in (FOUR, SIX)]  # fmt: skip
    judgement = judge(compare(runs, SIX, FOUR, METRICS["response_time"].metric), Margin.parse("10%"))
    judged = record().judged(Claim(judgement))
    assert (judged.verdict, judged.margin, judged.margin_fraction) == ("exceeds", "10%", 0.1)
    assert judged.sentence == judgement.sentence()


def test_a_summary_leaves_warmups_out_and_adds_failures_up():
    runs = [run(SIX, 0, 9.0, warmup=True), run(SIX, 0, 0.01, failed=1), run(SIX, 1, 0.02, failed=2), run(FOUR, 0, 1.0)]
    rows = [(0.0, 0.001, 0.01, 7.0, 8.0), (0.0, 0.003, 0.02, 7.0, 8.0)]  # the last columns are none of the phases
    summary = summarise(SIX, "response_time", runs, rows, PHASES)
    assert summary.values == (0.01, 0.02)
    assert (summary.attempted, summary.completed, summary.failed) == (6, 3, {"talk reset": 3})
    assert summary.phases == {"dns": 0.002, "total": 0.015}
    assert summary.mean == 0.015


def test_means_of_the_completed_alone_are_kept_beside_the_values():
    """The values count a failed connection as the deadline; a run that completed nothing has no such mean."""
    lossy = dataclasses.replace(run(SIX, 0, 3.34), completed_s=0.015, failed={"talk reset": 1})
    summary = summarise(SIX, "response_time", [lossy, run(SIX, 1, 10.0, failed=3), run(SIX, 2, 0.03)], [], PHASES)
    assert summary.values == (3.34, 10.0, 0.03)
    assert summary.completed_values == (0.015, 0.03)


def test_an_arm_that_completed_nothing_has_no_phases():
    assert summarise(SIX, "response_time", [run(SIX, 0, 10.0, failed=3)], [], PHASES).phases == {}


# --- what is kept of it -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "usable"),
    [
        ({}, True),
        ({"verdict": "inconclusive", "reasons": ("straddles",)}, True),
        ({"verdict": "invalid", "reasons": ("zero_spread",)}, False),
        ({"verdict": "invalid"}, False),
        ({"reasons": ("doubted",)}, False),
        ({"reasons": ("too_few_epochs",)}, False),
        ({"reasons": ("never_judges",)}, False),
        ({"estimate": None}, False),
        ({"sd_epoch": None}, False),
        ({"sd_epoch": math.nan}, False),
        ({"estimate": -100.0}, False),
        ({"estimate": math.inf}, False),
        ({"estimate": -100.0, "change_unit": "pp"}, True),
    ],
)
def test_its_past_knows_whether_its_figures_are_evidence(change, usable):
    found = record(**change)
    assert (found.usable, found.history_entry("A", 1.0).usable) == (usable, usable)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_of_several_questions_about_a_cell_the_strictest_stays(order):
    asked = [
        record(verdict="measured"),
        record(verdict="within", margin="30%", margin_fraction=0.3),
        record(verdict="exceeds", margin="10%", margin_fraction=0.1),
        record(cell="lab-smtp-c1-1k-ipv6"),
    ]
    found = strictest([asked[place] for place in order], "A")
    assert {key.cell: past.verdict for key, past in found.items()} == {
        "lab-smtp-c10-1k-ipv6": "exceeds",
        "lab-smtp-c1-1k-ipv6": "measured",
    }
    assert {past.session for past in found.values()} == {"A"}


def test_a_metric_keeps_its_own_answer_beside_failures_that_exceed_their_margin():
    runs = [
        dataclasses.replace(run(arm, epoch, 0.01), attempted=1000, values={"failed_share": share})
        for epoch in range(6)
        for arm, share in ((FOUR, 0.0), (SIX, 0.2 + 0.001 * epoch))
    ]
    failures = judge(compare(runs, SIX, FOUR, METRICS["failed_share"].metric), Margin.parse("1pp"))
    reference = dataclasses.replace(record().reference, arm=FOUR)
    mixed = record(verdict="within", sentence="IPv6 is as fast", reference=reference).also(failures)
    assert mixed.verdict == "exceeds"
    own, beside = mixed.parts()
    assert (own.verdict, own.sentence, own.components) == ("within", "IPv6 is as fast", ())
    assert (beside.metric, beside.verdict, beside.components) == ("failed_share", "exceeds", ())


def test_of_two_questions_alike_the_last_stays():
    first, last = (record(margin="10%", margin_fraction=0.1, verdict=verdict) for verdict in ("within", "exceeds"))
    (past,) = strictest([first, last], "A").values()
    assert past.verdict == "exceeds"
