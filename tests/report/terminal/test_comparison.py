"""The comparison of two sessions in lines; and records that are judged again have the same verdict."""

import dataclasses
import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.margin import Margin
from pytest_ipperf.core.inference.claim import Claim
from pytest_ipperf.core.inference.effect import compare
from pytest_ipperf.core.inference.verdict import Verdict, judge
from pytest_ipperf.core.measurement.run import Run
from pytest_ipperf.core.records.comparison import compared, comparison
from pytest_ipperf.core.records.history_entry import HistoryEntry, HistoryKey
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.report.terminal.comparison import lines, sentence

TIME, RATE = (METRICS[name].metric for name in ("response_time", "throughput"))


def past(cell, session, percent, sd_epoch=0.01, metric="response_time", **more):
    key = HistoryKey(cell, metric, more.pop("version", "1"))
    history_entry = HistoryEntry(
        key=key, session=session, began_at=0.0, change=math.log1p(percent / 100),
        sd_epoch=sd_epoch, epochs=10, test_value=0.011, reference_value=0.01, margin="10%", margin_fraction=0.1,
        header_cost=0.0, verdict="within", fingerprint="f0",
    )  # fmt: skip
    return dataclasses.replace(history_entry, **more)


def found(now, then, **more):
    one, other = ({each.key: each for each in side} for side in (now, then))
    return comparison(one, other, lambda name: METRICS[name].metric, **more)


def test_what_is_worse_and_better_comes_first_and_the_rest_is_counted(golden):
    then = [past("a", "A", 2), past("b", "A", 30), past("c", "A", 0), past("d", "A", 0), past("e", "A", 0)]
    now = [
        past("a", "B", 25), past("b", "B", 1, fingerprint="f1"), past("c", "B", 9, 0.03), past("d", "B", 0.5),
        past("f", "B", 0),
    ]  # fmt: skip
    compared_cells = found(now, then)
    verdicts = {each.now.key.cell: (each.verdict, each.better) for each in compared_cells.differences}
    assert verdicts == {
        "a": (Verdict.EXCEEDS, False), "b": (Verdict.WITHIN, True), "c": (Verdict.INCONCLUSIVE, False),
        "d": (Verdict.WITHIN, False),
    }  # fmt: skip
    everything = lines(compared_cells, "A", "B", everything=True)
    golden("\n".join([*lines(compared_cells, "A", "B"), "", *everything]))


@pytest.mark.parametrize(("was", "is_now", "verdict"), [(0, 0, Verdict.WITHIN), (0, 25, Verdict.EXCEEDS)])
def test_a_twin_decides_nothing_and_is_neither_worse_nor_better(was, is_now, verdict):
    twin, cell = "lab-http-c1-10k-ipv4-twin", "lab-http-c1-10k-ipv6"
    alone = found([past(twin, "B", is_now)], [past(twin, "A", was)])
    assert [each.verdict for each in alone.differences] == [verdict]
    assert (alone.cells, alone.decided, alone.with_verdict(verdict)) == ((), False, ())
    left_out = "1 twin of the reference not counted"
    assert lines(alone, "A", "B") == [f"from A to B: they have no cell in common; {left_out}"]
    both = found([past(twin, "B", is_now), past(cell, "B", 0)], [past(twin, "A", was), past(cell, "A", 0)])
    assert both.decided
    assert lines(both, "A", "B") == [f"from A to B: 1 within; {left_out}"]
    shown = lines(both, "A", "B", everything=True)
    assert [line.partition(" response_time: ")[0] for line in shown[:-1]] == [f"WITHIN {cell}", f"TWIN {twin}"]


def test_of_many_cells_of_which_the_same_is_said_the_number_is_told(golden):
    then = [past(f"c{number}", "A", 0, change=None, sd_epoch=None, epochs=1) for number in range(5)]
    now = [past(f"c{number}", "B", 0, version="2") for number in range(5)]
    every = lines(found(now, then), "A", "B", everything=True)
    assert len(every) == 7
    golden("\n".join([*lines(found(now, then), "A", "B"), "", *every]))


