import math
import random
import statistics
from dataclasses import replace
from itertools import chain

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.special import stdtr

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.margin import Margin
from pytest_ipperf.core.inference.effect import Effect
from pytest_ipperf.core.inference.verdict import Judgement, Verdict, judge, judge_looks
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.stats.interval import t_interval
from pytest_ipperf.metrics import METRICS

V4, V6 = Arm(4, "native"), Arm(6, "native")
RANK = {Verdict.EXCEEDS: 0, Verdict.INCONCLUSIVE: 1, Verdict.WITHIN: 2}


TIME = replace(METRICS["response_time"].metric, resolution=0.0)
LOSS, RATE = METRICS["loss"].metric, METRICS["throughput"].metric
POINTS = Margin(0.0, 0.005, "1")


def effect_of(
    changes, direction="lower_is_better", *, reference_value=0.01, resolution=0.0, metric=TIME, header_cost=0.0
):
    return Effect(
        metric=replace(metric, direction=direction, resolution=resolution),
        change=t_interval(changes, 0.95),
        n_epochs=len(changes),
        n_blocks=len(changes),
        sd_epoch=statistics.stdev(changes),
        sd_block=None,
        test=V6,
        reference=V4,
        test_value=reference_value,
        reference_value=reference_value,
        header_cost=header_cost,
    )


def around(ratio, noise=0.01, epochs=6):
    """Make log ratios with mean ln(ratio) and a spread of about `noise`."""
    return [math.log(ratio) + noise * (1 if epoch % 2 else -1) for epoch in range(epochs)]


def p_of(judgement):
    """Return the p-value, which every judgement of an effect has."""
    assert judgement.p_exceeds is not None
    return judgement.p_exceeds


def apart(added, noise=0.001, epochs=6):
    """Make differences of shares with that mean and a spread of about `noise`."""
    return [added + noise * (1 if epoch % 2 else -1) for epoch in range(epochs)]


logs = st.lists(st.floats(-2, 2), min_size=5, max_size=12)
shares_apart = st.lists(st.floats(-1, 1), min_size=5, max_size=12)
few_or_many = st.lists(st.floats(-2, 2), min_size=2, max_size=12)
directions = st.sampled_from(["lower_is_better", "higher_is_better"])
margins = st.floats(0, 0.6)
alphas = st.floats(0.001, 0.2)


@pytest.mark.parametrize(
    ("ratio", "noise", "direction", "verdict", "reasons"),
    [
        (1.03, 0.01, "lower_is_better", Verdict.WITHIN, ()),
        (1.20, 0.01, "lower_is_better", Verdict.EXCEEDS, ()),
        (1.10, 0.01, "lower_is_better", Verdict.INCONCLUSIVE, ("straddles",)),
        (1.00, 0.30, "lower_is_better", Verdict.INCONCLUSIVE, ("too_wide",)),
        (0.50, 0.01, "lower_is_better", Verdict.WITHIN, ()),
        (0.97, 0.01, "higher_is_better", Verdict.WITHIN, ()),
        (0.80, 0.01, "higher_is_better", Verdict.EXCEEDS, ()),
        (0.90, 0.01, "higher_is_better", Verdict.INCONCLUSIVE, ("straddles",)),
        (2.00, 0.01, "higher_is_better", Verdict.WITHIN, ()),
    ],
)
def test_verdicts(ratio, noise, direction, verdict, reasons):
    judgement = judge(effect_of(around(ratio, noise), direction), Margin(0.1))
    assert (judgement.verdict, judgement.reasons) == (verdict, reasons)


def test_known_answer():
    # sd of +-.01 six times is .01 * sqrt(6/5); standard error .01 / sqrt(5); t(.95, 5) = 2.015048.
    effect = effect_of(around(1.05))
    judgement = judge(effect, Margin(0.1))
    error = 0.01 / math.sqrt(5)
    low, high = effect.one_sided(0.05)
    assert judgement.effect is effect
    assert high == pytest.approx(math.log(1.05) + 2.015048 * error)
    assert low == pytest.approx(math.log(1.05) - 2.015048 * error)
    assert judgement.margin_fraction == 0.1
    assert judgement.alpha == 0.05
    assert 0.999 < p_of(judgement) < 1
    # Non-centrality for power .9 at df 5: 3.431736.
    assert judgement.mde_fraction == pytest.approx(math.expm1(3.431736 * error), rel=1e-5)


def test_fewer_than_five_epochs_never_judge():
    for ratio in (0.5, 1.0, 2.0):
        judgement = judge(effect_of(around(ratio, epochs=4)), Margin(0.1))
        assert (judgement.verdict, judgement.reasons) == (Verdict.UNJUDGED, ("too_few_epochs",))


