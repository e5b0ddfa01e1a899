"""A question: whether an arm is worse than the reference by no more than a margin, by one metric."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_ipperf.core.design.margin import Margin


@dataclass(frozen=True, slots=True)
class Question:
    """A metric's name and the margin asked of it."""

    metric: str
    margin: Margin

    def __str__(self) -> str:
        return f"{self.metric} {self.margin}"
