"""A question: what is asked of an arm, that one of its metrics is no worse than the reference by more than a margin."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_ipperf.core.design.margin import Margin


@dataclass(frozen=True, slots=True)
class Question:
    """`metric` is its name."""

    metric: str
    margin: Margin

    def __str__(self) -> str:
        return f"{self.metric} {self.margin}"