@pytest.mark.parametrize("epochs", [2, 6])
def test_epochs_that_agree_to_the_last_bit_are_no_measurement(epochs):
    judgement = judge(effect_of([0.01] * epochs, resolution=1e-9), Margin(0.1))
    assert (judgement.verdict, judgement.reasons) == (Verdict.INVALID, ("zero_spread",))


def test_exact_arithmetic_may_agree():
    assert judge(effect_of([0.01] * 6), Margin(0.1)).verdict is Verdict.WITHIN
    assert judge(effect_of([0.20] * 6), Margin(0.1)).verdict is Verdict.EXCEEDS


def test_the_floor_of_a_margin_counts_where_it_is_larger():
    # 0.5 ms of 1 ms are 50 %, of 100 ms half a percent.
    margin = Margin(0.1, 0.0005)
    small, large = effect_of(around(1.3), reference_value=0.001), effect_of(around(1.3), reference_value=0.1)
    assert judge(small, margin).verdict is Verdict.WITHIN
    assert judge(small, margin).margin_fraction == pytest.approx(0.5)
    assert judge(large, margin).verdict is Verdict.EXCEEDS
    assert judge(large, margin).margin_fraction == 0.1


def test_a_margin_of_everything_is_legal_for_times_only():
    assert judge(effect_of(around(1.9)), Margin(1.0)).verdict is Verdict.WITHIN
    with pytest.raises(UsageError, match=r"^margin 100 % would let a rate vanish; use less than 100 % for a rate$"):
        judge(effect_of(around(1.0), "higher_is_better"), Margin(1.0))


@pytest.mark.parametrize(
    ("added", "noise", "direction", "verdict", "reasons"),
    [
        (0.001, 0.001, "lower_is_better", Verdict.WITHIN, ()),
        (0.012, 0.001, "lower_is_better", Verdict.EXCEEDS, ()),
        (0.005, 0.001, "lower_is_better", Verdict.INCONCLUSIVE, ("straddles",)),
        (0.000, 0.030, "lower_is_better", Verdict.INCONCLUSIVE, ("too_wide",)),
        (-0.20, 0.001, "lower_is_better", Verdict.WITHIN, ()),
        (-0.001, 0.001, "higher_is_better", Verdict.WITHIN, ()),
        (-0.012, 0.001, "higher_is_better", Verdict.EXCEEDS, ()),
        (0.20, 0.001, "higher_is_better", Verdict.WITHIN, ()),
    ],
)
def test_verdicts_of_shares(added, noise, direction, verdict, reasons):
    effect = effect_of(apart(added, noise), direction, metric=LOSS)
    judgement = judge(effect, POINTS)
    assert (judgement.verdict, judgement.reasons) == (verdict, reasons)
    assert judgement.margin_fraction == 0.005


def test_known_answer_of_shares():
    # As above, with the spread of .001 in place of .01, and no logarithm.
    effect = effect_of(apart(0.003), metric=LOSS)
    judgement, error = judge(effect, POINTS), 0.001 / math.sqrt(5)
    assert effect.one_sided(0.05)[1] == pytest.approx(0.003 + 2.015048 * error)
    assert judgement.mde_fraction == pytest.approx(3.431736 * error, rel=1e-5)
    assert p_of(judgement) == pytest.approx(float(stdtr(5, 0.002 / error)))


@pytest.mark.parametrize("margin", [Margin(0.0), Margin(0.1), POINTS])
def test_no_loss_anywhere_is_within_every_margin(margin):
    judgement = judge(effect_of([0.0] * 6, metric=LOSS, reference_value=0.0), margin)
    assert (judgement.verdict, judgement.reasons) == (Verdict.WITHIN, ())
    assert (judgement.p_exceeds, judgement.mde_fraction, judgement.margin_fraction) == (1, 0, margin.at_least)


def test_the_same_loss_in_every_epoch_is_no_broken_clock():
    judgement = judge(effect_of([0.01] * 6, metric=LOSS, reference_value=0.0), POINTS)
    assert (judgement.verdict, judgement.p_exceeds) == (Verdict.EXCEEDS, 0)


def test_what_headers_cost_is_allowed_beside_the_margin():
    # 6 % less, of which 1.4 % are headers.
    rate = effect_of(around(0.94, 0.001), "higher_is_better", metric=RATE, header_cost=0.014)
    assert judge(rate, Margin(0.05)).verdict is Verdict.EXCEEDS
    judgement = judge(rate, Margin(0.05, headers=True))
    assert judgement.verdict is Verdict.WITHIN
    assert judgement.margin_fraction == pytest.approx(0.0633)


@given(shares_apart, directions, margins, alphas)
def test_a_verdict_of_shares_is_what_the_bounds_say(sample, direction, margin, alpha):
    effect = effect_of(sample, direction, metric=LOSS)
    low, high = effect.one_sided(alpha)
    if direction == "higher_is_better":
        low, high = -high, -low
    verdict = judge(effect, Margin(0.0, margin, "1"), alpha=alpha).verdict
    assert (verdict is Verdict.WITHIN) == (high <= margin)
    assert (verdict is Verdict.EXCEEDS) == (low > margin)


