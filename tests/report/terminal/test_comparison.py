"""The comparison of two sessions in lines; and records that are judged again have the same verdict."""

import dataclasses
import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.margin import Margin
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


def test_what_is_worse_and_better_comes_first_and_the_rest_is_counted():
    then = [past("a", "A", 2), past("b", "A", 30), past("c", "A", 0), past("d", "A", 0), past("e", "A", 0)]
    now = [
        past("a", "B", 25), past("b", "B", 1, fingerprint="f1"), past("c", "B", 9, 0.03), past("d", "B", 0.5),
        past("f", "B", 0),
    ]  # fmt: skip
    shown = lines(found(now, then), "A", "B")
    assert shown == [
        (
            "EXCEEDS a response_time: the change was +2.0 % and is +25.0 %, a difference of +22.5 % [+21.4, +23.7] "
            "(95 % interval); the one-sided 95 % lower bound +21.6 % lies beyond the margin of 10 %"
        ),
        (
            "BETTER b response_time: the change was +30.0 % and is +1.0 %, a difference of -22.3 % [-23.0, -21.6] "
            "(95 % interval); the one-sided 95 % upper bound -21.7 % lies beyond the margin of 10 % on the better side"
        ),
        "ONLY IN A: e response_time",
        "ONLY IN B: f response_time",
        "the hosts or their server have changed in 1 cell, such as b response_time",
        (
            "from A to B: 2 within margin, 1 exceeds margin, 1 not enough evidence, "
            "1 of those within better by more than its margin"
        ),
    ]
    everything = lines(found(now, then), "A", "B", everything=True)
    assert [line.split(":")[0] for line in everything] == [
        "EXCEEDS a response_time", "BETTER b response_time", "INCONCLUSIVE c response_time", "WITHIN d response_time",
        "ONLY IN A", "ONLY IN B", shown[4], "from A to B",
    ]  # fmt: skip
    assert everything[2].endswith(
        "not enough evidence: the one-sided 95 % bounds +7.1 % and +11.0 % lie on both sides of the margin of 10 %"
    )


def test_of_many_cells_of_which_the_same_is_said_the_number_is_told():
    then = [past(f"c{number}", "A", 0, change=None, sd_epoch=None, epochs=1) for number in range(5)]
    now = [past(f"c{number}", "B", 0, version="2") for number in range(5)]
    shown = lines(found(now, then), "A", "B")
    assert shown == [
        "UNJUDGED 5 cells: A has 1 epoch of it, too few to judge",
        "the workload is another version in 5 cells, such as c0 response_time: it was 1 and is 2",
        "from A to B: 5 unjudged",
    ]
    every = lines(found(now, then), "A", "B", everything=True)
    assert every[0] == "UNJUDGED c0 response_time: unjudged: A has 1 epoch of it, too few to judge"
    assert len(every) == 7


def test_of_nothing_that_is_enough():
    assert lines(found([], []), "A", "B") == ["from A to B: they have no cell in common"]


@pytest.mark.parametrize(
    ("metric", "percents", "margin", "end"),
    [
        ("throughput", (-20, 0), "10%", "the one-sided 95 % upper bound -19.4 % lies beyond the margin of 10 %"),
        ("throughput", (-4, 0), "10%", "the one-sided 95 % lower bound -4.7 % lies within the margin of 10 %"),
        (
            "throughput",
            (20, 0),
            "10%",
            "the one-sided 95 % lower bound +19.1 % lies beyond the margin of 10 % on the better side",
        ),
        ("response_time", (4, 0), "10%,1.5ms", "lies within the margin of 10 % (at least 1.5 ms), here 15.0 %"),
    ],
)
def test_the_bound_that_decides_is_told(metric, percents, margin, end):
    now, then = (past("a", name, each, metric=metric) for name, each in zip("BA", percents, strict=True))
    assert sentence(compared(now, then, METRICS[metric].metric, margin=Margin.parse(margin))).endswith(end)


def test_shares_are_told_in_points():
    now, then = (past("a", name, 0, 0.001, "loss", change=each) for name, each in (("B", 0.031), ("A", 0.011)))
    assert sentence(compared(now, then, METRICS["loss"].metric, margin=Margin.parse("1pp"))) == (
        "the change was +1.1 pp and is +3.1 pp, a difference of +2.0 pp [+1.9, +2.1] (95 % interval); "
        "the one-sided 95 % lower bound +1.9 pp lies beyond the margin of 1 pp"
    )


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
    ).judged(judged)  # fmt: skip
    back = Record.from_json(record.to_json())
    again = judge(
        _kept((*back.test.values, *back.reference.values), metric, back.epochs, back.blocks), Margin.parse(back.margin),
        alpha=back.alpha,
    )  # fmt: skip
    assert (again.verdict.name.lower(), again.p_exceeds) == (back.verdict, back.p_exceeds)
    kept = back.history_entry("A", 0.0)
    assert kept.change == pytest.approx(effect.change.estimate, abs=1e-12)
    assert compared(kept, kept, metric).verdict in (Verdict.WITHIN, Verdict.INCONCLUSIVE)
