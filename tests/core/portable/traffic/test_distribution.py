"""Distributions that do not exist, or that nothing can be drawn from."""

import pytest

from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.traffic.distribution import Distribution, Variable

NAMES = "constant, uniform, exponential, normal, lognormal, student_t, pareto, cauchy, extreme, gamma, weibull, "
WRONG = [
    ({"name": "zipf"}, f"distribution 'zipf' does not exist; there are {NAMES}poisson, choice, empirical"),
    ({"name": "uniform", "low": 1}, "distribution uniform has parameters low; it takes low, high"),
    ({"name": "choice", "low": 1}, "distribution choice has parameters low; it takes none"),
    ({"name": "exponential", "mean": 0}, "mean of distribution exponential is 0; it takes a number above 0"),
    ({"name": "normal", "mean": 0, "sd": -1}, "sd of distribution normal is -1; it takes a number of 0 or more"),
    ({"name": "constant", "value": float("inf")}, "value of distribution constant is inf; it takes a number that is"),
    ({"name": "uniform", "low": 2, "high": 1}, "low 2 of distribution uniform is above high 1"),
    ({"name": "constant", "value": 1, "least": 3, "most": 2}, "least 3 of constant is above most 2"),
    ({"name": "choice", "values": (1, 2), "weights": (1,)}, "distribution choice has 2 values and 1 weights; it takes"),
    ({"name": "choice", "values": (1,), "weights": (0,)}, "weights are 0 or more, and not all of them 0"),
    ({"name": "choice", "values": (1,), "weights": (float("nan"),)}, "has a value or weight that is not finite"),
    ({"name": "empirical", "values": (2, 1)}, "empirical takes quantiles alone: two numbers or more, in rising order"),
    ({"name": "constant", "value": 1, "values": (1,)}, "constant takes no lists of values, weights or quantiles"),
]
OF_OBJECT = ("name", "values", "weights", "least", "most")


@pytest.mark.parametrize(("given", "sentence"), WRONG)
def test_a_wrong_distribution_is_refused_in_one_sentence(given, sentence):
    parameters = {key: value for key, value in given.items() if key not in OF_OBJECT}
    own = {key: value for key, value in given.items() if key in OF_OBJECT}
    with pytest.raises(UsageError) as error:
        Distribution(**own, parameters=parameters)
    assert sentence in str(error.value)


def test_a_mixture_has_as_many_weights_as_parts():
    one = Distribution(name="constant", parameters={"value": 1})
    with pytest.raises(UsageError, match="a mixture has 2 distributions and 1 weights; it takes as many"):
        Variable((one, one))


def test_counts_have_no_times():
    with pytest.raises(UsageError, match="distribution poisson is one of counts, such as sizes in bytes"):
        Distribution(name="poisson", parameters={"mean": 3}).scaled(1e-3)


def test_only_a_constant_is_known_before_it_is_drawn():
    assert Variable.of(5).constant == 5
    assert Variable((Distribution(name="exponential", parameters={"mean": 3}),)).constant is None