@given(logs, directions, margins, margins)
def test_verdict_is_monotone_in_the_margin(sample, direction, one, other):
    effect = effect_of(sample, direction)
    strict, lax = (judge(effect, Margin(margin)).verdict for margin in sorted((one, other)))
    assert RANK[lax] >= RANK[strict]


@given(logs, directions, margins, alphas, alphas)
def test_a_stricter_alpha_never_flips(sample, direction, margin, one, other):
    effect = effect_of(sample, direction)
    strict, lax = (judge(effect, Margin(margin), alpha=alpha).verdict for alpha in sorted((one, other)))
    assert strict in (lax, Verdict.INCONCLUSIVE)


@given(logs, st.floats(0.001, 0.5))
def test_a_rate_is_judged_as_the_time_that_it_mirrors(sample, margin):
    mirrored = 1 / (1 - margin) - 1
    time, rate = effect_of(sample), effect_of([-log for log in sample], "higher_is_better")
    assume(all(abs(abs(bound) - math.log1p(mirrored)) > 1e-9 for bound in time.one_sided(0.05)))
    of_time, of_rate = judge(time, Margin(mirrored)), judge(rate, Margin(margin))
    assert (of_time.verdict, of_time.reasons) == (of_rate.verdict, of_rate.reasons)


@given(logs, directions, margins, alphas)
def test_p_is_below_alpha_exactly_when_the_margin_is_exceeded(sample, direction, margin, alpha):
    judgement = judge(effect_of(sample, direction), Margin(margin), alpha=alpha)
    assume(abs(p_of(judgement) - alpha) > 1e-9)
    assert (p_of(judgement) < alpha) == (judgement.verdict is Verdict.EXCEEDS)


@given(logs, directions, margins, alphas)
def test_within_and_exceeds_exclude_each_other(sample, direction, margin, alpha):
    """Either needs the estimate itself on its side of the margin, which is where p is one half."""
    judgement = judge(effect_of(sample, direction), Margin(margin), alpha=alpha)
    if judgement.verdict is Verdict.WITHIN:
        assert p_of(judgement) >= 0.5
    if judgement.verdict is Verdict.EXCEEDS:
        assert p_of(judgement) <= 0.5


@given(few_or_many, directions, margins, alphas)
def test_a_reason_is_given_exactly_when_nothing_was_decided(sample, direction, margin, alpha):
    judgement = judge(effect_of(sample, direction, resolution=1e-9), Margin(margin), alpha=alpha)
    decided = judgement.verdict in (Verdict.WITHIN, Verdict.EXCEEDS)
    assert len(judgement.reasons) == (0 if decided else 1)


@given(few_or_many, directions, margins, alphas)
def test_a_sentence_never_claims_agreement(sample, direction, margin, alpha):
    effect = effect_of(sample, direction, resolution=1e-9)
    sentence = judge(effect, Margin(margin), alpha=alpha).sentence()
    assert "equal" not in sentence
    assert "\n" not in sentence
    if not effect.change.excludes_zero:
        assert "slower" not in sentence
        assert "faster" not in sentence


def test_wrong_verdicts_at_the_margin_are_as_rare_as_alpha():
    """Fixed seed: the true slow-down is the margin itself, where each wrong verdict has probability .05."""
    rng, count = random.Random(20240608), 2000
    found = [
        judge(effect_of([rng.gauss(math.log(1.1), 0.02) for _ in range(6)]), Margin(0.1)).verdict for _ in range(count)
    ]
    # Four standard errors: sqrt(.95 * .05 / 2000) = .0049.
    assert found.count(Verdict.WITHIN) / count == pytest.approx(0.05, abs=0.02)
    assert found.count(Verdict.EXCEEDS) / count == pytest.approx(0.05, abs=0.02)


