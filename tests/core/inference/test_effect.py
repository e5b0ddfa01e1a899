import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.metric import AMOUNT, Metric
from pytest_ipperf.core.inference.effect import Effect, compare, difference, percent_of_log, percent_text
from pytest_ipperf.core.measurement.run import Run
from pytest_ipperf.core.portable.errors import InvalidError, UsageError
from pytest_ipperf.core.stats.interval import t_quantile

V4, V6, TUNNEL = Arm(4, "native"), Arm(6, "native"), Arm(6, "tunnel")
TIME = Metric(
    name="response_time",
    title="response time",
    unit="s",
    direction="lower_is_better",
    scale="ratio",
    location="median",
    resolution=1e-9,
    formula="test",
    source="test",
)
RATE = replace(TIME, name="goodput", unit="bit/s", direction="higher_is_better", location="mean")
LOSS = replace(
    TIME, name="loss", title="loss", unit="1", scale="difference", location="mean", resolution=0.0, words=AMOUNT
)
YIELD = replace(LOSS, name="yield", title="yield", direction="higher_is_better", words=("less", "more"))
METRICS = (TIME, RATE, LOSS, YIELD)

values = st.floats(1e-3, 1e6)
metrics = st.sampled_from([TIME, RATE])
shares = st.floats(0, 1)
share_metrics = st.sampled_from([LOSS, YIELD])


@st.composite
def epochs_of_blocks(draw, value=values):
    """Return (test, reference) by epoch and block."""
    shape = draw(st.integers(2, 8)), draw(st.integers(1, 5))
    pair = st.tuples(value, value)
    return [[draw(pair) for _ in range(shape[1])] for _ in range(shape[0])]


def run(arm, epoch, block, value, *, warmup=False):
    return Run(
        arm=arm,
        epoch=epoch,
        block=block,
        slot=0,
        warmup=warmup,
        started_at=0.0,
        attempted=1,
        failed={},
        values={metric.name: value for metric in METRICS},
    )


def valued(one, value):
    return replace(one, values={metric.name: value for metric in METRICS})


def loss_of(one):
    return one.values["loss"]


def runs_of(epochs):
    return [
        run(arm, epoch, block, value)
        for epoch, blocks in enumerate(epochs)
        for block, pair in enumerate(blocks)
        for arm, value in zip((V6, V4), pair, strict=True)
    ]


def scaled(epochs, *, test=1.0, both=1.0):
    return [[(a * test * both, b * both) for a, b in blocks] for blocks in epochs]


def close(one, other):
    pairs = [(one.estimate, other.estimate), (one.low, other.low), (one.high, other.high)]
    return all(math.isclose(a, b, rel_tol=1e-7, abs_tol=1e-8) for a, b in pairs)


def test_known_answer_of_medians():
    # Log ratios 0, 0, ln 2 | ln 4 three times | ln 2 three times: medians 0, 2 ln 2, ln 2; mean ln 2, sd ln 2.
    epochs = [[(1.0, 1.0), (1.0, 1.0), (2.0, 1.0)], [(4.0, 1.0)] * 3, [(6.0, 3.0)] * 3]
    effect = compare(runs_of(epochs), V6, V4, TIME)
    half = 4.302653 * math.log(2) / math.sqrt(3)
    assert effect.change.estimate == pytest.approx(math.log(2))
    assert effect.change.low == pytest.approx(math.log(2) - half, abs=1e-6)
    assert effect.change.high == pytest.approx(math.log(2) + half, abs=1e-6)
    assert effect.change.df == 2
    assert effect.sd_epoch == pytest.approx(math.log(2))
    # Only the first epoch has a spread: variance ln(2)**2 / 3, averaged over three epochs.
    assert effect.sd_block == pytest.approx(math.log(2) / 3)
    assert (effect.n_epochs, effect.n_blocks) == (3, 9)
    assert effect.test_value == pytest.approx(34 / 9)
    assert effect.reference_value == pytest.approx(15 / 9)
    assert effect.shown.estimate == pytest.approx(100)
    assert (effect.test, effect.reference, effect.metric, effect.header_cost) == (V6, V4, TIME, 0)