def test_of_nothing_that_is_enough():
    assert lines(found([], []), "A", "B") == ["from A to B: they have no cell in common"]


@pytest.mark.parametrize(
    ("metric", "percents", "margin", "outcome"),
    [
        ("throughput", (-20, 0), "10%", (Verdict.EXCEEDS, False)),
        ("throughput", (-4, 0), "10%", (Verdict.WITHIN, False)),
        ("throughput", (20, 0), "10%", (Verdict.WITHIN, True)),
        ("response_time", (4, 0), "10%,1.5ms", (Verdict.WITHIN, False)),
    ],
    ids=["beyond", "within", "better", "margin by its minimum"],
)
def test_the_bound_that_decides_is_told(metric, percents, margin, outcome, golden):
    now, then = (past("a", name, each, metric=metric) for name, each in zip("BA", percents, strict=True))
    difference = compared(now, then, METRICS[metric].metric, margin=Margin.parse(margin))
    assert (difference.verdict, difference.better) == outcome
    golden(sentence(difference))


def test_shares_are_told_in_points(golden):
    now, then = (past("a", name, 0, 0.001, "loss", change=each) for name, each in (("B", 0.031), ("A", 0.011)))
    difference = compared(now, then, METRICS["loss"].metric, margin=Margin.parse("1pp"))
    assert (difference.verdict, difference.unit) == (Verdict.EXCEEDS, "pp")
    golden(sentence(difference))


# --- records give the same verdict ------------------------------------------------------------------------------------


def _kept(values, metric, epochs, blocks):
    """Return a record of these run values, one arm's after the other's, by epoch and block."""
    half = epochs * blocks
    runs = [
        Run(
            arm=arm, epoch=at // blocks, block=at % blocks, slot=0, warmup=False, started_at=0.0,
            values={metric.name: values[half * side + at]}, attempted=1, failed={}, completed_s=None,
        )
        for side, arm in enumerate((Arm(6, "native"), Arm(4, "native"))) for at in range(half)
    ]  # fmt: skip
    return compare(runs, Arm(6, "native"), Arm(4, "native"), metric)


@pytest.mark.parametrize("metric", [TIME, RATE], ids=lambda metric: metric.name)
@given(data=st.data())
def test_a_stored_result_that_is_judged_again_has_the_same_verdict(made, metric, data):
    """The effect computed from a record equals the measured one, and so does the verdict."""
    epochs, blocks = data.draw(st.integers(5, 8)), data.draw(st.integers(1, 3))
    count = 2 * epochs * blocks
    values = data.draw(st.lists(st.floats(0.5, 2.0), min_size=count, max_size=count))
    margin = Margin.parse(data.draw(st.sampled_from(("5%", "10%", "40%"))))
    effect = _kept(values, metric, epochs, blocks)
    assume(effect.sd_epoch > 1e-9)
    judged = judge(effect, margin)
    shown = effect.shown
    record = made.record(
        "tcp", "throughput", "ipv6", values[: count // 2], values[count // 2 :], epochs=epochs, blocks=blocks
    )
    record = dataclasses.replace(
        record, metric=metric.name, estimate=shown.estimate, low=shown.low, high=shown.high,
        sd_epoch=effect.sd_epoch, sd_block=effect.sd_block,
    ).judged(Claim(judged))  # fmt: skip
    back = Record.from_json(record.to_json())
    again = judge(
        _kept((*back.test.values, *back.reference.values), metric, back.epochs, back.blocks), Margin.parse(back.margin),
        alpha=back.alpha,
    )  # fmt: skip
    assert (again.verdict.name.lower(), again.p_exceeds) == (back.verdict, back.p_exceeds)
    kept = back.history_entry("A", 0.0)
    assert kept.change == pytest.approx(effect.change.estimate, abs=1e-12)
    assert compared(kept, kept, metric).verdict in (Verdict.WITHIN, Verdict.INCONCLUSIVE)