HIGH = "higher_is_better"
SENTENCES = {
    "slower and within": (effect_of(around(1.05)), Margin(0.1), Verdict.WITHIN),
    "no difference": (effect_of(around(1.001)), Margin(0.1, 0.0005), Verdict.WITHIN),
    "margin by its minimum": (effect_of(around(1.05), reference_value=0.001), Margin(0.1, 0.0005), Verdict.WITHIN),
    "slower and beyond": (effect_of(around(1.5)), Margin(0.1), Verdict.EXCEEDS),
    "rate within": (effect_of(around(0.95), HIGH), Margin(0.1), Verdict.WITHIN),
    "rate beyond": (effect_of(around(0.5), HIGH), Margin(0.1), Verdict.EXCEEDS),
    "straddles": (effect_of(around(1.1)), Margin(0.1), Verdict.INCONCLUSIVE),
    "straddles after many epochs": (effect_of(around(1.1, epochs=30)), Margin(0.1), Verdict.INCONCLUSIVE),
    "too wide": (effect_of(around(1.0, 0.3)), Margin(0.1), Verdict.INCONCLUSIVE),
    "too few epochs": (effect_of(around(1.0, epochs=4)), Margin(0.1), Verdict.UNJUDGED),
    "no spread": (effect_of([math.log(1.1)] * 6, resolution=1e-9), Margin(0.1), Verdict.INVALID),
    "loss beyond": (effect_of(apart(0.013), metric=LOSS), POINTS, Verdict.EXCEEDS),
    "loss within": (
        effect_of(apart(0.001), metric=LOSS, reference_value=0.2), Margin(0.1, 0.005, "1"), Verdict.WITHIN
    ),
    "loss too wide": (effect_of(apart(0.0, 0.03), metric=LOSS), POINTS, Verdict.INCONCLUSIVE),
    "loss straddles": (effect_of(apart(0.005), metric=LOSS), POINTS, Verdict.INCONCLUSIVE),
    "no loss": (effect_of([0.0] * 6, metric=LOSS, reference_value=0.0), POINTS, Verdict.WITHIN),
    "after headers": (
        effect_of(around(0.95, 0.001), HIGH, metric=RATE, header_cost=0.014), Margin(0.05, headers=True), Verdict.WITHIN
    ),
}  # fmt: skip


@pytest.mark.parametrize(("effect", "margin", "verdict"), SENTENCES.values(), ids=SENTENCES)
def test_sentences(effect, margin, verdict, golden):
    judgement = judge(effect, margin)
    assert judgement.verdict is verdict
    golden(judgement.sentence())


def looked(ratio, *, looks=3, **change):
    """Judge 10, 20 and so on epochs of a design of three looks."""
    effects = [effect_of(around(ratio, epochs=10 * look)) for look in range(1, looks + 1)]
    return replace(judge_looks(effects, Margin(0.1), alpha=0.0221, looks=3), **change)


@pytest.mark.parametrize(
    ("judgement", "look"),
    [
        (looked(1.05), 1),
        (looked(1.5), 1),
        (looked(1.1, looks=3), 3),
        (looked(1.1, looks=2, stopped="no time"), 2),
    ],
    ids=["within", "exceeds", "last", "stopped"],
)
def test_a_sentence_tells_the_look_where_there_are_several(judgement, look, golden):
    assert (judgement.look, judgement.looks) == (look, 3)
    assert "--design=standard" not in judgement.sentence()
    golden(judgement.sentence())


def grown(samples, **change):
    """Return the effects of looks, each of which adds a sample to the earlier ones."""
    return [effect_of(list(chain(*samples[:look])), **change) for look in range(1, len(samples) + 1)]


@given(st.lists(logs, min_size=1, max_size=3), margins, alphas)
def test_the_first_look_that_decides_is_the_answer(samples, margin, alpha):
    """Later looks cannot change the answer; if no look decides, the last one counts."""
    effects = grown(samples, resolution=1e-9)
    alone = [judge(effect, Margin(margin), alpha=alpha) for effect in effects]
    found = judge_looks(effects, Margin(margin), alpha=alpha, looks=3)
    deciding = [look for look, judgement in enumerate(alone, start=1) if judgement.decided]
    assert found.look == (deciding[0] if deciding else len(effects))
    assert found == replace(alone[found.look - 1], look=found.look, looks=3)


@given(st.lists(logs, min_size=1, max_size=3), margins, margins, alphas)
def test_over_looks_too_the_verdict_is_monotone_in_the_margin(samples, one, other, alpha):
    effects = grown(samples)
    strict, lax = (
        judge_looks(effects, Margin(margin), alpha=alpha, looks=3).verdict for margin in sorted((one, other))
    )
    assert RANK[lax] >= RANK[strict]


def test_a_sentence_names_the_level_of_a_look(golden):
    golden(judge(effect_of(around(1.0)), Margin(0.1), alpha=0.0221).sentence())


def test_a_judgement_without_an_effect_still_speaks(golden):
    judgement = Judgement(
        verdict=Verdict.INCONCLUSIVE,
        reasons=("no_effect",),
        effect=None,
        margin=Margin(0.1),
        margin_fraction=0.1,
        alpha=0.05,
        p_exceeds=None,
        mde_fraction=None,
    )
    silent = replace(judgement, verdict=Verdict.UNJUDGED, reasons=("never_judges",), design="smoke")
    golden(f"{judgement.sentence()}\n{silent.sentence()}")


def test_verdicts_are_the_words_of_the_reports():
    assert [verdict.value for verdict in Verdict] == [
        "within",
        "exceeds",
        "inconclusive",
        "invalid",
        "unjudged",
    ]
