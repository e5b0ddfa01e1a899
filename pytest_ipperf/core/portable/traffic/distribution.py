"""Probability distributions of a traffic model's sizes and times, as values. Travels to hosts: Python 3.10 alone.

Names and parameters are those of textbooks; `student_t`, `cauchy` and `extreme` (Gumbel's, of largest values) have a
location and a scale. A `choice` has values with weights. An `empirical` distribution has its quantiles at equal steps
of probability from 0 to 1, with straight lines between them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pytest_ipperf.core.portable.errors import UsageError

PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "constant": ("value",),
    "uniform": ("low", "high"),
    "exponential": ("mean",),
    "normal": ("mean", "sd"),
    "lognormal": ("mu", "sigma"),
    "student_t": ("location", "scale", "df"),
    "pareto": ("scale", "shape"),
    "cauchy": ("location", "scale"),
    "extreme": ("location", "scale"),
    "gamma": ("shape", "scale"),
    "weibull": ("shape", "scale"),
    "poisson": ("mean",),
    "choice": (),
    "empirical": (),
}
"""Parameters of each distribution; `choice` and `empirical` have lists instead."""
CHOICE, CONSTANT, EMPIRICAL, POISSON = "choice", "constant", "empirical", "poisson"
_NOT_NEGATIVE = frozenset({"sd", "sigma"})
_POSITIVE = frozenset({"scale", "df", "shape"})
_POSITIVE_MEAN = frozenset({"exponential", POISSON})
_WITHOUT_UNIT = frozenset({"df", "shape", "sigma"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """Distribution with its parameters; a value below `least` becomes that, one above `most` that.

    `values` are those of a `choice`, by `weights` that need not add up to 1, or the quantiles of an `empirical` one.
    Construction raises UsageError if there is no such distribution, or if nothing can be drawn from it.
    """

    name: str
    parameters: Mapping[str, float] = field(default_factory=dict)
    values: tuple[float, ...] = ()
    weights: tuple[float, ...] = ()
    least: float = -math.inf
    most: float = math.inf

    def __post_init__(self) -> None:
        if self.name not in PARAMETERS:
            raise UsageError(f"distribution {self.name!r} does not exist; there are {', '.join(PARAMETERS)}")
        self._check_parameters()
        self._check_lists()
        if not self.least <= self.most:
            raise UsageError(f"least {self.least:g} of {self.name} is above most {self.most:g}")

    def _check_parameters(self) -> None:
        wanted = PARAMETERS[self.name]
        if set(self.parameters) != set(wanted):
            has = ", ".join(self.parameters) or "none"
            raise UsageError(f"distribution {self.name} has parameters {has}; it takes {', '.join(wanted) or 'none'}")
        for name, value in self.parameters.items():
            positive = name in _POSITIVE or (name == "mean" and self.name in _POSITIVE_MEAN)
            if not math.isfinite(value) or (positive and value <= 0) or (name in _NOT_NEGATIVE and value < 0):
                right = "above 0" if positive else "of 0 or more" if name in _NOT_NEGATIVE else "that is finite"
                raise UsageError(f"{name} of distribution {self.name} is {value:g}; it takes a number {right}")
        if self.name == "uniform" and self.parameters["low"] > self.parameters["high"]:
            low, high = self.parameters["low"], self.parameters["high"]
            raise UsageError(f"low {low:g} of distribution uniform is above high {high:g}")

    def _check_lists(self) -> None:
        if not all(map(math.isfinite, (*self.values, *self.weights))):
            raise UsageError(f"distribution {self.name} has a value or weight that is not finite")
        if self.name == CHOICE:
            _check_choice(self.values, self.weights)
        elif self.name == EMPIRICAL:
            if len(self.values) < 2 or list(self.values) != sorted(self.values) or self.weights:
                raise UsageError("distribution empirical takes quantiles alone: two numbers or more, in rising order")
        elif self.values or self.weights:
            raise UsageError(f"distribution {self.name} takes no lists of values, weights or quantiles")

    def scaled(self, unit: float) -> Distribution:
        """Return the distribution of the values multiplied by `unit`, which is above 0."""
        if unit == 1:
            return self
        if self.name == POISSON:
            raise UsageError("distribution poisson is one of counts, such as sizes in bytes; it has no times")
        parameters = {key: value if key in _WITHOUT_UNIT else value * unit for key, value in self.parameters.items()}
        if self.name == "lognormal":
            parameters["mu"] = self.parameters["mu"] + math.log(unit)
        values = tuple(value * unit for value in self.values)
        return replace(self, parameters=parameters, values=values, least=self.least * unit, most=self.most * unit)


@dataclass(frozen=True, slots=True)
class Variable:
    """Random variable: one distribution, or a mixture of several, each value from one of them by their `weights`."""

    parts: tuple[Distribution, ...]
    weights: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        _check_mixture(self.parts, self.weights)

    @classmethod
    def of(cls, value: float) -> Variable:
        """Return the variable that always has this value."""
        return cls((Distribution(name=CONSTANT, parameters={"value": value}),))

    @property
    def constant(self) -> float | None:
        """Return the value if there is only one; None otherwise."""
        only = self.parts[0]
        return only.parameters["value"] if len(self.parts) == 1 and only.name == CONSTANT else None


def _check_choice(values: tuple[float, ...], weights: tuple[float, ...]) -> None:
    if not values or len(values) != len(weights):
        raise UsageError(f"distribution choice has {len(values)} values and {len(weights)} weights; it takes as many")
    _check_weights(weights)


def _check_mixture(parts: tuple[Distribution, ...], weights: tuple[float, ...]) -> None:
    if not parts or len(parts) != len(weights):
        raise UsageError(f"a mixture has {len(parts)} distributions and {len(weights)} weights; it takes as many")
    _check_weights(weights)


def _check_weights(weights: tuple[float, ...]) -> None:
    if min(weights) < 0 or not 0 < math.fsum(weights) < math.inf:
        raise UsageError("weights are 0 or more, and not all of them 0")
