import dataclasses
import math
import operator
import pickle
import statistics

import pytest

from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.margin import Margin
from pytest_ipperf.core.inference.claim import Claim, InconclusiveError, Slowdown
from pytest_ipperf.core.inference.effect import Effect
from pytest_ipperf.core.inference.verdict import Verdict
from pytest_ipperf.core.portable.errors import InvalidError, IpperfError, UnjudgedError, UsageError
from pytest_ipperf.core.stats.interval import t_interval
from pytest_ipperf.metrics import METRICS


def slowdown(ratio, noise=0.01, *, judges=True, design="quick", alpha=0.05):
    logs = [math.log(ratio) + noise * (1 if epoch % 2 else -1) for epoch in range(6)]
    effect = Effect(
        metric=METRICS["response_time"].metric,
        change=t_interval(logs, 0.95),
        n_epochs=6,
        n_blocks=12,
        sd_epoch=statistics.stdev(logs),
        sd_block=None,
        test=Arm(6, "tunnel"),
        reference=Arm(4, "native"),
        test_value=0.02 * ratio,
        reference_value=0.02,
    )
    return Slowdown(effects=(effect,), judges=judges, design=design, alpha=alpha)


def test_a_claim_is_true_when_shown_and_false_when_refuted():
    assert slowdown(1.02) <= "10%"
    assert not slowdown(1.3) <= "10%"


@pytest.mark.parametrize(("ratio", "doubted"), [(1.3, Verdict.EXCEEDS), (1.02, Verdict.WITHIN)])
def test_a_verdict_that_is_not_believed_is_no_answer(ratio, doubted):
    other = ({Verdict.EXCEEDS, Verdict.WITHIN} - {doubted}).pop()
    believed = dataclasses.replace(slowdown(ratio), doubts=lambda _: {other: "its forwarder is slow"}) <= "10%"
    assert believed.judgement.verdict is doubted
    claim = dataclasses.replace(slowdown(ratio), doubts=lambda _: {doubted: "its forwarder is slow"}) <= "10%"
    with pytest.raises(InconclusiveError) as caught:
        bool(claim)
    assert claim.judgement.reasons == ("doubted",)
    assert str(caught.value).endswith("; inconclusive: its forwarder is slow")


def test_doubts_are_about_the_margin_that_is_claimed():
    """The cell's own margin is another one, if the body of the test has one."""
    of = dataclasses.replace(
        slowdown(1.02), doubts=lambda margin: {Verdict.WITHIN: "the mean is larger"} if margin.relative < 0.2 else {}
    )
    assert (of <= "10%").judgement.reasons == ("doubted",)
    assert (of <= "30%").judgement.verdict is Verdict.WITHIN


def test_a_margin_is_a_margin_or_its_text():
    assert (slowdown(1.02) <= "10%,0.5ms").judgement == (slowdown(1.02) <= Margin(0.1, 0.0005)).judgement
    assert slowdown(1.3) <= "10%,10ms"


def test_a_margin_that_does_not_fit_the_metric_is_named():
    with pytest.raises(UsageError, match=r"^margin '1pp' has a floor in percentage points, and response time per conn"):
        bool(slowdown(1.02) <= "1pp")


def test_the_mirrored_comparison_means_the_same():
    assert Margin(0.1) >= slowdown(1.02)


@pytest.mark.parametrize("margin", [0.1, 10, None])
def test_a_bare_number_could_mean_anything(margin):
    with pytest.raises(UsageError) as caught:
        slowdown(1.02) <= margin  # noqa: B015 - the comparison itself raises
    assert str(caught.value) == f"a slow-down is compared with a margin such as '10%', not with {margin!r}"


