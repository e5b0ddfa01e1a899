"""Draw values of random variables from a seeded generator. Travels to hosts: Python 3.10 alone.

A draw costs about a microsecond, so that a schedule of many streams can be made while it is sent.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from random import Random

from pytest_ipperf.core.portable.traffic.distribution import Distribution, Variable

Draw = Callable[[], float]
"""Function that returns one value after another."""
_TINY = 1e-300
_MOST_EXACT = 500.0
"""Mean above which a Poisson variable is drawn as a rounded normal one, which is hardly different there."""


def drawing(variable: Variable, random: Random) -> Draw:
    """Return the function that draws values of `variable`, independent of each other."""
    draws = [_of(part, random) for part in variable.parts]
    return draws[0] if len(draws) == 1 else _mixed(draws, variable.weights, random)


def _of(part: Distribution, random: Random) -> Draw:
    draw, least, most = _MAKERS[part.name](part, random), part.least, part.most
    if least == -math.inf and most == math.inf:
        return draw
    return lambda: min(max(draw(), least), most)


def _mixed(draws: Sequence[Draw], weights: Sequence[float], random: Random) -> Draw:
    place = _place(weights, random)
    return lambda: draws[place()]()  # noqa: PLW0108 - a new place each time


def _place(weights: Sequence[float], random: Random) -> Callable[[], int]:
    """Return the function that draws the place of one of the weights, by their sizes; never one of 0."""
    places = [place for place, weight in enumerate(weights) if weight]
    limits, uniform = list(accumulate(weights[place] for place in places)), random.random
    last, total = len(places) - 1, limits[-1]
    return lambda: places[min(last, bisect(limits, total * uniform()))]


def _constant(of: Distribution, _random: Random) -> Draw:
    value = of.parameters["value"]
    return lambda: value


def _uniform(of: Distribution, random: Random) -> Draw:
    low, width, uniform = of.parameters["low"], of.parameters["high"] - of.parameters["low"], random.random
    return lambda: low + width * uniform()


def _exponential(of: Distribution, random: Random) -> Draw:
    mean, uniform = of.parameters["mean"], random.random
    return lambda: -mean * math.log(1.0 - uniform())


def _normal(of: Distribution, random: Random) -> Draw:
    mean, sd, draw = of.parameters["mean"], of.parameters["sd"], random.gauss
    return lambda: draw(mean, sd)


def _lognormal(of: Distribution, random: Random) -> Draw:
    mu, sigma, draw = of.parameters["mu"], of.parameters["sigma"], random.gauss
    return lambda: math.exp(draw(mu, sigma))


def _student_t(of: Distribution, random: Random) -> Draw:
    location, scale, df = (of.parameters[name] for name in ("location", "scale", "df"))
    normal, gamma = random.gauss, random.gammavariate
    # A standard normal variable over the root of a chi-squared one over its degrees of freedom.
    return lambda: location + scale * normal(0.0, 1.0) * math.sqrt(df / (2 * max(gamma(df / 2, 1.0), _TINY)))


def _pareto(of: Distribution, random: Random) -> Draw:
    scale, power, uniform = of.parameters["scale"], -1.0 / of.parameters["shape"], random.random
    return lambda: scale * (1.0 - uniform()) ** power


def _cauchy(of: Distribution, random: Random) -> Draw:
    location, scale, uniform = of.parameters["location"], of.parameters["scale"], random.random
    return lambda: location + scale * math.tan(math.pi * (uniform() - 0.5))


def _extreme(of: Distribution, random: Random) -> Draw:
    location, scale, uniform = of.parameters["location"], of.parameters["scale"], random.random
    return lambda: location - scale * math.log(max(_TINY, -math.log(max(_TINY, uniform()))))


def _gamma(of: Distribution, random: Random) -> Draw:
    shape, scale, draw = of.parameters["shape"], of.parameters["scale"], random.gammavariate
    return lambda: draw(shape, scale)


def _weibull(of: Distribution, random: Random) -> Draw:
    power, scale, uniform = 1.0 / of.parameters["shape"], of.parameters["scale"], random.random
    return lambda: scale * (-math.log(1.0 - uniform())) ** power


def _poisson(of: Distribution, random: Random) -> Draw:
    mean, uniform = of.parameters["mean"], random.random
    if mean > _MOST_EXACT:
        normal, sd = random.gauss, math.sqrt(mean)
        return lambda: max(0.0, float(round(normal(mean, sd))))
    limit = math.exp(-mean)

    def draw() -> float:
        count, product = 0, uniform()
        while product > limit:
            count, product = count + 1, product * uniform()
        return float(count)

    return draw


def _choice(of: Distribution, random: Random) -> Draw:
    values, place = of.values, _place(of.weights, random)
    return lambda: values[place()]


def _empirical(of: Distribution, random: Random) -> Draw:
    quantiles, steps, uniform = of.values, len(of.values) - 1, random.random

    def draw() -> float:
        whole, part = divmod(uniform() * steps, 1)
        low = quantiles[int(whole)]
        return low + part * (quantiles[int(whole) + 1] - low)

    return draw


_MAKERS: Mapping[str, Callable[[Distribution, Random], Draw]] = {
    "constant": _constant,
    "uniform": _uniform,
    "exponential": _exponential,
    "normal": _normal,
    "lognormal": _lognormal,
    "student_t": _student_t,
    "pareto": _pareto,
    "cauchy": _cauchy,
    "extreme": _extreme,
    "gamma": _gamma,
    "weibull": _weibull,
    "poisson": _poisson,
    "choice": _choice,
    "empirical": _empirical,
}