def test_known_answer_of_means():
    epochs = [[(1.0, 1.0), (1.0, 1.0), (8.0, 1.0)], [(2.0, 1.0)] * 3]
    effect = compare(runs_of(epochs), V6, V4, RATE)
    assert effect.change.estimate == pytest.approx(math.log(2))


def test_one_block_has_no_spread_within_epochs():
    assert compare(runs_of([[(1.0, 2.0)], [(2.0, 2.0)]]), V6, V4, TIME).sd_block is None


@given(epochs_of_blocks(), metrics)
def test_contains_the_estimate_and_nests(epochs, metric):
    narrow, wide = (compare(runs_of(epochs), V6, V4, metric, confidence=level).change for level in (0.9, 0.99))
    assert wide.low <= narrow.low <= narrow.estimate <= narrow.high <= wide.high


@given(epochs_of_blocks(), metrics)
def test_swapping_the_arms_negates(epochs, metric):
    there, back = compare(runs_of(epochs), V6, V4, metric), compare(runs_of(epochs), V4, V6, metric)
    assert close(there.change, mirrored(back.change))
    assert (there.test_value, there.reference_value) == (back.reference_value, back.test_value)


def mirrored(interval):
    return replace(interval, estimate=-interval.estimate, low=-interval.high, high=-interval.low)


@given(epochs_of_blocks(), metrics, st.floats(1e-6, 1e6))
def test_the_unit_cancels(epochs, metric, factor):
    effect, other = (compare(runs_of(e), V6, V4, metric) for e in (epochs, scaled(epochs, both=factor)))
    assert close(effect.change, other.change)


@given(epochs_of_blocks(), metrics, st.lists(st.floats(0.5, 2), min_size=8, max_size=8))
def test_what_an_epoch_does_to_both_arms_cancels(epochs, metric, factors):
    moved = [scaled([blocks], both=factor)[0] for blocks, factor in zip(epochs, factors, strict=False)]
    assert close(compare(runs_of(epochs), V6, V4, metric).change, compare(runs_of(moved), V6, V4, metric).change)


@given(epochs_of_blocks(), metrics, st.randoms(use_true_random=False))
def test_order_of_runs_is_irrelevant(epochs, metric, shuffler):
    runs = runs_of(epochs)
    shuffled = shuffler.sample(runs, len(runs))
    assert compare(shuffled, V6, V4, metric) == compare(runs, V6, V4, metric)


@given(epochs_of_blocks(), metrics, st.floats(0.5, 2))
def test_a_factor_on_one_arm_shifts_by_its_log(epochs, metric, factor):
    effect, other = (compare(runs_of(e), V6, V4, metric) for e in (epochs, scaled(epochs, test=factor)))
    assert close(other.change, effect.change.mapped(lambda x: x + math.log(factor)))


@given(epochs_of_blocks(), metrics)
def test_warm_ups_and_other_arms_are_ignored(epochs, metric):
    runs = runs_of(epochs)
    others = [run(V6, 0, -1, math.nan, warmup=True), run(V6, 0, 0, 1e9, warmup=True), run(TUNNEL, 0, 0, 0.0)]
    assert compare(others + runs, V6, V4, metric) == compare(runs, V6, V4, metric)


@given(st.floats(-20, 20))
def test_percent_and_log_round_trip(log_ratio):
    assert math.log1p(percent_of_log(log_ratio) / 100) == pytest.approx(log_ratio, rel=1e-6, abs=1e-12)


def test_percent_never_overflows():
    assert percent_of_log(1e6) == math.inf


