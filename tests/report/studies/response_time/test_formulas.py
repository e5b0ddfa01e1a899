"""Figures of Ghazzawi and Lee (MITRE), in milliseconds; each cell has 10 values."""

import math
import random

import pytest

from pytest_ipperf.core.portable.errors import InvalidError
from pytest_ipperf.report.studies.response_time.formulas import study_increase, study_mean_interval

N = 10


def ten_values(mean, low, high):
    """Return any 10 values with this mean and the spread given by the printed interval of 1.96 standard errors."""
    spread = (high - low) / 2 / 1.96 * math.sqrt(N)
    return [mean + sign * spread * math.sqrt((N - 1) / N) for sign in (-1, 1) for _ in range(N // 2)]


@pytest.mark.parametrize(
    ("mean", "low", "high"),
    [(417.7, 409.0, 426.3), (1404.8, 1253.5, 1556.0), (27645.0, 24661.9, 30628.1), (3835.2, 3566.4, 4104.1)],
)
def test_intervals_of_means(mean, low, high):
    interval = study_mean_interval(ten_values(mean, low, high))
    assert interval.estimate == pytest.approx(mean)
    assert interval.low == pytest.approx(low, abs=0.11)
    assert interval.high == pytest.approx(high, abs=0.11)


# Reference cell, test cell (both mean, low, high), printed difference interval of table 6-1, percent, level.
# No level where it depends on digits that are not printed: 81 or 82 for HTTP tunnel 1, 61.95 for HTTP v6 1000.
CELLS = {
    "HTTP v6 500": ((417.7, 409.0, 426.3), (424.0, 416.8, 431.2), (-3.66, 16.32), 1.5, 85),
    "HTTP tunnel 1": ((6.7, 4.7, 8.6), (8.7, 5.0, 12.4), (-1.70, 5.78), 30.4, None),
    "HTTP tunnel 1000": ((813.1, 796.2, 830.1), (916.0, 905.0, 927.0), (84.79, 120.95), 12.7, 99),
    # The study prints this lower bound without its sign.
    "HTTP v6 1000": ((813.1, 796.2, 830.1), (816.8, 800.8, 832.8), (-16.94, 24.28), 0.4, None),
    "FTP v6 10": ((1404.8, 1253.5, 1556.0), (1137.1, 982.5, 1291.7), (-459.08, -76.30), -19.1, 98),
    "FTP v6 100": ((9468.9, 7644.7, 11293.0), (8229.8, 7234.2, 9225.4), (-3106.57, 628.45), -13.1, 86),
    "FTP tunnel 100": ((9468.9, 7644.7, 11293.0), (8553.2, 7018.8, 10087.7), (-3031.3, 1200.06), -9.7, 76),
    "SMTP v6 1": ((104.8, 90.9, 118.7), (73.1, 61.0, 85.2), (-48.07, -15.47), -30.3, 99),
    "SMTP v6 10": ((689.1, 562.8, 815.4), (716.2, 551.6, 880.8), (-156.99, 211.25), 3.9, 59),
    "SMTP v6 500": ((27645.0, 24661.9, 30628.1), (37430.9, 37240.8, 37621.0), (6990.24, 12581.62), 35.4, 99),
    "SMTP tunnel 10": ((689.1, 562.8, 815.4), (709.2, 553.0, 865.5), (-158.17, 198.45), 2.9, 57),
    "IMAP v6 200": ((3835.2, 3566.4, 4104.1), (4211.6, 4193.3, 4229.9), (124.35, 628.37), 9.8, 98),
    "IMAP tunnel 100": ((2276.5, 2080.2, 2472.7), (2264.2, 2231.7, 2296.7), (-198.37, 173.81), -0.5, 54),
    "IMAP tunnel 200": ((3835.2, 3566.4, 4104.1), (4338.3, 4181.6, 4495.0), (223.44, 782.72), 13.1, 99),
}


@pytest.mark.parametrize("cell", CELLS)
def test_printed_differences_are_reproduced(cell):
    reference, test, (low, high), percent, level = CELLS[cell]
    found = study_increase(ten_values(*reference), ten_values(*test))
    # All inputs are printed with one decimal, so a centre is known to .1 and a half-width to about .07.
    assert found.increase.estimate == pytest.approx((low + high) / 2, abs=0.11)
    assert (found.increase.high - found.increase.low) / 2 == pytest.approx((high - low) / 2, abs=0.075)
    # One unit of the last printed place, and the effect of a mean of 6.7, known to .05, on its share.
    assert found.percent == pytest.approx(percent, abs=0.11 + 10 / reference[0])
    if level is not None:
        assert found.confidence_level == level


def test_intervals_own_up_to_what_they_cover():
    mean = study_mean_interval(ten_values(417.7, 409.0, 426.3))
    assert mean.confidence == pytest.approx(0.918, abs=5e-4)
    increase = study_increase(ten_values(6.7, 4.7, 8.6), ten_values(8.7, 5.0, 12.4)).increase
    assert increase.confidence == 0.9
    assert increase.df == 14


def test_coverage_is_that_which_the_intervals_own_up_to():
    rng, count = random.Random(20240610), 2000
    covered = [0, 0]
    for _ in range(count):
        reference, test = ([rng.gauss(100, 5) for _ in range(N)] for _ in range(2))
        mean, difference = study_mean_interval(test), study_increase(reference, test).increase
        covered[0] += mean.low <= 100 <= mean.high
        covered[1] += difference.low <= 0 <= difference.high
    # Four standard errors: .0061 and .0067.
    assert covered[0] / count == pytest.approx(0.918, abs=0.025)
    assert covered[1] / count == pytest.approx(0.900, abs=0.027)


def test_no_difference_at_all_is_a_confidence_of_50():
    values = [1.0, 2.0, 3.0]
    found = study_increase(values, values)
    assert (found.increase.estimate, found.percent, found.confidence_level) == (0, 0, 50)


@pytest.mark.parametrize(
    ("reference", "test", "words"),
    [
        ([1.0], [1.0, 2.0], "1 values have no spread; the study's formulas need at least 2"),
        ([1.0, 2.0], [], "0 values have no spread; the study's formulas need at least 2"),
        ([1.0, 1.0], [2.0, 2.0], "the study's increase needs a spread and a positive reference mean"),
        ([-1.0, 1.0], [2.0, 3.0], "the study's increase needs a spread and a positive reference mean"),
    ],
)
def test_values_without_an_increase(reference, test, words):
    with pytest.raises(InvalidError) as caught:
        study_increase(reference, test)
    assert str(caught.value) == words
