"""An excess is confirmed by fresh epochs alone, at a level of their own."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.margin import Margin
from pytest_ipperf.core.inference.confirmation import Confirmation, confirmation_level
from pytest_ipperf.core.inference.effect import compare
from pytest_ipperf.core.inference.verdict import Verdict, judge
from pytest_ipperf.core.measurement.run import Run
from pytest_ipperf.core.records.component import Component
from pytest_ipperf.core.records.first_estimate import FirstEstimate
from pytest_ipperf.metrics import METRICS

V4, V6 = Arm(4, "native"), Arm(6, "native")
MARGIN = Margin(0.1)
TIME, FAILED, RATE = (METRICS[name].metric for name in ("response_time", "failed_share", "throughput"))
LEVEL = 0.04 / 12


def effect(change, *, epochs=10, noise=0.01, metric=TIME, attempted=1):
    """Make an effect whose epochs lie around `change`: a share of the reference, or a difference of shares."""
    runs = []
    for epoch in range(epochs):
        shift = noise * (1 if epoch % 2 else -1) * (1 + epoch / 100)
        for arm, value in ((V4, 0.0), (V6, change)):
            of_run = value + shift * (arm == V6)
            size = max(0.0, of_run) if metric.scale == "difference" else 0.02 * (1 + of_run)
            run = Run(
                arm=arm, epoch=epoch, block=0, slot=0, warmup=False, started_at=0.0, attempted=attempted, failed={},
                values={metric.name: size},
            )  # fmt: skip
            runs.append(run)
    return compare(runs, V6, V4, metric)


FIRST = judge(effect(0.3, epochs=6), MARGIN)


def confirmed(change, first=FIRST, **more):
    options = {"level": LEVEL, "alpha": 0.05, **more}
    return Confirmation(effect=effect(change), **options).judged(first)


@pytest.mark.parametrize(
    ("change", "verdict"),
    [(0.3, Verdict.EXCEEDS), (0.1, Verdict.INCONCLUSIVE), (0.0, Verdict.WITHIN), (-0.3, Verdict.WITHIN)],
)
def test_the_fresh_epochs_alone_decide(change, verdict):
    assert FIRST.verdict is Verdict.EXCEEDS
    found = confirmed(change)
    assert found.verdict is verdict
    assert found.first == FIRST
    assert found.effect == effect(change)


def test_what_exceeded_nothing_is_not_judged_again():
    first = judge(effect(0.0), MARGIN)
    assert confirmed(0.3, first) is first


@given(st.floats(-0.1, 0.4), st.integers(1, 200))
def test_an_excess_needs_the_shared_level_and_agreement_that_of_the_design(change, cells):
    fresh, level = effect(change), confirmation_level(cells)
    found = Confirmation(effect=fresh, level=level, alpha=0.05).judged(FIRST)
    alone = judge(fresh, MARGIN)
    assert (found.verdict is Verdict.EXCEEDS) == (judge(fresh, MARGIN, alpha=level).verdict is Verdict.EXCEEDS)
    assert (found.verdict is Verdict.WITHIN) == (alone.verdict is Verdict.WITHIN)
    assert found.bounds
    assert alone.bounds
    assert found.bounds[1] == alone.bounds[1]
    assert found.bounds[0] < alone.bounds[0]


def test_the_level_is_shared():
    assert confirmation_level(1) == 0.04
    assert confirmation_level(0) == 0.04
    assert confirmation_level(8) == 0.005


def test_the_bound_of_a_throughput_that_shows_an_excess_is_the_upper_one():
    first = judge(effect(-0.3, epochs=6, metric=RATE), MARGIN)
    assert first.verdict is Verdict.EXCEEDS
    fresh = effect(-0.3, metric=RATE)
    found = Confirmation(effect=fresh, level=LEVEL, alpha=0.05).judged(first)
    assert found.verdict is Verdict.EXCEEDS
    assert found.bounds == tuple(fresh.show(bound) for bound in (fresh.one_sided(0.05)[0], fresh.one_sided(LEVEL)[1]))
    assert "one-sided 99.67 % upper bound" in found.sentence()


def test_failures_that_were_seen_once_and_cannot_be_ruled_out_are_undecided():
    """So few connections cannot show the margin even if none fails; alone they would be unjudged."""
    points = Margin(0.0, 0.01, "1")
    first = judge(effect(0.2, epochs=6, metric=FAILED, attempted=300), points)
    assert first.verdict is Verdict.EXCEEDS
    none = effect(0.0, noise=0.0, metric=FAILED, attempted=1)
    assert judge(none, points).verdict is Verdict.UNJUDGED
    found = Confirmation(effect=none, level=LEVEL, alpha=0.05).judged(first)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "failed connections +20.0 pp in the first 6 epochs, and 10 fresh epochs neither confirm" in found.sentence()
    enough = effect(0.0, noise=0.0, metric=FAILED, attempted=3000)
    assert Confirmation(effect=enough, level=LEVEL, alpha=0.05).judged(first).verdict is Verdict.WITHIN


def test_agreement_that_would_not_be_believed_is_no_refutation():
    found = confirmed(0.0, doubts={Verdict.WITHIN: "the reference's tunnel is slow"})
    assert (found.verdict, found.reasons) == (Verdict.INCONCLUSIVE, ("doubted",))
    assert found.sentence().endswith("inconclusive: the reference's tunnel is slow")


def test_without_fresh_epochs_an_excess_is_undecided_and_says_why():
    found = Confirmation(effect=None, level=LEVEL, alpha=0.05, refused="no time is left").judged(FIRST)
    assert (found.verdict, found.reasons, found.effect) == (Verdict.INCONCLUSIVE, ("unconfirmed",), FIRST.effect)
    assert found.sentence() == (
        "IPv6 seemed beyond the margin of 10 %, with response time per connection +30.0 % in the first 6 epochs; "
        "inconclusive: not confirmed in fresh epochs: no time is left"
    )
    assert FirstEstimate.of(found) is None


def test_the_sentence_names_both_measurements():
    seemed = "IPv6 seemed beyond the margin of 10 %, with response time per connection +30.0 % in the first 6 epochs"
    assert confirmed(0.3).sentence().endswith(f"lies beyond the margin of 10 %; confirmed in 10 fresh epochs: {seemed}")
    assert "one-sided 99.67 % lower bound" in confirmed(0.3).sentence()
    assert confirmed(0.0).sentence().endswith(f"lies within the margin of 10 %; refuted in 10 fresh epochs: {seemed}")
    assert "one-sided 95 % upper bound" in confirmed(0.0).sentence()
    undecided = confirmed(0.1).sentence()
    assert undecided.startswith(f"{seemed}, and 10 fresh epochs neither confirm nor refute it: IPv6 is slower")
    assert "the one-sided 99.67 % and 95 % bounds" in undecided


def test_a_record_keeps_the_first_estimate():
    found = confirmed(0.3)
    component = Component.of(found)
    assert FIRST.effect
    assert FIRST.bounds
    assert component.confirms == FirstEstimate(
        estimate=FIRST.effect.shown.estimate,
        lower_bound=FIRST.bounds[0],
        upper_bound=FIRST.bounds[1],
        alpha=0.05,
        epochs=6,
        level=LEVEL,
        sentence=FIRST.sentence(),
    )
    assert component.epochs == 10
    assert Component.from_plain(dataclasses.asdict(component)) == component
