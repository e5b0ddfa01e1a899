"""A question: whether an arm is worse than the reference by no more than a margin, by one metric."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_ipperf.core.design.limit import Limit
from pytest_ipperf.core.design.margin import Margin

BESIDE = FAILED_SHARE, SLOW_SHARE = "failed_share", "slow_share"
"""Metrics of questions that are asked beside another one: the shares of failed and of slow connections."""


def is_component(metric: str) -> bool:
    """Return whether a metric's name is that of a component: a share of failed or slow connections, or a limit."""
    return metric in BESIDE or Limit.named(metric) is not None


@dataclass(frozen=True, slots=True)
class Question:
    """A metric's name and the margin asked of it.

    `tail` is given for the share of slow connections alone: a connection is slow if it exceeds the reference's 99th
    percentile by more than `tail`; `margin` then bounds the share. A question about a `limit` has its name as metric,
    and nothing to do with the reference.
    """

    metric: str
    margin: Margin
    tail: Margin | None = None
    limit: Limit | None = None

    @classmethod
    def about(cls, limit: Limit) -> Question:
        """Return the question whether the figure of an arm keeps its limit."""
        return cls(limit.name, limit.margin, limit=limit)

    def __str__(self) -> str:
        if self.limit is not None:
            return self.metric
        return f"{self.metric} {self.margin}" if self.tail is None else f"{self.metric} {self.margin} {self.tail}"

    @property
    def compares(self) -> bool:
        """Return whether the answer needs the reference."""
        return self.limit is None

    @property
    def beside(self) -> bool:
        """Return whether the question is asked beside that of the item's metric, which cannot be green without it."""
        return self.metric in BESIDE or self.limit is not None
