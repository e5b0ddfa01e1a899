"""A question: whether an arm is worse than the reference by no more than a margin, by one metric."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_ipperf.core.design.margin import Margin

BESIDE = FAILED_SHARE, SLOW_SHARE = "failed_share", "slow_share"
"""Metrics of questions that are asked beside another one: the shares of failed and of slow connections."""


@dataclass(frozen=True, slots=True)
class Question:
    """A metric's name and the margin asked of it.

    `tail` is given for the share of slow connections alone: a connection is slow if it exceeds the reference's 99th
    percentile by more than `tail`; `margin` then bounds the share.
    """

    metric: str
    margin: Margin
    tail: Margin | None = None

    def __str__(self) -> str:
        return f"{self.metric} {self.margin}" if self.tail is None else f"{self.metric} {self.margin} {self.tail}"

    @property
    def beside(self) -> bool:
        """Return whether the question is asked beside that of the item's metric, which cannot be green without it."""
        return self.metric in BESIDE
