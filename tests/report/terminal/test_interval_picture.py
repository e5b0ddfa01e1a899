from pytest_ipperf.core.design.cell import Arm
from pytest_ipperf.core.design.margin import Margin
from pytest_ipperf.core.inference.claim import Slowdown
from pytest_ipperf.core.inference.effect import compare
from pytest_ipperf.core.inference.verdict import judge
from pytest_ipperf.core.measurement.run import Run
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.report.terminal.interval_picture import interval_picture

FOUR, SIX = Arm(4, "native"), Arm(6, "native")


def judgement(metric, reference, value_of, margin):
    """Return a judgement of six epochs; `value_of` returns the value of IPv6 by epoch."""
    runs = [
        Run(
            arm=arm, epoch=epoch, block=0, slot=0, warmup=False, started_at=0.0, attempted=1, failed={},
            values={metric: reference if arm == FOUR else value_of(epoch)},
        )
        for epoch in range(6)
        for arm in (FOUR, SIX)
    ]  # fmt: skip
    return judge(compare(runs, SIX, FOUR, METRICS[metric].metric), Margin.parse(margin))


def picture_of_time(slower):
    found = judgement("response_time", 0.02, lambda epoch: 0.02 * (1 + slower + epoch % 3 * 0.02), "10%")
    return interval_picture(found)


def picture_of_loss(more, margin="0.5pp"):
    return interval_picture(judgement("loss", 0.1, lambda epoch: 0.1 + more + epoch % 3 * 0.001, margin))


def test_it_has_the_interval_the_zero_and_the_margin_in_order():
    bar, scale = picture_of_time(0.2)
    assert bar.index("[") < bar.index("o") < bar.index("]")
    assert scale.index("0") < scale.index("|") < bar.index("[")
    assert scale.endswith("0 = no change, | = margin 10 %")
    bar, scale = picture_of_time(-0.2)
    assert bar.index("]") < scale.index("0") < scale.index("|")


def test_shares_are_drawn_in_percentage_points():
    bar, scale = picture_of_loss(0.02)
    assert scale.index("0") < scale.index("|") < bar.index("[")
    assert bar.endswith("   +2.1 pp [+2.0, +2.2]")
    assert scale.endswith("0 = no change, | = margin 0.5 pp")
    assert picture_of_loss(0.02, "10%")[1].endswith("| = margin 1 pp")


def test_of_what_is_to_be_high_the_margin_lies_below():
    bar, scale = interval_picture(judgement("tcp_efficiency", 1.0, lambda epoch: 0.98 + epoch % 3 * 0.001, "1pp"))
    assert bar.index("[") < scale.index("|") < scale.index("0")


def test_zero_width_is_a_point():
    bar, scale = interval_picture(judgement("loss", 0.0, lambda _: 0.0, "0%"))
    assert (bar, scale) == ("o   0 pp [0, 0]", "|   0 = no change, | = margin 0 pp")


def test_without_an_effect_there_is_none():
    assert interval_picture((Slowdown(effects=(), judges=True, design="quick") <= "10%").judgement) == []