@given(epochs_of_blocks(), metrics, st.floats(0.001, 0.49))
def test_one_sided_bounds_are_the_two_sided_interval_of_twice_alpha(epochs, metric, alpha):
    low, high = compare(runs_of(epochs), V6, V4, metric).one_sided(alpha)
    two_sided = compare(runs_of(epochs), V6, V4, metric, confidence=1 - 2 * alpha).change
    assert low == pytest.approx(two_sided.low, rel=1e-6, abs=1e-9)
    assert high == pytest.approx(two_sided.high, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("alpha", [0, 0.5, 5, -0.05])
def test_alpha_is_a_small_probability(alpha):
    effect = compare(runs_of([[(1.0, 2.0)], [(2.0, 2.0)]]), V6, V4, TIME)
    with pytest.raises(UsageError, match=r"^alpha .* is not between 0 and 0.5, such as 0.05$"):
        effect.one_sided(alpha)


def test_the_interval_covers_what_it_says():
    """Fixed seed: run noise 3 %, interaction .5 %, drift 5 % under blocks in random order, a true effect of 10 %."""
    rng, truth, count = random.Random(20240607), math.log(1.1), 1500
    covered, below = 0, 0
    for _ in range(count):
        effect = compare(drifting_runs(rng, truth), V6, V4, TIME)
        covered += effect.change.low <= truth <= effect.change.high
        below += effect.one_sided(0.05)[1] < truth
    # Four standard errors of a share: sqrt(.95 * .05 / 1500) = .0056.
    assert covered / count == pytest.approx(0.95, abs=0.0225)
    assert below / count == pytest.approx(0.05, abs=0.0225)


def drifting_runs(rng, truth, n_epochs=8, n_blocks=2):
    runs: list[Run] = []
    total = 2 * n_epochs * n_blocks
    for epoch in range(n_epochs):
        shift, interaction = rng.gauss(0, 0.05), rng.gauss(0, 0.005)
        for block in range(n_blocks):
            for arm in rng.sample((V4, V6), 2):
                own = truth + interaction if arm == V6 else 0.0
                drift = 0.05 * len(runs) / total
                runs.append(run(arm, epoch, block, math.exp(shift + drift + own + rng.gauss(0, 0.03))))
    return runs


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (
            lambda runs: runs[:-1],
            "ipv4 was not measured in epoch 1, block 1, but ipv6 was",
        ),
        (
            lambda runs: runs[1:],
            "ipv6 was not measured in epoch 0, block 0, but ipv4 was",
        ),
        (
            lambda runs: runs[:-2],
            "ipv6 against ipv4 has 1 of 2 blocks in epoch 1, up to block 0; every epoch needs as many",
        ),
        (
            lambda runs: runs[:4],
            "ipv6 against ipv4 was measured in 1 epoch(s); an interval needs at least 2",
        ),
        (
            lambda _runs: [],
            "ipv6 against ipv4 was measured in 0 epoch(s); an interval needs at least 2",
        ),
        (
            lambda runs: [*runs, runs[-1]],
            "ipv4 in epoch 1, block 1 was measured twice; a block measures each arm once",
        ),
        (
            lambda runs: [*runs[:-1], valued(runs[-1], 0.0)],
            "response time 0.0 of ipv4 in epoch 1, block 1 is not a positive finite number, as a ratio needs",
        ),
        (
            lambda runs: [valued(runs[0], math.nan), *runs[1:]],
            "response time nan of ipv6 in epoch 0, block 0 is not a positive finite number, as a ratio needs",
        ),
        (
            lambda runs: [valued(runs[0], math.inf), *runs[1:]],
            "response time inf of ipv6 in epoch 0, block 0 is not a positive finite number, as a ratio needs",
        ),
        (
            lambda runs: [valued(runs[0], None), *runs[1:]],
            "ipv6 in epoch 0, block 0 has no response time",
        ),
    ],
)
def test_broken_data_is_named(broken, words):
    runs = runs_of([[(1.0, 2.0), (1.1, 2.0)], [(2.0, 2.0), (1.2, 2.1)]])
    with pytest.raises(InvalidError) as caught:
        compare(broken(runs), V6, V4, TIME)
    assert str(caught.value) == words


def test_an_arm_is_not_compared_with_itself():
    with pytest.raises(InvalidError, match=r"^ipv6 cannot be compared with itself$"):
        compare(runs_of([[(1.0, 2.0)], [(2.0, 2.0)]]), V6, V6, TIME)


@given(epochs_of_blocks(value=shares))
def test_difference_mirrors_and_stays_in_percentage_points(epochs):
    there, back = (difference(runs_of(epochs), *arms, loss_of) for arms in ((V6, V4), (V4, V6)))
    assert close(there, mirrored(back))
    assert -100 <= there.estimate <= 100


def test_difference_known_answer():
    # 2 and 4 percentage points: mean 3, sd sqrt 2, half-width 12.706205 * sqrt 2 / sqrt 2.
    interval = difference(runs_of([[(0.02, 0.0)], [(0.05, 0.01)]]), V6, V4, loss_of)
    assert interval.estimate == pytest.approx(3)
    assert interval.high == pytest.approx(3 + 12.706205)
    assert interval.df == 1