@pytest.mark.parametrize(
    ("ask", "sign"),
    [
        (operator.lt, "<"),
        (operator.gt, ">"),
        (operator.ge, ">="),
        (operator.eq, "=="),
        (operator.ne, "!="),
    ],
)
def test_no_other_comparison_asks_anything(ask, sign):
    with pytest.raises(UsageError) as caught:
        ask(slowdown(1.02), "10%")
    right = "use `measured.slowdown <= margin`, or a text such as '10%' instead of margin"
    assert str(caught.value) == f"a slow-down cannot be compared by `{sign} '10%'`; {right}"


def test_a_slow_down_alone_is_never_true():
    with pytest.raises(UsageError, match="a slow-down alone compares nothing"):
        bool(slowdown(1.02))


def test_too_little_evidence_is_neither():
    claim = slowdown(1.1) <= "10%"
    with pytest.raises(InconclusiveError) as caught:
        bool(claim)
    assert caught.value.judgement is claim.judgement
    assert claim.judgement.reasons == ("straddles",)
    assert str(caught.value) == claim.judgement.sentence() == str(claim)
    assert isinstance(caught.value, IpperfError)
    assert not isinstance(caught.value, InvalidError)


def test_an_invalid_measurement_is_an_error():
    claim = slowdown(1.0, noise=0) <= "10%"
    assert claim.judgement.verdict is Verdict.INVALID
    with pytest.raises(InvalidError, match=r"^invalid: all 6 epochs gave exactly the same change"):
        bool(claim)


@pytest.mark.parametrize("ratio", [1.02, 1.1, 1.3])
def test_a_design_that_never_judges_says_so(ratio):
    claim = slowdown(ratio, judges=False, design="smoke") <= "10%"
    with pytest.raises(UnjudgedError, match=r"^unjudged: design smoke never judges$"):
        bool(claim)
    asked = claim.judgement
    assert (asked.verdict, asked.reasons, asked.p_exceeds) == (Verdict.UNJUDGED, ("never_judges",), None)


def test_nothing_measured_is_nothing_shown():
    with pytest.raises(InconclusiveError, match=r"^inconclusive: there is nothing to compare with$"):
        bool(Slowdown(effects=(), judges=True, design="quick") <= "10%")
    with pytest.raises(UnjudgedError, match=r"^unjudged: design paper never judges$"):
        bool(Slowdown(effects=(), judges=False, design="paper") <= "10%")


def test_alpha_is_that_of_the_look():
    assert (slowdown(1.02, alpha=0.0221) <= "10%").judgement.alpha == 0.0221
    # Between the bounds of the two levels: shown at .05, not at .001.
    assert slowdown(1.085) <= "10%"
    with pytest.raises(InconclusiveError):
        bool(slowdown(1.085, alpha=0.001) <= "10%")


def looks(*ratios, stopped=""):
    effects = tuple(effect for ratio in ratios for effect in slowdown(ratio).effects)
    return Slowdown(effects=effects, judges=True, design="standard", alpha=0.0221, looks=3, stopped=stopped)


def test_each_claim_is_answered_by_the_first_look_that_can():
    several = looks(1.09, 1.1, 1.1)
    assert several <= "50%"
    assert not several <= "1%"
    assert [(several <= margin).judgement.look for margin in ("50%", "1%", "10%")] == [1, 1, 3]


def test_why_no_other_look_was_taken_is_told_where_there_is_no_answer():
    claim = looks(1.1, stopped="the clock struck") <= "10%"
    assert "; stopped after look 1 of 3 (6 epochs): the clock struck; no design would decide it, as " in str(claim)
    assert (looks(1.02, stopped="the clock struck") <= "10%").judgement.stopped == ""


def test_the_error_survives_the_way_between_processes():
    error = InconclusiveError((slowdown(1.1) <= "10%").judgement)
    back = pickle.loads(pickle.dumps(error))
    assert back.judgement == error.judgement
    assert str(back) == str(error)


def test_a_claim_is_a_value():
    assert Claim((slowdown(1.02) <= "10%").judgement) == (slowdown(1.02) <= "10%")
