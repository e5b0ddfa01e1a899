"""Values drawn from distributions, compared with scipy's by Kolmogorov-Smirnov and chi-squared tests of fixed seeds."""

import math
from random import Random
from typing import Any

import numpy as np
import pytest
import scipy.stats

from pytest_ipperf.core.portable.traffic.distribution import PARAMETERS, Distribution, Variable
from pytest_ipperf.core.portable.traffic.draw import drawing

COUNT = 4000
LEAST_P = 0.001
CONTINUOUS: dict[str, tuple[dict[str, float], Any]] = {
    "uniform": ({"low": 100, "high": 320}, scipy.stats.uniform(100, 220)),
    "exponential": ({"mean": 4.29}, scipy.stats.expon(scale=4.29)),
    "normal": ({"mean": 34.8352, "sd": 4.3915}, scipy.stats.norm(34.8352, 4.3915)),
    "lognormal": ({"mu": 2.0, "sigma": 0.5}, scipy.stats.lognorm(0.5, scale=math.exp(2.0))),
    "student_t": (
        {"location": 41.6994, "scale": 0.104821, "df": 0.704073},
        scipy.stats.t(0.704073, 41.6994, 0.104821),
    ),
    "pareto": ({"scale": 1.1, "shape": 0.95}, scipy.stats.pareto(0.95, scale=1.1)),
    "cauchy": ({"location": 10, "scale": 2}, scipy.stats.cauchy(10, 2)),
    "extreme": ({"location": 120, "scale": 36}, scipy.stats.gumbel_r(120, 36)),
    "gamma": ({"shape": 2.5, "scale": 3}, scipy.stats.gamma(2.5, scale=3)),
    "weibull": ({"shape": 1.7, "scale": 5}, scipy.stats.weibull_min(1.7, scale=5)),
}


def of(name, **parameters):
    return Variable((Distribution(name=name, parameters=parameters),))


def values(variable, count=COUNT, seed=1):
    draw = drawing(variable, Random(seed))
    return [draw() for _ in range(count)]


def test_every_distribution_with_parameters_is_compared_with_one_of_scipy():
    assert {*CONTINUOUS, "constant", "poisson", "choice", "empirical"} == set(PARAMETERS)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_values_have_the_distribution_of_scipy(name):
    parameters, expected = CONTINUOUS[name]
    sample = values(of(name, **parameters))
    assert scipy.stats.kstest(sample, expected.cdf).pvalue > LEAST_P
    # The same test finds a parameter that is wrong by a tenth of the spread: it can fail.
    moved = [value + 0.1 * (expected.ppf(0.75) - expected.ppf(0.25)) for value in sample]
    assert scipy.stats.kstest(moved, expected.cdf).pvalue < LEAST_P


@pytest.mark.parametrize("name", [each for each in CONTINUOUS if each not in ("student_t", "pareto", "cauchy")])
def test_moments_are_those_of_the_distribution(name):
    parameters, expected = CONTINUOUS[name]
    sample = values(of(name, **parameters))
    assert np.mean(sample) == pytest.approx(expected.mean(), abs=4 * expected.std() / math.sqrt(COUNT))
    assert np.std(sample) == pytest.approx(expected.std(), rel=0.12)


@pytest.mark.parametrize("name", ["student_t", "pareto", "cauchy"])
def test_quantiles_of_distributions_without_a_mean_are_right(name):
    parameters, expected = CONTINUOUS[name]
    sample = sorted(values(of(name, **parameters)))
    for share in (0.25, 0.5, 0.75):
        reached = expected.cdf(sample[int(share * COUNT)])
        assert reached == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / COUNT))


@pytest.mark.parametrize("mean", [0.56, 12.0, 800.0])
def test_poisson_counts_have_mean_and_variance_of_their_mean(mean):
    sample = values(of("poisson", mean=mean))
    assert all(value == int(value) >= 0 for value in sample)
    assert np.mean(sample) == pytest.approx(mean, abs=4 * math.sqrt(mean / COUNT))
    assert np.var(sample) == pytest.approx(mean, rel=0.12)


def test_a_constant_is_always_the_same():
    assert set(values(of("constant", value=10.0), 5)) == {10.0}


def test_choices_come_as_often_as_their_weights_say():
    chosen = Distribution(name="choice", values=(27, 28, 99, 33), weights=(0.8, 0.15, 0.0, 0.05))
    sample = values(Variable((chosen,)))
    seen = [sample.count(value) for value in (27, 28, 33)]
    assert sum(seen) == COUNT
    assert scipy.stats.chisquare(seen, [0.8 * COUNT, 0.15 * COUNT, 0.05 * COUNT]).pvalue > LEAST_P


def test_an_empirical_distribution_has_straight_lines_between_its_quantiles():
    sample = values(Variable((Distribution(name="empirical", values=(10, 20, 60)),)))
    assert scipy.stats.kstest(sample, lambda x: np.interp(x, (10, 20, 60), (0, 0.5, 1))).pvalue > LEAST_P


def test_a_mixture_draws_each_part_by_its_weight():
    constant = Distribution(name="constant", parameters={"value": 10.75})
    mixed = Variable((Distribution(name="exponential", parameters={"mean": 4.29}), constant), (0.6, 0.4))
    sample = values(mixed)
    others = [value for value in sample if value != 10.75]
    assert scipy.stats.binomtest(len(others), COUNT, 0.6).pvalue > LEAST_P
    assert scipy.stats.kstest(others, scipy.stats.expon(scale=4.29).cdf).pvalue > LEAST_P


def test_limits_hold():
    cut = Distribution(name="normal", parameters={"mean": 0, "sd": 5}, least=-1, most=2)
    sample = values(Variable((cut,)))
    assert (min(sample), max(sample)) == (-1, 2)
    assert len(set(sample)) > 100


@pytest.mark.parametrize("name", CONTINUOUS)
def test_a_scaled_distribution_draws_the_scaled_values(name):
    one = Distribution(name=name, parameters=CONTINUOUS[name][0])
    plain, scaled = values(Variable((one,)), 50), values(Variable((one.scaled(1e-3),)), 50)
    assert scaled == pytest.approx([value / 1000 for value in plain])


def test_the_same_seed_draws_the_same_values_and_another_seed_others():
    variable = of("gamma", shape=2.0, scale=3.0)
    assert values(variable, 20) == values(variable, 20)
    assert values(variable, 20) != values(variable, 20, seed=2)