def test_no_loss_anywhere_is_a_difference_of_zero_width():
    interval = difference(runs_of([[(0.0, 0.0)]] * 6), V6, V4, lambda r: r.failures / r.attempted)
    assert (interval.low, interval.estimate, interval.high) == (0, 0, 0)


def test_known_answer_of_shares():
    # Differences of .01 and .03 | 0 and 0: means .02 and 0; mean .01, sd .01 * sqrt 2, half-width 12.706205 * .01.
    effect = compare(runs_of([[(0.02, 0.01), (0.03, 0.0)], [(0.0, 0.0)] * 2]), V6, V4, LOSS)
    assert effect.change.estimate == pytest.approx(0.01)
    assert effect.change.high == pytest.approx(0.01 + 0.12706205)
    assert effect.sd_epoch == pytest.approx(0.01 * math.sqrt(2))
    # Variances .0002 and 0 within the epochs.
    assert effect.sd_block == pytest.approx(0.01)
    assert effect.unit == "pp"
    assert effect.shown.estimate == pytest.approx(1)
    assert effect.test_value == pytest.approx(0.0125)
    assert effect.reference_value == pytest.approx(0.0025)


@given(epochs_of_blocks(value=shares), share_metrics)
def test_swapping_the_arms_negates_a_difference(epochs, metric):
    there, back = compare(runs_of(epochs), V6, V4, metric), compare(runs_of(epochs), V4, V6, metric)
    assert close(there.change, mirrored(back.change))
    assert close(there.shown, mirrored(back.shown))


@given(epochs_of_blocks(value=shares), share_metrics, st.floats(-1, 1))
def test_what_is_added_to_both_arms_leaves_their_difference(epochs, metric, shift):
    moved = [[(a + shift, b + shift) for a, b in blocks] for blocks in epochs]
    assert close(compare(runs_of(moved), V6, V4, metric).change, compare(runs_of(epochs), V6, V4, metric).change)


@given(epochs_of_blocks(value=shares), st.floats(-1, 1))
def test_a_share_added_to_one_arm_is_the_difference(epochs, shift):
    moved = [[(a + shift, b) for a, b in blocks] for blocks in epochs]
    effect, other = compare(runs_of(epochs), V6, V4, LOSS), compare(runs_of(moved), V6, V4, LOSS)
    assert close(other.change, effect.change.mapped(lambda x: x + shift))


@given(epochs_of_blocks(value=shares))
def test_compare_and_difference_are_one_where_blocks_count_by_their_mean(epochs):
    assert close(compare(runs_of(epochs), V6, V4, LOSS).shown, difference(runs_of(epochs), V6, V4, loss_of))


def test_no_share_anywhere_is_an_effect_of_zero_width():
    effect = compare(runs_of([[(0.0, 0.0)] * 2] * 6), V6, V4, LOSS)
    assert (effect.change.low, effect.change.estimate, effect.change.high) == (0, 0, 0)
    assert (effect.sd_epoch, effect.sd_block, effect.one_sided(0.05)) == (0, 0, (0, 0))
    assert effect.finding() == "IPv6 against IPv4: no difference of loss shown (could be 0..0 pp, 95 % interval)"


def test_a_share_that_is_no_number_is_named():
    runs = runs_of([[(0.0, 0.0)], [(0.0, math.nan)]])
    with pytest.raises(InvalidError, match=r"^loss nan of ipv4 in epoch 1, block 0 is not a finite number$"):
        compare(runs, V6, V4, LOSS)


def test_difference_names_a_value_that_is_no_number():
    runs = runs_of([[(0.0, 0.0)], [(0.0, math.nan)]])
    with pytest.raises(InvalidError, match=r"^value nan of ipv4 in epoch 1, block 0 is not a finite number$"):
        difference(runs, V6, V4, loss_of)


