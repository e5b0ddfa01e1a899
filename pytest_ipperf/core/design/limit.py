"""A limit: an absolute bound on a figure of one arm, such as `p95<=20ms`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from pytest_ipperf.core.closest_match import did_you_mean
from pytest_ipperf.core.design.margin import Margin
from pytest_ipperf.core.design.metric import AMOUNT, Metric
from pytest_ipperf.core.portable.errors import UsageError
from pytest_ipperf.core.portable.units import (
    parse_percent,
    parse_points,
    parse_rate,
    parse_seconds,
    rate_text,
    short_rate_text,
)

QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}
"""Quantiles of the times of all connections by figure; failed connections are infinitely slow."""
MEAN, FAILED, THROUGHPUT = "mean", "failed_share", "throughput"
FIGURES = (*QUANTILES, MEAN, FAILED, THROUGHPUT)
"""Figures that may have a limit. That of the throughput is a lower bound, all others are upper bounds."""
EXAMPLES = {**dict.fromkeys(QUANTILES, "20ms"), MEAN: "5ms", FAILED: "0.1pp", THROUGHPUT: "90mbit"}

_NAME = re.compile(rf"({'|'.join(FIGURES)})[<>]=(.+)")
_TIMES = ((1.0, "s"), (1e-3, "ms"))
_ORDINALS = {"p50": "median", "p95": "95th percentile", "p99": "99th percentile", "p999": "99.9th percentile"}
_SOURCES = {
    **dict.fromkeys(QUANTILES, "RFC 2330, section 11.3 (percentile)"),
    MEAN: "W. S. Gosset, The probable error of a mean, 1908",
    FAILED: "RFC 2330, section 11.2 (a singleton that is lost is counted)",
    THROUGHPUT: "RFC 6349, section 4.1; W. S. Gosset, 1908",
}


@dataclass(frozen=True, slots=True)
class Limit:
    """Bound on a figure: `value` in seconds, as a share (0..1) or in bit/s."""

    figure: str
    value: float

    @classmethod
    def parse(cls, figure: str, text: object) -> Limit:
        """Return the limit of a figure from its text: `20ms`, `0.1pp`, `90mbit`; raise UsageError if it is wrong."""
        if figure not in FIGURES:
            nearest = did_you_mean(figure, FIGURES)
            raise UsageError(f"figure {figure!r} has no limits; there are {', '.join(FIGURES)}{nearest}")
        example = f"use a text such as {EXAMPLES[figure]!r}"
        if not isinstance(text, str):
            raise UsageError(f"limit {text!r} of {figure} has no unit; {example}")
        try:
            value = float(f"{_PARSERS.get(figure, parse_seconds)(text):.15g}")
        except UsageError:
            raise UsageError(f"limit {text!r} of {figure} is not {_KINDS.get(figure, 'a time')}; {example}") from None
        if not value or (figure == FAILED and value >= 1):
            raise UsageError(f"limit {text!r} of {figure} is not {_RANGES.get(figure, 'more than 0')}; {example}")
        return cls(figure, value)

    @classmethod
    def parse_pair(cls, text: str) -> Limit:
        """Return the limit of an option's text, `p95:20ms`; raise UsageError if it is wrong."""
        figure, colon, value = (part.strip() for part in text.partition(":"))
        if not colon:
            raise UsageError(f"limit {text!r} is not a figure and its limit, such as p95:20ms")
        return cls.parse(figure, value)

    @classmethod
    def named(cls, name: str) -> Limit | None:
        """Return the limit that a metric's name states, such as `p95<=20ms`; None for any other name."""
        match = _NAME.fullmatch(name)
        if match is None:
            return None
        try:
            return cls.parse(match[1], match[2])
        except UsageError:
            return None

    @property
    def name(self) -> str:
        """Name of the question in records and of its history: `p95<=20ms`, `throughput>=90mbit`."""
        return f"{self.figure}{self.sign}{self._text}"

    @property
    def sign(self) -> str:
        """Comparison that the limit asks for."""
        return ">=" if self.figure == THROUGHPUT else "<="

    @property
    def is_share(self) -> bool:
        """Return whether the figure is judged as a share of connections, as quantiles are."""
        return self.figure == FAILED or self.figure in QUANTILES

    @property
    def allowed(self) -> float:
        """Largest acceptable share (0..1) of connections that are slower, or failed; only for shares."""
        return self.value if self.figure == FAILED else float(f"{1 - QUANTILES[self.figure]:.15g}")

    @property
    def margin(self) -> Margin:
        """Margin of the judged change: the allowed share, or no distance beyond the limit."""
        return Margin(0.0, self.allowed, "1") if self.is_share else Margin(0.0)

    @property
    def shown(self) -> str:
        """Value for people: `20 ms`, `0.1 %`, `90 Mbit/s`."""
        return self.text_of(self.value)

    def text_of(self, value: float) -> str:
        """Return a value of the figure for people; unlike `seconds_text`, with digits below a second."""
        if self.figure == FAILED:
            return share_text(value)
        if self.figure == THROUGHPUT:
            return rate_text(value)
        size, unit = next((pair for pair in _TIMES if value >= pair[0]), (1e-6, "us"))
        return f"{value / size:.4g} {unit}"

    @property
    def metric(self) -> Metric:
        """Quantity that is judged: a share of connections, or the distance of a mean from the limit."""
        lower = self.figure != THROUGHPUT
        return Metric(
            name=self.name,
            title=f"{self.title} at {'most' if lower else 'least'} {self.shown}",
            unit="1" if self.is_share else "bit/s" if self.figure == THROUGHPUT else "s",
            direction="lower_is_better" if lower else "higher_is_better",
            scale="difference" if self.is_share else "distance",
            location="mean",
            resolution=1e-6 if self.figure == MEAN else 0.0,
            formula=self._formula,
            source=_SOURCES[self.figure],
            words=AMOUNT,
            margin=str(self.margin),
            label=self.figure,
            # As those of the shares of failed and of slow connections.
            design_effect=(2.0 if self.figure == FAILED else 1.0) if self.is_share else 0.0,
            exceeds_level=0.2 if self.figure == FAILED else 1.0,
        )

    @property
    def title(self) -> str:
        """The figure in words: `95th percentile`, `failed connections`."""
        words = {MEAN: "mean", FAILED: "failed connections", THROUGHPUT: "throughput"}
        return {**_ORDINALS, **words}[self.figure]

    @property
    def _text(self) -> str:
        if self.figure == FAILED:
            return f"{_digits(100 * self.value)}pp"
        if self.figure == THROUGHPUT:
            return short_rate_text(self.value)
        size, unit = next((pair for pair in _TIMES if self.value >= pair[0]), (1e-6, "us"))
        return f"{_digits(self.value / size)}{unit}"

    @property
    def _formula(self) -> str:
        if self.figure == FAILED:
            return "failed connections / attempted ones, at most the limit"
        if self.is_share:
            share = share_text(self.allowed)
            return f"connections slower than {self.shown}, or failed / attempted ones, at most {share}"
        return f"(mean of the epochs' means - {self.shown}) / {self.shown}; failed connections: the deadline"


_PARSERS: Mapping[str, Callable[[str], float]] = {
    FAILED: lambda text: parse_percent(text) if text.strip().endswith("%") else parse_points(text),
    THROUGHPUT: parse_rate,
}
_KINDS = {FAILED: "a share in percentage points", THROUGHPUT: "a rate"}
_RANGES = {FAILED: "between 0 and 100 percentage points"}


def share_text(share: float) -> str:
    """Return a share of connections for people: 0.05 -> `5 %`."""
    return f"{100 * share:.3g} %"


def measured_text(limit: Limit, value: float) -> str:
    """Return what a limit was judged by: the share of connections beyond it, or the figure itself."""
    if limit.figure in QUANTILES:
        return f"{share_text(value)} beyond"
    return limit.text_of(value)


def _digits(number: float) -> str:
    """Format `number` with all of its digits and without an exponent."""
    return format(Decimal(f"{number:.15g}"), "f")