@pytest.mark.parametrize(
    ("ratio", "metric", "words"),
    [
        (1.2, TIME, "IPv6 is slower than IPv4 by 20.0 % ["),
        (0.8, TIME, "IPv6 is faster than IPv4 by 20.0 % ["),
        (1.2, RATE, "IPv6 is faster than IPv4 by 20.0 % ["),
        (0.8, RATE, "IPv6 is slower than IPv4 by 20.0 % ["),
        (1.001, TIME, "IPv6 against IPv4: no difference shown (could be -"),
    ],
)
def test_finding_says_slower_only_of_what_is_shown(ratio, metric, words):
    noise = [0.99, 1.01, 1.0, 0.995, 1.005]
    effect = compare(runs_of([[(ratio * factor, 1.0)] for factor in noise]), V6, V4, metric)
    assert effect.finding().startswith(words)
    assert "95 % interval" in effect.finding()


@pytest.mark.parametrize(
    ("added", "metric", "words"),
    [
        (0.013, LOSS, "IPv6 has more loss than IPv4 by 1.3 pp ["),
        (-0.013, LOSS, "IPv6 has less loss than IPv4 by 1.3 pp ["),
        (0.013, YIELD, "IPv6 has more yield than IPv4 by 1.3 pp ["),
        (-0.013, YIELD, "IPv6 has less yield than IPv4 by 1.3 pp ["),
        (0.0001, LOSS, "IPv6 against IPv4: no difference of loss shown (could be -0."),
    ],
)
def test_finding_names_what_there_is_more_of(added, metric, words):
    noise = [-0.002, 0.002, 0.0, 0.001, -0.001]
    effect = compare(runs_of([[(0.1 + added + each, 0.1)] for each in noise]), V6, V4, metric)
    assert effect.finding().startswith(words)


@given(epochs_of_blocks(), metrics)
def test_finding_never_claims_agreement(epochs, metric):
    finding = compare(runs_of(epochs), V6, V4, metric).finding()
    assert "equal" not in finding
    shown = compare(runs_of(epochs), V6, V4, metric).change.excludes_zero
    assert shown == ("slower" in finding or "faster" in finding) == ("no difference shown" not in finding)


@pytest.mark.parametrize(
    ("percent", "text"),
    [(3.14, "+3.1"), (-0.42, "-0.42"), (152.6, "+153"), (12.34, "+12.3"), (0.0123, "+0.012"), (-1e-9, "0"), (0, "0")],
)
def test_percent_text_has_sensible_digits(percent, text):
    assert percent_text(percent) == text


def test_percent_text_of_the_unbounded():
    assert percent_text(math.inf) == "+inf"
    assert percent_text(1.23456e9, sign=False) == "1.23e+09"


def test_standard_error_is_that_of_the_interval():
    effect: Effect = compare(runs_of([[(1.0, 2.0)], [(2.0, 2.0)], [(2.5, 2.0)]]), V6, V4, TIME)
    half = (effect.change.high - effect.change.low) / 2
    assert half == pytest.approx(t_quantile(0.975, 2) * effect.standard_error)


def test_the_typical_value_of_the_reference_is_that_to_which_the_ratio_applies():
    runs = runs_of([[(2.0, 1.0), (6.0, 3.0), (90.0, 2.0)], [(16.0, 8.0)] * 3])
    assert compare(runs, V6, V4, TIME).reference_typical == pytest.approx(4.0)  # of the medians 2 and 8
    assert compare(runs, V6, V4, RATE).reference_typical == pytest.approx(4.0)
    assert compare(runs, V6, V4, LOSS).reference_typical is None


def test_a_finding_at_a_level_has_the_interval_between_its_bounds():
    effect = compare(runs_of([[(1.02 + 0.001 * at, 1.0)] for at in range(6)]), V6, V4, TIME)
    low, high = (percent_text(effect.show(bound)) for bound in effect.one_sided(0.05))
    assert effect.finding(0.05).endswith(f"[{low[1:]}, {high[1:]}] (90 % interval)")
    assert effect.finding(0.0158).endswith("(96.84 % interval)")


def test_a_finding_calls_an_arm_worse_only_by_the_wider_interval():
    changes = [1.01, 1.01, 1.02, 1.0, 1.03, 0.99]
    effect = compare(runs_of([[(each, 1.0)] for each in changes]), V6, V4, TIME)
    assert effect.one_sided(0.1)[0] > 0
    assert not effect.change.excludes_zero
    assert effect.finding(0.1).startswith("IPv6 against IPv4: change of +1.0 % [+0.1")
